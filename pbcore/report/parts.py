"""What integrations say of cells whose models answer elsewhere (a record's `served`), such as behind a server."""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import pandas as pd

from pbcore.extensions import provided


class Section(Protocol):
    """A section of a report: its title, its lines, and a sentence under them."""

    title: str
    note: str

    def lines(self, cells: Iterable[tuple[str, Mapping[str, Any]]]) -> list[str]:
        """A line per model, from (model, `served` of a record) of each cell."""


def sections() -> tuple[Section, ...]:
    """The sections of the integrations that are here."""
    return provided("report")


def elsewhere(cells: pd.DataFrame) -> pd.Series:
    """Which rows are of models that answered elsewhere."""
    if "served" not in cells:
        return pd.Series(False, index=cells.index)
    return cells["served"].map(lambda told: isinstance(told, dict)).astype(bool)


def told(cells: pd.DataFrame) -> list[tuple[str, Mapping[str, Any]]]:
    """(model, `served`) of each cell that has it."""
    those = cells[elsewhere(cells)]
    return list(zip(those["model"], those["served"], strict=True)) if len(those) else []


def lines(cells: Iterable[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """The lines of all sections on these cells."""
    known = list(cells)
    return [line for section in sections() for line in section.lines(known)]
