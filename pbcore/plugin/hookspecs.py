"""pbcore's own pytest hooks, by which neighbours take part in a run of cells."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from pbcore.grid.cellid import CellName
    from pbcore.models.base import Model
    from pbcore.results.record import SampleRecord


class Asked(Protocol):
    """What is known of a cell whose model answers elsewhere, in place of what clock and loop
    measure.
    """

    def rounds(self) -> list[float]:
        """The cell's seconds; empty if it has none of its own."""

    def rates(self) -> dict[str, Any]:
        """Rates of forwards by the model's own counters, as fields of the record; empty if they
        aren't known.
        """

    def absent(self) -> dict[str, str]:
        """Why the cell has no time, or its samples no forwards (`seconds`, `tokens_per_step`)."""

    def part(self, samples: Sequence[SampleRecord]) -> Any:
        """The record's `served`, for these answers."""


@pytest.hookspec(firstresult=True)
def pytest_pbcore_asking(
    item: pytest.Item, cell_id: str, model: Model
) -> AbstractContextManager[Asked] | None:
    """Surrounds the decoding of a cell whose model answers elsewhere.

    Args:
        item: the cell's test.
        model: of the cell.

    Returns:
        The surrounding context; None for a model that isn't the plugin's.
    """


def pytest_pbcore_check(config: pytest.Config, cells: Collection[CellName]) -> None:
    """On the controller, before the first cell of these. Raises pytest.UsageError if these cells
    can't be run.
    """


def pytest_pbcore_begin(config: pytest.Config) -> None:
    """On the controller, before the first cell, once the run directory is this run's alone."""


def pytest_pbcore_summary(config: pytest.Config) -> list[str]:
    """Lines for the end of the terminal's summary."""
    return []
