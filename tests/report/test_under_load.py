"""Speed under load: rates over rows or requests at a time, and the roofline through them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pbcore.report.markdown import report_text
from pbcore.report.plots import write_plots
from pbcore.report.under_load import bends, load_levels, roof, under_load_figure
from pbcore.results import CellRecord
from tests.results import factory

COPY = "waiting_line/copy"
SORT = "waiting_line/sort"


def cell(
    at_once: int | None, rate: float, task: str = COPY, model: str = "near", right: float = 1.0
) -> CellRecord:
    """Twenty samples at so many answers per second, each of ten tokens."""
    name = "confidence-k2" + ("" if at_once is None else f"+x{at_once}")
    made, _ = factory.cell(model, task, name, right=right)
    n = made.n_samples
    return replace(
        made,
        conditions=replace(made.conditions, at_once=at_once),
        seconds=n / rate,
        samples_per_second=rate,
        tokens_per_second=10 * rate,
    )


def model_cells(fixed: float, each: float, task: str = COPY) -> list[CellRecord]:
    return [cell(b, 1 / (fixed / b + each), task) for b in (1, 4, 16, 64)]


class TestRoof:
    @pytest.mark.parametrize(("fixed", "each"), [(0.5, 0.01), (0.0, 0.2), (0.3, 0.0)])
    def test_what_made_the_rates_is_found(self, fixed: float, each: float) -> None:
        """And no rate lies above the lines."""
        at_once = np.array([1.0, 4.0, 16.0, 64.0])
        rates = 1 / (fixed / at_once + each)
        found = roof(at_once, rates)
        assert found is not None
        assert (found.fixed, found.each) == pytest.approx((fixed, each), abs=1e-9)
        assert (found.most(at_once) >= rates * (1 - 1e-9)).all()

    def test_two_levels_have_none(self) -> None:
        assert roof(np.array([1.0, 4.0]), np.array([1.0, 2.0])) is None


class TestLevels:
    def test_rates_of_all_tasks_together(self) -> None:
        """Answers over seconds, not a mean of rates; cells that don't say how many at a time are in
        no row.
        """
        table = load_levels(
            factory.rows(
                [
                    cell(1, 2.0),
                    cell(1, 6.0, SORT, right=0.5),
                    cell(4, 8.0),
                    cell(4, 8.0, SORT),
                    cell(None, 1),
                ]
            )
        )
        assert [row["at once"] for row in table] == [1, 4]
        assert [row["answers/s"] for row in table] == pytest.approx([3.0, 8.0])
        assert [row["tokens/s"] for row in table] == pytest.approx([30.0, 80.0])
        assert [row["score %"] for row in table] == pytest.approx([75.0, 100.0])

    def test_only_tasks_that_have_every_level(self) -> None:
        """A task with few samples lacks the high ones, and would change what is compared."""
        table = load_levels(factory.rows([cell(1, 2.0), cell(4, 4.0), cell(1, 50.0, SORT)]))
        assert [row["answers/s"] for row in table] == pytest.approx([2.0, 4.0])

    def test_nothing_without_levels(self, tmp_path: Path) -> None:
        cells = factory.rows([cell(None, 2.0)])
        assert load_levels(cells) == []
        assert [path.name for path in write_plots(cells, tmp_path)] == ["curves.png"]


class TestReport:
    def test_section(self) -> None:
        """The bend of A = 0.5 s and C = 0.05 s is at 10."""
        report = factory.report(model_cells(0.5, 0.05))
        (line,) = bends(load_levels(report.rows))
        assert line.endswith("the roofline bends at about 10.0")
        text = report_text(report)
        assert "## Speed under load" in text
        assert line in text.replace("\\", "")

    def test_figure(self) -> None:
        """A line and a dotted roofline for each model; the roofline has its bend at 10."""
        table = load_levels(
            factory.rows([*model_cells(0.5, 0.05), *(cell(b, 3.0, model="far") for b in (1, 4))])
        )
        first, second = under_load_figure(table).axes
        solid = [line for line in first.lines if line.get_linestyle() == "-"]
        (dotted,) = [line for line in first.lines if line.get_linestyle() == ":"]
        assert [list(line.get_xdata()) for line in solid] == [[1, 4, 16, 64], [1, 4]]
        assert [line.get_fillstyle() for line in solid] == [
            "full",
            "none",
        ]  # one policy of two models
        assert len({(line.get_color(), line.get_marker()) for line in solid}) == 1
        assert list(dotted.get_xdata()) == pytest.approx([1, 4, 10, 16, 64])
        assert list(dotted.get_ydata()) == pytest.approx([2, 8, 20, 20, 20])
        assert [text.get_text() for text in second.texts] == ["1", "4", "16", "64", "1", "4"]
