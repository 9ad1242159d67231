"""Models behind servers in tables, curves and summaries: shown with what is known, and no more."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from pbcore.analysis.tradeoff import mean_interval
from pbcore.extras.servers.record import SECTION, Served
from pbcore.report.looks import COLOURS, MARKERS
from pbcore.report.plots import figure, speed_figure, write_plots
from pbcore.report.rows import CellRow
from pbcore.report.scopes import scopes
from pbcore.report.speed_quality import speed_quality
from pbcore.report.summary import summary
from pbcore.report.tables import trade_off_section, trade_off_terminal
from pbcore.results import CellRecord
from tests.markdown_tables import unpadded
from tests.results import factory

TASKS = ("waiting_line/copy", "waiting_line/sort")


def served(task: str, right: float, rate: float | None = 4.0, **told: object) -> CellRecord:
    """A cell of `far`, which reports no forwards."""
    cell, _ = factory.cell("far", task, "ar", right=right)
    known = {"provider": "host", "kind": "openai", "concurrency": 8, "asked": 20, "kept": 0, **told}
    empty = dict.fromkeys(
        ("nfe_mean", "nfe_median", "nfe_max", "tokens_per_step", "tokens_per_forward")
    )
    return replace(
        cell,
        **empty,
        absent={"nfe": "not reported"},
        samples_per_second=rate,
        served=Served(**known),  # type: ignore[arg-type]
    )


def cells(*more: CellRecord) -> list[CellRow]:
    near = [factory.cell("near", task, f"confidence-k{k}")[0] for task in TASKS for k in (1, 2)]
    return factory.rows([*near, *more])


BOTH = (served(TASKS[0], 0.5), served(TASKS[1], 0.9))


class TestTables:
    def test_a_row_with_score_and_dash(self) -> None:
        """The score stands there, the rate is a dash, and a note says whose it is."""
        (scope,) = scopes(cells(*BOTH))[1]
        far = trade_off_terminal(scope).split("far\n")[1].splitlines()[0]
        assert far.split()[:1] == ["ar"]
        assert "50" in far
        assert far.endswith("–")
        assert "– tokens per step: not reported by far" in trade_off_terminal(scope)
        other = replace(BOTH[0], model="away", id=BOTH[0].id.replace("far", "away"))
        (scope,) = scopes(cells(*BOTH, other))[1]
        assert "– tokens per step: not reported by far, away\n" in f"{trade_off_terminal(scope)}\n"
        assert "| far | `ar` |" in unpadded(trade_off_section(scope).markdown())


class TestCurves:
    def test_a_level_with_its_interval(self) -> None:
        """The mean over the tasks with the interval of that mean, in percent."""
        panel = cells(*BOTH)
        scores = [
            (
                cell.scores["accuracy"].mean,
                cell.scores["accuracy"].low,
                cell.scores["accuracy"].high,
            )
            for cell in BOTH
        ]
        (level,) = speed_quality(panel).levels
        assert level.name == "far · ar"
        assert (level.score, level.low, level.high) == pytest.approx(
            [100 * value for value in mean_interval(scores)]
        )

    def test_no_level_without_every_task(self) -> None:
        """Means over different tasks can't be compared, so a model that lacks one has no line."""
        assert speed_quality(cells(BOTH[0])).levels == []

    def test_drawn_as_a_horizontal_line(self) -> None:
        """From one side of the panel to the other, and named in the legend."""
        drawn = figure([[("panel", cells(*BOTH))]], "score")
        (axis,) = drawn.axes
        flat = [line for line in axis.lines if list(line.get_xdata()) == [0, 1]]
        assert [line.get_ydata()[0] for line in flat] == pytest.approx([70.0])
        assert "far · ar" in [text.get_text() for text in drawn.legends[0].get_texts()]


def drawn_files(table: list[CellRow], folder: Path) -> list[str]:
    """The names of a run's plots, which are all there."""
    files = write_plots(table, folder)
    assert all(path.exists() for path in files)
    return [path.name for path in files]


class TestSpeed:
    def test_both_kinds_have_a_place(self) -> None:
        """Each model's points lie at its answers per second and mean score."""
        drawn = speed_figure(cells(*BOTH))
        points = {
            (round(x, 3), round(y, 1))
            for line in drawn.axes[0].lines
            for x, y in zip(*line.get_data(), strict=True)
        }
        assert (4.0, 70.0) in points
        near: Any = cells()[0]
        assert any(x == round(near["samples_per_second"], 3) for x, _ in points)

    def test_kept_answers_have_no_time(self, tmp_path: Path) -> None:
        """Without a time of its own a served model has no point, and without such a point there is
        no figure.
        """
        kept = [replace(cell, samples_per_second=None) for cell in BOTH]
        assert "speed.png" not in drawn_files(cells(*kept), tmp_path / "kept")
        assert "speed.png" not in drawn_files(cells(), tmp_path / "near")
        assert "speed.png" in drawn_files(cells(*BOTH), tmp_path / "both")

    def test_points_and_fronts_by_model(self) -> None:
        """A server's points are hollow and without a line between them; a line joins each model's
        Pareto front.
        """
        slow = replace(
            factory.cell("near", TASKS[0], "random-k1", right=0.2)[0], samples_per_second=1.0
        )
        drawn = speed_figure(
            factory.rows([slow, factory.cell("near", TASKS[0])[0], served(TASKS[0], 0.5)])
        )
        (axis,) = drawn.axes
        points = [container.lines[0] for container in axis.containers]  # type: ignore[attr-defined]
        assert [(line.get_markerfacecolor(), line.get_linestyle()) for line in points] == [
            (COLOURS[0], "None"),
            ("white", "None"),
        ]
        assert [(line.get_color(), line.get_marker()) for line in points] == list(
            zip(COLOURS, MARKERS, strict=True)
        )[:2]
        fronts = [
            list(line.get_xdata())
            for line in axis.lines
            if line.get_marker() == "None" and len(line.get_xdata())
        ]
        assert fronts == [[pytest.approx(20 / 1.5)], [4.0]]
        assert (axis.get_xscale(), axis.get_ylim(), axis.get_title()) == (
            "log",
            (-4, 104),
            "waiting_line",
        )
        legend = drawn.legends[0]
        assert [text.get_text() for text in legend.get_texts()] == ["near", "far (server)"]
        assert [line.get_markerfacecolor() for line in legend.legend_handles] == [
            COLOURS[0],
            "white",
        ]  # type: ignore[union-attr]

    def test_looks_come_again_after_eight_models(self) -> None:
        """In points and legend alike."""
        drawn = speed_figure(
            factory.rows([factory.cell(f"model-{i}", TASKS[0])[0] for i in range(10)])
        )
        points = [container.lines[0] for container in drawn.axes[0].containers]  # type: ignore[attr-defined]
        for lines in (points, drawn.legends[0].legend_handles):
            looks = [
                (line.get_color(), line.get_marker(), line.get_markerfacecolor()) for line in lines
            ]  # type: ignore[union-attr]
            assert looks == [(COLOURS[i % 8], MARKERS[i % 8], COLOURS[i % 8]) for i in range(10)]

    def test_a_panel_per_category(self) -> None:
        """Each as wide as those of the curves; what failed, is a dummy or has no score has no
        point.
        """
        drawn = speed_figure(
            factory.rows([factory.cell("near", task)[0] for task in (TASKS[0], "puzzle/sudoku")])
        )
        assert [axis.get_title() for axis in drawn.axes] == ["waiting_line", "puzzle"]
        assert tuple(drawn.get_size_inches()) == pytest.approx((7.0, 2.75 + 0.05 + 0.42 + 0.2))
        drawn.canvas.draw()
        parts = [axis.get_tightbbox() for axis in drawn.axes] + [
            text.get_window_extent() for text in drawn.texts
        ]
        parts.append(drawn.legends[0].get_window_extent())
        assert not [
            (i, j)
            for i, one in enumerate(parts)
            for j, other in enumerate(parts[:i])
            if one.overlaps(other)
        ]

    def test_type_is_that_of_the_curves(self) -> None:
        """Titles and labels at 9 points, ticks and legend at 8."""
        drawn = speed_figure(cells(*BOTH))
        (axis,) = drawn.axes
        assert {text.get_text(): text.get_fontsize() for text in (axis.title, *drawn.texts)} == {
            "waiting_line": 9,
            "mean score (%)": 9,
            "answers per second": 9,
        }
        assert axis.xaxis.get_major_ticks()[0].label1.get_fontsize() == 8
        assert {text.get_fontsize() for text in drawn.legends[0].get_texts()} == {8}

    def test_only_timed_and_scored_cells_count(self, tmp_path: Path) -> None:
        """A server whose only cell failed or has no score brings no figure."""
        scored = served(TASKS[0], 0.5)
        for change in ({"status": "error"}, {"headline": "order"}, {"samples_per_second": 0.0}):
            assert "speed.png" not in drawn_files(cells(replace(scored, **change)), tmp_path / "no")  # type: ignore[arg-type]
        assert drawn_files(factory.rows([replace(scored, status="error")]), tmp_path / "none") == []
        assert not (tmp_path / "none").exists()
        assert drawn_files(factory.rows([scored]), tmp_path / "a" / "b") == ["speed.png"]


class TestSummary:
    def test_totals_and_unknowns(self) -> None:
        """Counts are summed over cells; a sum that lacks a part is a dash."""
        first = served(TASKS[0], 0.5, tokens_in=10, tokens_out=5, cost=0.5, outcomes={"length": 2})
        second = served(
            TASKS[1], 0.5, tokens_in=20, tokens_out=None, cost=0.25, outcomes={"empty": 1}
        )
        text = summary(factory.report([first, second]), 1000)
        assert (
            "far: model id not reported at host (openai); 40 requests, up to 8 at once; tokens 30"
            " in, – out; " in text
        )
        assert "0.7500 USD; empty 1; cut off 2" in text


def facts(*told: dict[str, object]) -> str:
    """The line of a model, without its name."""
    records = [served(TASKS[i % 2], 0.5, **one) for i, one in enumerate(told)]
    (line,) = SECTION.lines(
        (cell.model, asdict(cell.served)) for cell in records if cell.served is not None
    )
    assert line.startswith("far: ")
    return line.removeprefix("far: ")


class TestLines:
    def test_all_that_is_known(self) -> None:
        """Ids, servers with versions, days, requests, tokens, first tokens and endings of all cells
        together.
        """
        one = {
            "models": {"m-2": 1, "m-1": 19},
            "version": "v9",
            "first_asked": "2026-01-02T03",
            "tokens_in": 1000,
        }
        two = {
            "last_asked": "2026-01-05T06",
            "first_token": 0.5,
            "concurrency": 16,
            "kept": 3,
            "tokens_in": 500,
        }
        three = {
            "first_token": 0.25,
            "outcomes": {"refusal": 1, "content_filter": 1200, "stop": 9},
            "tokens_in": 0,
        }
        assert (
            facts(one, two, three)
            == "m-1, m-2 at host (openai v9), host (openai); 2026-01-02 to 2026-01-05; 60 requests,"
            " up to 16 at once, 3 answers kept from an earlier run; tokens 1,500 in, – out;"
            " first token after 0.38 s (median); refused 1; filtered 1,200"
        )

    def test_one_day_is_named_once(self) -> None:
        """And without a price there is no cost, unless one cell has some: then the sum is not
        known.
        """
        day = {"first_asked": "2026-01-02T03", "last_asked": "2026-01-02T04"}
        assert "; 2026-01-02; 20 requests, up to 8 at once; tokens" in facts(day)
        assert "USD" not in facts(day)
        assert "– USD" in facts({"cost": 0.5}, {})

    def test_a_line_per_model(self) -> None:
        """In the order of their cells."""
        told = asdict(BOTH[0].served)  # type: ignore[call-overload]
        lines = SECTION.lines([("b", told), ("a", told), ("b", told)])
        assert [line.partition(":")[0] for line in lines] == ["b", "a"]
        assert "40 requests" in lines[0]


class TestRecord:
    def test_read_as_written(self) -> None:
        """A record with a server's part is read as it was written; one without has none."""
        cell = served(TASKS[0], 0.5, cost=0.5, models={"m": 20}, counters={"denoising_steps": 3.0})
        assert CellRecord.from_json(cell.to_json()) == cell
        assert CellRecord.from_json(factory.cell()[0].to_json()).served is None
