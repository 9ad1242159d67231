"""What an answer says: lists of items, rows of a Latin square, rows of a sudoku, read leniently and strictly."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

from pbcore.tasks.base import Sample


def lenient_list(text: str) -> list[str]:
    """The items after the last `[`, up to the next `]`, both optional; split at commas, spaces and double quotes stripped.

    Empty items are dropped. The official benchmark's `accuracy` reads lists like this.
    """
    inside = text.rsplit("[", 1)[-1].split("]", 1)[0]
    items = (item.strip().strip('"').strip() for item in inside.split(","))
    return [item for item in items if item]


def strict_list(text: str) -> list[str] | None:
    """The items of the last list in brackets, every item in double quotes, split at comma and space; None where that isn't so.

    What stands around the list doesn't matter. The official benchmark's `accuracy_strict` reads lists like this.
    """
    start = text.rfind("[")
    end = text.find("]", start)
    if start < 0 or end < 0:
        return None
    items = text[start + 1 : end].split(", ")
    quoted = all(len(item) >= 2 and item[0] == item[-1] == '"' and '"' not in item[1:-1] for item in items)
    return [item[1:-1] for item in items] if quoted else None


def csv_rows(text: str, symbols: Collection[str]) -> list[list[str]]:
    """The lines of comma-separated cells that hold every symbol and nothing else.

    A row that repeats a symbol in an extra cell is among them, as in the official benchmark.
    """
    rows = ([cell.strip() for cell in line.split(",")] for line in text.split("\n"))
    return [row for row in rows if set(row) == set(symbols)]


def digit_rows(text: str, side: int = 4) -> list[str]:
    """The lines that have exactly `side` digits, without what stands between them."""
    rows = (re.sub(r"[^0-9]", "", line) for line in text.split("\n"))
    return [row for row in rows if len(row) == side]


def lines(text: str) -> list[str]:
    """The lines that are not blank, stripped."""
    return [line.strip() for line in text.split("\n") if line.strip()]


def label_part(sample: Sample, key: str, kind: type) -> Any:
    """One part of a sample's label. Raises ValueError, naming task and sample, where the label lacks it."""
    part = sample.label.get(key) if isinstance(sample.label, dict) else None
    if not isinstance(part, kind):
        raise ValueError(
            f"{sample.task}, sample {sample.index}: its scorer needs a label with {key}, given {sample.label!r}"
        )
    return part


def label_text(sample: Sample) -> str:
    """A sample's label where it is one text. Raises ValueError, naming task and sample, where it isn't."""
    if not isinstance(sample.label, str):
        raise ValueError(
            f"{sample.task}, sample {sample.index}: its scorer needs a text as label, given {sample.label!r}"
        )
    return sample.label


def quoted(items: Sequence[str]) -> str:
    """Items for a message: `"A B", "C D"`."""
    return ", ".join(f'"{item}"' for item in items)
