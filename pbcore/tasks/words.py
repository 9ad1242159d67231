"""Lossless word-level tokenization: `"".join(tokens(text)) == text`.

A word includes the space before it; list punctuation (`["`, `", "`, `"]`) is one token; digits,
single capitals and everything else are single characters, so sudoku rows and Latin squares have one
token per cell. Used by the models `ideal` and `tiny`.
"""

import re

PATTERN = r"""\["|", "|"\]| ?[A-Za-z](?:[A-Za-z]|'(?=[a-z]))+| a(?![A-Za-z])|[\s\S]"""
_TOKEN = re.compile(PATTERN)


def tokens(text: str) -> list[str]:
    """The tokens of `text` in order; joined, they are `text` again."""
    return _TOKEN.findall(text)
