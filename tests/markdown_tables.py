"""Tables of Markdown without the spaces that align their source."""

from __future__ import annotations

import re


def unpadded(text: str) -> str:
    """The text with `| a | b |` for each row of its tables, and `|---|---:|` under heads."""
    return "\n".join(_row(line) if line.startswith("|") else line for line in text.split("\n"))


def _row(line: str) -> str:
    cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
    if all(re.fullmatch(":?-+:?", cell) for cell in cells):
        return f"|{'|'.join('---:' if cell.endswith(':') else '---' for cell in cells)}|"
    return f"| {' | '.join(cells)} |"
