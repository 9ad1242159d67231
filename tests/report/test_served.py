"""Models behind servers in tables, curves and summaries: shown with what is known, and no more."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from pbcore.analysis.tradeoff import mean_interval
from pbcore.report import summary
from pbcore.report.plots import figure, level_lines
from pbcore.report.speed import speed_figure, write_speed
from pbcore.report.tables import markdown, terminal, trade_off_tables
from pbcore.results import CellRecord, frame
from pbcore.results.served import Served
from tests.results import factory

TASKS = ("waiting_line/copy", "waiting_line/sort")


def served(task: str, right: float, rate: float | None = 4.0, **told: object) -> CellRecord:
    """A cell of `far`, which reports no forwards."""
    cell, _ = factory.cell("far", task, "ar", right=right)
    known = {"provider": "host", "kind": "openai", "concurrency": 8, "asked": 20, "kept": 0, **told}
    empty = dict.fromkeys(("nfe_mean", "nfe_median", "nfe_max", "tokens_per_step", "tokens_per_forward"))
    return replace(
        cell,
        **empty,
        absent={"nfe": "not reported"},
        samples_per_second=rate,
        served=Served(**known),  # type: ignore[arg-type]
    )


def cells(*more: CellRecord) -> pd.DataFrame:
    near = [factory.cell("near", task, f"confidence-k{k}")[0] for task in TASKS for k in (1, 2)]
    return frame([*near, *more])


BOTH = (served(TASKS[0], 0.5), served(TASKS[1], 0.9))


class TestTables:
    def test_a_row_with_score_and_dash(self) -> None:
        """The score stands there, the rate is a dash, and a note says whose it is."""
        (table,) = trade_off_tables(cells(*BOTH))
        far = terminal(table).split("far\n")[1].splitlines()[0]
        assert far.split()[:1] == ["ar"]
        assert "50" in far
        assert far.endswith("–")
        assert "– tokens per step: not reported by far" in terminal(table)
        assert "| far | `ar` |" in markdown(table)


class TestCurves:
    def test_a_level_with_its_interval(self) -> None:
        """The mean over the tasks with the interval of that mean, in percent."""
        panel = cells(*BOTH)
        scores = [
            (cell.scores["accuracy"].mean, cell.scores["accuracy"].low, cell.scores["accuracy"].high) for cell in BOTH
        ]
        assert level_lines(panel)["far · ar"] == pytest.approx([100 * value for value in mean_interval(scores)])

    def test_no_level_without_every_task(self) -> None:
        """Means over different tasks can't be compared, so a model that lacks one has no line."""
        assert level_lines(cells(BOTH[0])) == {}

    def test_drawn_as_a_horizontal_line(self) -> None:
        """From one side of the panel to the other, and named in the legend."""
        drawn = figure([[("panel", cells(*BOTH))]], "score")
        (axis,) = drawn.axes
        flat = [line for line in axis.lines if list(line.get_xdata()) == [0, 1]]
        assert [line.get_ydata()[0] for line in flat] == pytest.approx([70.0])
        assert "far · ar" in [text.get_text() for text in drawn.legends[0].get_texts()]


class TestSpeed:
    def test_both_kinds_have_a_place(self) -> None:
        """Each model's points lie at its answers per second and mean score."""
        drawn = speed_figure(cells(*BOTH))
        points = {
            (round(x, 3), round(y, 1)) for line in drawn.axes[0].lines for x, y in zip(*line.get_data(), strict=True)
        }
        assert (4.0, 70.0) in points
        near = cells()["samples_per_second"].iloc[0]
        assert any(x == round(near, 3) for x, _ in points)

    def test_kept_answers_have_no_time(self, tmp_path: Path) -> None:
        """Without a time of its own a served model has no point, and without such a point there is no figure."""
        assert write_speed(cells(*(replace(cell, samples_per_second=None) for cell in BOTH)), tmp_path) == []
        assert write_speed(cells(), tmp_path) == []
        assert [path.name for path in write_speed(cells(*BOTH), tmp_path)] == ["speed.png"]


class TestSummary:
    def test_totals_and_unknowns(self) -> None:
        """Counts are summed over cells; a sum that lacks a part is a dash."""
        first = served(TASKS[0], 0.5, tokens_in=10, tokens_out=5, cost=0.5, outcomes={"length": 2})
        second = served(TASKS[1], 0.5, tokens_in=20, tokens_out=None, cost=0.25, outcomes={"empty": 1})
        text = summary([first, second])
        assert (
            "far: model id not reported at host (openai); 40 requests, up to 8 at once; tokens 30 in, – out; " in text
        )
        assert "0.7500 USD; empty 1; cut off 2" in text


class TestRecord:
    def test_read_as_written(self) -> None:
        """A record with a server's part is read as it was written; one without has none."""
        cell = served(TASKS[0], 0.5, cost=0.5, models={"m": 20}, counters={"denoising_steps": 3.0})
        assert CellRecord.from_json(cell.to_json()) == cell
        assert CellRecord.from_json(factory.cell()[0].to_json()).served is None
