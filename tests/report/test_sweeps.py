"""Score over the length of the canvas, from runs that differ in it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pbcore.base.errors import InputError
from pbcore.report.sweeps import canvas_length, over_length
from pbcore.results import CellRecord, SampleRecord
from pbcore.results.rundir import StoredCell
from pbcore.tasks import load_task
from tests.results import factory

Entry = tuple[CellRecord, list[SampleRecord]]


def stored(*entries: tuple[object, object]) -> list[StoredCell]:
    return [StoredCell(cell, tuple(samples)) for cell, samples in entries]  # type: ignore[arg-type]


def sized(
    tokens: int | None,
    sampler: str = "random-k2",
    right: float = 1.0,
    task: str = "waiting_line/copy",
) -> Entry:
    """A cell with this canvas length; None: the task's own."""
    cell, samples = factory.cell(task=task, sampler=sampler, right=right, length="3-6")
    options = {} if tokens is None else {"max_new_tokens": tokens}
    return replace(cell, conditions=replace(cell.conditions, options=options)), samples


class TestLength:
    def test_a_curve_per_sampler_over_the_canvas_length(self) -> None:
        """A run without --max-new-tokens stands at the task's own 32 tokens; intervals are those of
        the cells.
        """
        pairs = [
            (None, "random-k2", 0.5),
            (16, "random-k2", 1.0),
            (64, "random-k2", 0.25),
            (16, "random-k1", 1.0),
        ]
        drawing = over_length(stored(*(sized(*pair) for pair in pairs)))
        assert sorted(
            (row["sampler"], row["canvas length"], row["score"]) for row in drawing.rows
        ) == [
            ("random-k1", 16, 100),
            ("random-k2", 16, 100),
            ("random-k2", 32, 50),
            ("random-k2", 64, 25),
        ]
        assert all(row["low"] < row["high"] for row in drawing.rows)
        [axis] = [axis for axis in drawing.figure.axes if axis.get_visible()]
        lines = [list(line.get_xdata()) for line in axis.lines if line.get_linestyle() != "None"]
        assert [16, 32, 64] in lines
        assert list(axis.get_xticks()) == [16, 32, 64]
        assert [16] in lines

    def test_own_lengths(self) -> None:
        """A longer n has a longer canvas; a pre-filled one has no length to choose, and other tasks
        aren't known.
        """
        cell, _ = factory.cell(task="waiting_line/copy", length="5,15")
        assert (
            canvas_length(cell)
            == load_task("waiting_line/copy", n=15, limit=1).samples[0].max_new_tokens
        )
        steps = replace(cell, conditions=replace(cell.conditions, options={"cot": True}))
        assert (
            canvas_length(steps)
            == load_task("waiting_line/copy", n=15, limit=1, cot=True).samples[0].max_new_tokens
        )
        assert canvas_length(replace(cell, task="puzzle/sudoku", length="")) == 64
        assert canvas_length(replace(cell, task="list_ops/shuffle")) is None
        assert canvas_length(replace(cell, task="unknown/task")) is None

    def test_the_tasks_own_length_is_one_of_them(self) -> None:
        """So a cell with 32 tokens stands beside none of another length."""
        with pytest.raises(InputError, match="two canvas lengths"):
            over_length(stored(sized(None), sized(32, "random-k1")))
