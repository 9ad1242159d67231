"""`--axis`: what speed is, in headlines, plots and on the page."""

from __future__ import annotations

import json
from dataclasses import replace
from math import nan
from pathlib import Path
from typing import Any, get_args

import pytest

from pbcore.cli import main
from pbcore.costs.calls import CallShape
from pbcore.costs.kinds import SpeedAxis
from pbcore.report.axes import AXES, STEPS, chosen_axis, plotted_note, priced_axes
from pbcore.report.page.cards import cards_of
from pbcore.report.page.html import read_element
from pbcore.report.plots import trade_off_figures
from pbcore.report.report import read_report
from pbcore.report.speed_quality import speed_quality
from pbcore.report.style import log_ticks
from pbcore.results import RunDir, create
from tests.results import factory

TASKS = ("waiting_line/copy", "waiting_line/sort")


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    """Two tasks of different sizes, whose fastest sampler differs between calls and tokens."""
    entries = []
    for task, n in zip(TASKS, (100, 300), strict=True):
        for sampler, nfe, rows, tokens in (
            ("confidence-k1", 32, 32, 3200),
            ("eb-0.1", 8, 8, 800),
            ("spec-8", 4, 32, 3200),
        ):
            record, samples = factory.cell(
                task=task, sampler=sampler, right=1.0, n=n, nfe=nfe, rows=rows, tokens=tokens
            )
            calls = {CallShape(rows // nfe, 100, 0, 32): nfe * n}
            entries.append((replace(record, calls=calls), samples))
    return factory.write(create(tmp_path, "a"), entries)


class TestAxes:
    def test_each_name_has_one(self) -> None:
        """The names that the command line takes."""
        assert list(AXES) == list(get_args(SpeedAxis))

    def test_the_papers_without_a_choice(self, run: RunDir) -> None:
        """Tokens per step."""
        cells = read_report([run.path]).rows
        assert chosen_axis({}, cells) == STEPS

    def test_seconds_are_those_of_the_first_price_list(self, run: RunDir) -> None:
        """As measured without one."""
        cells = read_report([run.path]).rows
        assert chosen_axis({"axis": "seconds"}, cells).key == "seconds_per_answer"
        priced = [{**row, "price_seconds:h200": 0.5, "price_seconds:a100": 0.7} for row in cells]
        assert chosen_axis({"axis": "seconds"}, priced) == priced_axes(priced)[0]
        assert chosen_axis({"axis": "seconds"}, priced).key == "price_seconds:h200"
        assert chosen_axis({"axis": "rows"}, priced) == AXES["rows"]


class TestCurves:
    def test_the_front_of_costs_is_at_the_left(self, run: RunDir) -> None:
        """Of equal scores the cheapest alone is on the front."""
        cells = read_report([run.path]).rows
        shown = speed_quality(cells, axis=AXES["tokens"])
        rates = {point.sampler: point.rate for curve in shown.curves for point in curve.points}
        assert rates == {"confidence-k1": 3200, "eb-0.1": 800, "spec-8": 3200}
        assert shown.front("tiny") == [(800, 100.0)]
        assert (shown.lowest, shown.highest) == (800, 3200)

    def test_policies_of_a_cost_keep_their_cheapest_points(self) -> None:
        """What costs more and is no better is left out; points by rising cost."""
        facts = [("eb-0.1", 8, 0.9), ("eb-0.1+b8", 16, 0.8), ("eb-0.1+b4", 32, 1.0)]
        cells = factory.rows(
            factory.cell(sampler=s, nfe=nfe, right=right)[0] for s, nfe, right in facts
        )
        (curve,) = speed_quality(cells, axis=AXES["calls"], by_policy=True).curves
        assert [point.rate for point in curve.points] == [8, 32]

    def test_figures_name_the_axis_and_hold_its_points(self, run: RunDir) -> None:
        """Of the means and of each task."""
        cells = read_report([run.path]).rows
        drawn = trade_off_figures(cells, AXES["tokens"])
        (axis,) = drawn["curves.png"].axes
        assert axis.get_xlabel().startswith("tokens forwarded per answer (lower is better)")
        low, high = axis.get_xlim()
        assert low < 800 < 3200 < high
        assert len(drawn) == 2

    def test_none_without_a_value(self, run: RunDir) -> None:
        """As of a run from before tokens were counted; the note says so."""
        cells = read_report([run.path]).rows
        old: Any = [{**row, "tokens_forwarded": nan} for row in cells]
        assert trade_off_figures(old, AXES["tokens"]) == {}
        assert "no cell has value" in plotted_note(old, AXES["tokens"])
        some = [*old[:1], *cells[1:]]
        assert "1 have no value, of 6 scored cells" in plotted_note(some, AXES["tokens"])
        assert plotted_note(cells, AXES["tokens"]) == ""

    @pytest.mark.parametrize(("low", "high"), [(1, 2000), (7.9, 8.1), (0.016, 0.13), (5, 5)])
    def test_ticks(self, low: float, high: float) -> None:
        """At least two, at most nine, near the data, of a narrow axis, too."""
        ticks = log_ticks(low, high)
        assert 2 <= len(ticks) <= 9
        assert all(low * 0.8 <= tick <= high * 1.2 for tick in ticks)


class TestReports:
    def test_everywhere(self, run: RunDir, capsys: pytest.CaptureFixture[str]) -> None:
        """Terminal, report.md and page say and draw the axis of `--axis`, instead of the run's."""
        run.write_run({"axis": "calls"})
        out = run.path.parent / "out"
        assert main(["report", str(run.path), "--width", "4000"]) == 0
        told = capsys.readouterr().out
        assert "confidence-k1 (ranked in forwards)" in told
        assert "tiny   spec-8   " in told
        command = ["report", str(run.path), "--axis", "tokens", "-o", str(out), "--width", "4000"]
        assert main(command) == 0
        html = (out / "report.html").read_text(encoding="utf-8")
        report = (out / "report.md").read_text(encoding="utf-8")
        for text in (capsys.readouterr().out, report, html):
            assert "eb-0.1" in text.partition("(ranked in tokens forwarded)")[0]
        assert read_element(html, "page")["points"]["axes"][0]["key"] == "tokens_forwarded"

    def test_seconds_of_a_price_list(self, run: RunDir, capsys: pytest.CaptureFixture[str]) -> None:
        """`--axis seconds --price` is the verdict by that list alone, of cards, too."""
        facts = {"axis": "seconds", "price": ["a100"]}
        report = read_report([run.path])
        (card,) = cards_of(replace(report, facts=facts).verdicts.chosen())
        ranked = "(ranked in seconds on a100, computed, 1 answer at a time)"
        assert card.verdict.lines[0].endswith(ranked)
        assert main(["report", str(run.path), "--axis", "seconds", "--price", "a100"]) == 0
        told = capsys.readouterr().out
        assert told.count("(ranked ") == told.count("(ranked in seconds on a100") == 1

    def test_the_note_on_what_is_left_out(self, run: RunDir) -> None:
        """In report.md, where an axis was asked for."""
        out = run.path.parent / "out"
        cell = next(iter(run.read_cells()))
        run.write_cell(replace(cell.cell, tokens_forwarded=None), cell.samples)
        assert main(["report", str(run.path), "--axis", "tokens", "-o", str(out)]) == 0
        assert "Curves by tokens forwarded" in (out / "report.md").read_text(encoding="utf-8")
        assert main(["report", str(run.path), "-o", str(out)]) == 0
        assert "Curves by" not in (out / "report.md").read_text(encoding="utf-8")

    def test_an_axis_that_there_is_not(
        self, run: RunDir, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """A usage error that names all; in run.json one that names the file."""
        with pytest.raises(SystemExit):
            main(["report", str(run.path), "--axis", "time"])
        assert "'time' is no axis of speed; write tokens-per-step" in capsys.readouterr().err
        facts = json.loads((run.path / "run.json").read_text(encoding="utf-8"))
        (run.path / "run.json").write_text(json.dumps({**facts, "axis": "time"}), encoding="utf-8")
        assert main(["report", str(run.path)]) == 2
        error = capsys.readouterr().err
        assert "run.json" in error
        assert "axis" in error
