"""pbcore.report: tables, summary, report.md, curves, commands, as a reader sees them."""

from __future__ import annotations

import argparse
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pandas as pd
import pytest
from matplotlib.image import imread

from pbcore.report import summary, write_report
from pbcore.report.commands import add_parsers
from pbcore.report.plots import figure, write_plots
from pbcore.report.tables import markdown, terminal, to_frame, trade_off_tables
from pbcore.results import CellRecord, SampleRecord, create, error_cell, frame, load
from pbcore.results.rundir import StoredCell
from tests.reference import reference
from tests.results import factory

Entry = tuple[CellRecord, list[SampleRecord]]
TWO = ("waiting_line/copy", "waiting_line/shuffle")


def tables(*entries: Entry) -> list[object]:
    return list(trade_off_tables(frame(record for record, _ in entries)))


def ungraded() -> Entry:
    record, samples = factory.cell("tiny", "text_writing/w2s_easy", "threshold-0.9", headline="inclusion")
    return replace(record, headline="grammar", absent={"grammar": "no Java found"}), samples


def command(*words: object) -> int:
    parser = argparse.ArgumentParser()
    add_parsers(parser.add_subparsers(required=True))
    args = parser.parse_args([str(word) for word in words])
    status: int = args.run(args)
    return status


class TestTradeOffTables:
    def test_numbers(self) -> None:
        """Score, bounds of the interval and tokens per step stand in the cell; the mean is over the row's tasks."""
        (table,) = trade_off_tables(
            frame(
                record
                for record, _ in (
                    factory.cell(task="waiting_line/copy", right=0.9, n=100),
                    factory.cell(right=0.5, n=100, nfe=8),
                )
            )
        )
        numbers = to_frame(table).loc["tiny", "confidence-k2"]
        assert numbers["waiting_line/copy", "score"] == 90
        assert numbers["waiting_line/shuffle", "tokens_per_step"] == 4
        assert numbers["waiting_line/copy", "low"] == pytest.approx(82.56, abs=0.01)
        assert numbers["waiting_line/copy", "high"] == pytest.approx(94.48, abs=0.01)
        assert (numbers["mean", "score"], numbers["mean", "tokens_per_step"]) == (70, 3)

    def test_a_missing_task_has_no_mean(self) -> None:
        """A row that lacks a task shows so and gets no mean, for it could not be compared."""
        (table,) = trade_off_tables(
            frame(
                record
                for record, _ in (
                    factory.cell(task="waiting_line/copy"),
                    factory.cell(),
                    factory.cell(sampler="random-k1"),
                )
            )
        )
        assert table.lines[1].mean.score is None
        assert "not run" in markdown(table)

    def test_dummies_stay_out(self) -> None:
        """A model of random weights never stands in a quality table."""
        assert tables(factory.cell(dummy=True)) == []
        assert "left out of the tables" in summary([factory.cell(model="toy", dummy=True)[0]])

    def test_unmeasured_and_failed(self) -> None:
        """A score that wasn't measured is a dash with its reason, a failed cell an error with its cause."""
        failed = error_cell(
            factory.cell("tiny", "text_writing/summarization", "threshold-0.9")[0], "RuntimeError: out of memory"
        )
        text = summary([ungraded()[0], failed])
        row = next(line for line in text.splitlines() if "threshold-0.9" in line)
        assert row.split() == ["threshold-0.9", "error", "–", "–", "2.0"]
        assert "grammar (no Java found)" in text
        assert "tiny/summarization/threshold-0.9: RuntimeError: out of memory" in text

    def test_order(self) -> None:
        """Samplers are sorted as people count, tasks as in the paper."""
        (table,) = trade_off_tables(
            frame(record for record, _ in factory.grid(models=("tiny",), ks=(16, 2, 4), policies=("random",)))
        )
        assert [line.sampler for line in table.lines] == ["random-k2", "random-k4", "random-k16"]
        assert table.tasks[:2] == ("waiting_line/copy", "waiting_line/sort")


class TestIntervals:
    def both(self) -> list[CellRecord]:
        return [
            factory.cell(task=task, right=right, n=40, nfe=8)[0]
            for task, right in (("waiting_line/copy", 1.0), ("waiting_line/shuffle", 0.3))
        ]

    def test_bounds_as_they_are(self) -> None:
        """Wilson's interval is not symmetric: both bounds are shown, on the terminal, in ASCII and in Markdown."""
        (table,) = trade_off_tables(frame(self.both()))
        assert "100 [91–100] 30 [18–45] 65.0" in terminal(table)
        assert "100 [91-100] 30 [18-45] 65.0" in terminal(table, ascii=True)
        assert "| 100 [91–100] | 30 [18–45] | 65.0 | 4.0 |" in markdown(table)

    def test_scores_line_up(self) -> None:
        """Scores of a column end in the same place, whatever their interval, and so do marks without one."""
        records = [*self.both(), factory.cell(sampler="random-k1", right=0.0, n=40, nfe=8)[0]]
        (table,) = trade_off_tables(frame(records))
        lines = terminal(table).splitlines()
        first = lines[1].index("copy")
        assert [line[first : first + 3] for line in lines[3:5]] == ["100", "  ·"]
        second = lines[1].index("shuffle")
        assert [line[second : second + 8] for line in lines[3:5]] == ["30 [18–4", " 0 [0–9]"]


class TestTerminal:
    def test_fits_and_aligns(self) -> None:
        """Ten tasks stay within the width, and each part's lines end in the same column."""
        entries = factory.grid(ks=(1, 2))
        for width in (60, 80, 100, 120):
            (table,) = trade_off_tables(frame(record for record, _ in entries))
            lines = terminal(table, width).splitlines()
            assert max(map(len, lines[1:])) <= width
            assert "mean" in "".join(lines)
            assert sum("ins_idx" in line for line in lines) == 1

    def test_unlike_rates_get_a_line(self) -> None:
        """Where tokens per step differ between tasks they are shown for each."""
        text = summary(record for record, _ in (factory.cell(task="waiting_line/copy", nfe=8), factory.cell(nfe=16)))
        assert "tokens per step" in text
        assert [line.split()[-2:] for line in text.splitlines() if line.startswith("    tokens")] == [["4.0", "2.0"]]

    def test_nothing_to_say(self) -> None:
        """No cells, no text."""
        assert summary([]) == ""


class TestReport:
    def test_page(self, tmp_path: Path) -> None:
        """report.md has tables, curves that exist, PBx, speed, failures, errors and what was not measured."""
        shared, samples = factory.cell("tiny", "puzzle/sudoku", "random-k2")
        entries = [
            *factory.grid(("tiny",), TWO),
            ungraded(),
            (replace(shared, conditions=replace(shared.conditions, shared_device=True)), samples),
            (error_cell(factory.cell(sampler="ar")[0], "boom"), []),
        ]
        written = write_report(factory.write(create(tmp_path, "a"), entries).path)
        page = written[0].read_text()
        assert written[0].name == "report.md"
        assert all(path.exists() and f"]({path.name})" in page for path in written[1:])
        for heading in (
            "waiting_line: score",
            "Trade-off curves",
            "PBx",
            "Speed",
            "Wrong answers by kind",
            "Cells that could not be run",
            "Not measured",
        ):
            assert f"## {heading}" in page, heading
        assert "| command | `pytest benches` |" in page
        assert "workers shared a device" in page
        assert "tiny/shuffle/ar" in page

    def test_interrupted_and_empty_runs(self, tmp_path: Path) -> None:
        """A run that died before its first cell, or has only errors, still gets its page."""
        assert write_report(create(tmp_path, "a").path)[0].exists()
        run = factory.write(create(tmp_path, "b"), [(error_cell(factory.cell()[0], "boom"), [])])
        assert "boom" in write_report(run.path)[0].read_text()


class TestPlots:
    def test_files(self, tmp_path: Path) -> None:
        """One overview, and one figure per category and model with several tasks; not blank."""
        files = write_plots(
            frame(record for record, _ in factory.grid(tasks=("waiting_line/copy", "waiting_line/sort"))), tmp_path
        )
        assert [path.name for path in files] == [
            "curves.png",
            "curves_waiting_line_ideal.png",
            "curves_waiting_line_tiny.png",
        ]
        assert all(len({tuple(pixel) for row in imread(path)[::7, ::7] for pixel in row}) > 3 for path in files)

    def test_points_drawn(self) -> None:
        """The curve of a family passes through its cells: tokens per step and score in percent, on a log axis."""
        cells = frame(
            record for record, _ in factory.grid(models=("tiny",), tasks=("waiting_line/copy",), policies=("random",))
        )
        axis = figure([[("copy", cells)]], "score (%)").axes[0]
        line = max(axis.lines, key=lambda line: len(line.get_xdata()) if line.get_linestyle() == "-" else 0)
        assert list(line.get_xdata()) == [1, 2, 4, 8]
        assert list(line.get_ydata()) == pytest.approx([100, 85, 55, 0])
        assert axis.get_xscale() == "log"

    def test_many_families_become_fronts(self) -> None:
        """A grid of blocks has a curve per policy, the best over blocks, and says so."""
        names = (
            [f"confidence-k{k}+b{b}" for k in (1, 2) for b in (2, 4, 8, 16, 32)]
            + [f"random-k1+b{b}" for b in (2, 4, 8, 16, 32)]
            + ["threshold-0.9"]
        )
        cells = frame(factory.cell(sampler=name, nfe=32 // (2 if "k2" in name else 1))[0] for name in names)
        drawn = figure([[("x", cells)]], "score (%)")
        assert [text.get_text() for text in drawn.legends[0].get_texts()] == ["confidence", "random", "threshold"]
        assert any("best over blocks" in text.get_text() for text in drawn.texts)

    def test_nothing_to_draw(self, tmp_path: Path) -> None:
        """Without scores there are no figures."""
        assert write_plots(frame([factory.cell(dummy=True)[0]]), tmp_path) == []


class TestCommands:
    def test_report_from_what_a_ci_kept(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """A lone results.json or JUnit is enough for the tables; published tables work as well."""
        run = factory.write(create(tmp_path, "a"), factory.grid(("tiny",), TWO, ks=(1,)))
        results, _ = run.assemble()
        assert command("report", results, "--out", tmp_path / "out") == 0
        assert "confidence-k1" in capsys.readouterr().out
        assert (tmp_path / "out" / "report.md").exists()
        assert command("report", run.path) == 0
        assert not (run.path / "report.md").exists()
        assert command("report", tmp_path / "none") == 2
        assert "does not exist" in capsys.readouterr().err

    def test_the_same_cells_of_two_runs(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Two runs of the same cells stand side by side, in tables, PBx and curves; runs of other cells need no
        names.
        """
        runs = [
            factory.write(create(tmp_path, name), factory.grid((model,), TWO)).path
            for name, model in (("old", "tiny"), ("new", "tiny"), ("other", "ideal"))
        ]
        assert command("report", *runs[:2], "--out", tmp_path / "both") == 0
        page = (tmp_path / "both" / "report.md").read_text()
        assert "| tiny of old | `confidence-k1`" in page
        assert re.search(r"tiny of new +\| confidence +\|", page)
        assert list((tmp_path / "both").glob("*.png"))
        assert command("report", runs[0], runs[2], "--out", tmp_path / "apart") == 0
        assert " of old" not in (tmp_path / "apart" / "report.md").read_text()

    def test_report_of_published_runs(self, capsys: pytest.CaptureFixture[str]) -> None:
        """The rewrite's table prints as ours: LLaDA 1.5 with threshold 0.9 on shuffle scores 96 at 3.1 tokens
        per step.
        """
        assert command("report", reference("published", "parallelbench_v2.csv"), "--width", "200") == 0
        lines = capsys.readouterr().out.splitlines()
        at = next(i for i, line in enumerate(lines) if line.split()[:1] == ["threshold-0.9"])
        assert lines[at].split()[4] == "96"
        assert lines[at + 1].split()[6] == "3.1"

    def test_prompts_of_the_rewrite_beside_own(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Tables and PBx with both say so and name the models; the paper's tables, whose prompts are ours, say
        nothing.
        """
        own = factory.write(create(tmp_path, "own"), factory.grid(("tiny",), TWO)).path
        theirs = reference("published", "parallelbench_v2.csv")
        assert command("report", own, theirs, "--out", tmp_path / "both") == 0
        said = "prompts differ: GSAI-ML/LLaDA-1.5, "
        assert said in capsys.readouterr().out
        page = (tmp_path / "both" / "report.md").read_text()
        assert page.count(said) == 2  # the waiting line, where they stand together, and PBx
        assert "| prompts | rewrite-2026, v1 |" in page
        assert command("report", own, reference("published", "paper_tables.csv"), "--out", tmp_path / "paper") == 0
        assert "prompts differ" not in (tmp_path / "paper" / "report.md").read_text()

    def test_a_model_with_both_prompts_is_two(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Answers of one model to both are never one model's line, curve or PBx, though no cell occurs twice."""
        runs = [
            factory.write(
                create(tmp_path, name), [factory.cell(task=task, sampler=sampler, data_source=source) for task in TWO]
            ).path
            for name, sampler, source in (("paper", "random-k1", "official"), ("new", "random-k2", "rewrite-2026"))
        ]
        assert command("report", *runs) == 0
        printed = capsys.readouterr().out
        assert "prompts differ: tiny of new answered those of the 2026 rewrite" in printed
        assert "tiny of paper" in printed

    def test_merge(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Shards become one run with report and JUnit; conflicts and unusable paths have their own exit status."""
        entries = factory.grid(("tiny",), TWO, ks=(1,))
        paths = [
            factory.write(create(tmp_path, name), part).path
            for name, part in (("a", entries[::2]), ("b", entries[1::2]), ("c", [replace_key(entries[0])]))
        ]
        assert command("merge", *paths[:2], "-o", tmp_path / "m") == 0
        assert len(load(tmp_path / "m")) == len(entries)
        assert (tmp_path / "m" / "report.md").exists()
        assert len(list(ElementTree.parse(tmp_path / "m" / "junit.xml").iter("testcase"))) == len(entries)
        assert command("merge", paths[0], paths[2], "-o", tmp_path / "n") == 1
        assert "keys differ" in capsys.readouterr().err
        assert command("merge", tmp_path / "zzz", "-o", tmp_path / "n") == 2

    def test_compare(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Exit status 0 for no worse, 1 for worse, 2 for what can't be read."""
        good = factory.write(create(tmp_path, "good"), [factory.cell(right=1.0)]).path
        bad = factory.write(create(tmp_path, "bad"), [factory.cell(right=0.5)]).path
        assert [
            command("compare", good, good),
            command("compare", bad, good),
            command("compare", good, tmp_path / "x"),
        ] == [0, 1, 2]
        assert "gate FAILED" in capsys.readouterr().out


def replace_key(entry: Entry) -> Entry:
    return replace(entry[0], conditions=replace(entry[0].conditions, key="other")), entry[1]


def test_stored_cells_are_frames_too() -> None:
    """What a run directory gives is what the tables take."""
    stored = StoredCell(factory.cell()[0], ())
    assert isinstance(frame([stored.cell]), pd.DataFrame)
    assert len(trade_off_tables(frame([stored.cell]))) == 1
