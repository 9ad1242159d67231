"""Rows of words, or a data frame, as a table in Markdown."""

from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd
from tabulate import tabulate

from pbcore.printable import fixed
from pbcore.text import NAME, md


def word_table(head: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    """Rows of words as they are."""
    lines = [[md(word, NAME) for word in row] for row in rows]
    return tabulate(lines, head, tablefmt="github", disable_numparse=True)


def frame_table(table: pd.DataFrame, significant: int | None = None) -> str:
    """Its rows without the index; `–` for what is missing. Fractions have two decimals, or so many `significant`
    digits; whole numbers and texts stay as they are."""

    def entry(value: Any) -> Any:
        if isinstance(value, str):
            return md(value, NAME)
        if isinstance(value, float):
            return fixed(value, 2) if significant is None else f"{value:.{significant}g}"
        return value

    shown = table.astype(object).where(table.notna(), None)
    return tabulate(
        [[entry(value) for value in row] for row in shown.to_numpy().tolist()],
        list(map(str, table.columns)),
        tablefmt="github",
        colalign=["left" if shown[name].map(lambda one: isinstance(one, str)).any() else "right" for name in shown],
        missingval="–",
        disable_numparse=True,
    )
