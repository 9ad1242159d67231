"""Text as word-level tokens, losslessly: `"".join(tokens(text)) == text`.

A word takes the space before it; list punctuation (`["`, `", "`, `"]`) is one token; digits, single capitals and all else are
characters, so that sudoku rows and Latin-square symbols have one token a cell. `ideal` and `tiny` both read text this way.
"""

from __future__ import annotations

import re

PATTERN = r"""\["|", "|"\]| ?[A-Za-z](?:[A-Za-z]|'(?=[a-z]))+| a(?![A-Za-z])|[\s\S]"""
_TOKEN = re.compile(PATTERN)


def tokens(text: str) -> list[str]:
    """The tokens of `text` in order; joined they give `text` back."""
    return _TOKEN.findall(text)
