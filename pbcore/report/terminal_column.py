"""Columns of the trade-off table on the terminal."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Column:
    """A column on the terminal: the scores of its entries end in the same place, and their intervals follow."""

    header: str
    score: int  # columns of the score
    width: int
    intervals: bool

    @classmethod
    def of(cls, header: str, texts: list[str]) -> Column:
        """The narrowest column for these entries, `100`, `100 [91–100]` or a mark."""
        scores = [text.split(" ")[0] for text in texts if " " in text]
        score = max(map(len, scores or texts), default=0)
        longest = max((score + len(text) - len(text.split(" ")[0]) for text in texts), default=0)
        return cls(header, score, max([len(header), longest, *map(len, texts)]), bool(scores))

    def title(self) -> str:
        return f"{self.header:<{self.width}}" if self.intervals else f"{self.header:>{self.width}}"

    def entry(self, text: str) -> str:
        score, space, interval = text.partition(" ")
        aligned = f"{score:>{self.score}}{space}{interval}"
        return f"{aligned:<{self.width}}" if self.intervals else f"{text:>{self.width}}"


def parts_within(widths: list[int], room: int) -> list[list[int]]:
    """Column numbers in parts of about equal size that fit into `room`; a wider column is a part by itself."""
    parts: list[list[int]] = [[]]
    used = 0
    for column, width in enumerate(widths):
        if parts[-1] and used + width + 1 > room:
            parts.append([])
            used = 0
        parts[-1].append(column)
        used += width + 1
    size = -(-len(widths) // len(parts))
    even = [list(range(start, min(start + size, len(widths)))) for start in range(0, len(widths), size)]
    fits = all(sum(widths[column] + 1 for column in part) <= room for part in even)
    return even if fits else parts
