"""What the controller says at a run's end."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from pbcore.analysis.run_verdict import Ruling
from pbcore.base.printable import program
from pbcore.plugin import run_lifecycle
from pbcore.plugin.run_lifecycle import RunOutcome
from pbcore.plugin.state import plan
from pbcore.report import headline
from pbcore.report import report as report_module
from pbcore.results import create, rundir
from tests.plugin.ends import begun, last_lines, session, stored, take
from tests.plugin.fakes import A, B, C, Config, report

COUNTED = ["score", "in", "%,", "n", "=", "20"]
pytestmark = pytest.mark.usefixtures("apart")


class TestEnd:
    def test_tables_then_the_answer_then_what_is_missing_then_the_page(
        self, tmp_path: Path
    ) -> None:
        """A cell is missing if it neither reported nor left a record. The page's address is
        last.
        """
        config = Config(tmp_path, out=tmp_path / "out")
        outcome = begun(config)
        stored(config, A)
        take(outcome, report(B))
        run_lifecycle.left_out(config)["a: no"] += 1  # type: ignore[arg-type]
        outcome.pytest_sessionfinish(session())
        first, *rest = last_lines(outcome)
        assert first == "=== pbcore ==="
        assert [line.split() for line in rest[:2]] == [["ideal", "random"], [*COUNTED, "k1"]]
        run = tmp_path / "out"
        assert [line for line in rest if line][-7:] == [
            "ideal   no verdict: only one sampler has scores, and a verdict compares two",
            "1 cell, 20 samples, 1.5 s of decoding; data: own",
            "wrong answers by kind: item missing 2",
            (
                "not finished: 1 of 3 cells (ideal/copy/random-k4); resume with:"
                f" {program('pytest')} benches --limit 4 --resume {tmp_path / 'out'}"
            ),
            "left out: 1 cell, a: no",
            f"page: {run / 'report.html'}",
            f"  or: {program('pbcore')} view {run}",
        ]

    def test_the_page_and_a_resume_name_the_same_programs(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """By their names where the environment is active, else by their paths."""
        folders = {}
        for path in ("/nowhere", str(Path(sys.executable).parent)):
            monkeypatch.setenv("PATH", path)
            config = Config(tmp_path, out=tmp_path / f"out{len(folders)}")
            outcome = begun(config)
            stored(config, A)
            outcome.pytest_sessionfinish(session())
            lines = last_lines(outcome)
            [resumed] = [line for line in lines if line.startswith("not finished: ")]
            page = lines[-1].removeprefix("  or: ").partition(" view ")[0]
            again = resumed.partition("; resume with: ")[2].partition(" benches ")[0]
            folders[path] = (page.removesuffix("pbcore"), again.removesuffix("pytest"))
        [(page, again), active] = folders.values()
        assert page == again != ""
        assert active == ("", "")

    def test_paths_are_those_from_here(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As they are typed where the command was given."""
        config = Config(tmp_path, out=tmp_path / "out")
        outcome = begun(config)
        stored(config, A)
        outcome.pytest_sessionfinish(session())
        monkeypatch.chdir(tmp_path)
        page = Path("out", "report.html")
        assert last_lines(outcome)[-2:] == [f"page: {page}", f"  or: {program('pbcore')} view out"]

    def test_without_a_finished_cell_no_file_is_written(self, tmp_path: Path) -> None:
        """There is nothing to report, and all cells are missing."""
        outcome = begun(Config(tmp_path, out=tmp_path / "out"))
        outcome.pytest_sessionfinish(session())
        assert last_lines(outcome)[-1].startswith(
            "not finished: 3 of 3 cells (ideal/copy/random-k1, ideal/copy/random-k2, idea"
        )
        assert [path.name for path in (tmp_path / "out").iterdir() if path.suffix == ".md"] == []

    def test_a_full_disk_fails_the_run(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The cells are on disk; what is missing and how to write it is said, and the exit code is
        1.
        """

        def full(*parts: object) -> list[Path]:
            raise OSError("no space")

        monkeypatch.setattr("pbcore.report.files.write_files_of", full)
        config = Config(tmp_path, out=tmp_path / "out")
        outcome = begun(config)
        stored(config, A)
        ended = session()
        outcome.pytest_sessionfinish(ended)
        out = tmp_path / "out"
        assert outcome.notes == [
            "the report could not be written (no space); the finished cells are in"
            f" {out / 'cells'}, and this writes it from them: {program('pytest')} benches"
            f" --limit 4 --resume {out}"
        ]
        assert ended.exitstatus == pytest.ExitCode.TESTS_FAILED

    @pytest.mark.parametrize("gated", [False, True])
    def test_records_are_read_once_and_judged_once(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gated: bool
    ) -> None:
        """By gate, report.md, page and screen together, also where a cell is missing; all that they
        share is worked out once.
        """
        read: list[str] = []
        judged: list[str] = []
        divided: list[int] = []
        parse, judge, divide = rundir.parse_cell, headline.headline, report_module.scopes

        def parsed(text: str, where: str) -> rundir.StoredCell:
            read.append(where)
            return parse(text, where)

        def told(model: str, *parts: Any, **how: Any) -> Any:
            judged.append(model)
            return judge(model, *parts, **how)

        def scopes(cells: pd.DataFrame) -> Any:
            divided.append(len(cells))
            return divide(cells)

        monkeypatch.setattr(report_module, "scopes", scopes)
        monkeypatch.setattr(rundir, "parse_cell", parsed)
        monkeypatch.setattr(headline, "headline", told)
        floors = {"floor": ("* accuracy>=0",)} if gated else {}
        config = Config(tmp_path, out=tmp_path / "out", **floors)
        outcome = begun(config)
        stored(config, A, B)
        outcome.pytest_sessionfinish(session())
        last_lines(outcome)
        files = sorted((tmp_path / "out" / "cells").glob("*.json"))
        assert len(files) == 2
        assert read == list(map(str, files))
        assert judged == ["ideal"]
        assert divided == [2]

    def test_a_resumed_run_says_what_it_kept(self, tmp_path: Path) -> None:
        """Before any other note."""
        run = create(tmp_path, "out")
        config = Config(tmp_path, resume=run.path)
        outcome = begun(config)
        outcome.notes.append("a note")
        for name, *properties in ((A, ("pbcore_resumed", True)), (B,), (C,)):
            take(outcome, report(name, "call", "passed", *properties))
            take(outcome, report(name))
        assert last_lines(outcome)[-2:] == ["resumed: 1 cell kept, 2 measured", "a note"]

    @pytest.mark.parametrize(("status", "after"), [(0, 1), (2, 2)])
    def test_a_failed_ruling_fails_the_run(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, after: int
    ) -> None:
        """An exit status that says more, such as that of an interrupt, stays; the verdict is
        shown.
        """
        ruling = Ruling(["gate FAILED"], [("ideal/copy/random-k1", "worse")], ["# gate\n"])
        monkeypatch.setattr("pbcore.analysis.run_verdict.judge_run", lambda *parts: ruling)
        monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
        config = Config(tmp_path, out=tmp_path / "out", floor=("* accuracy>=0",))
        outcome = begun(config)
        ended = session(status)
        outcome.pytest_sessionfinish(ended)
        assert ended.exitstatus == after
        assert [(one.nodeid, one.when, one.outcome, one.longrepr) for one in config.reports] == [
            ("gate::ideal/copy/random-k1", "call", "failed", "worse"),
            ("gate::ideal/copy/random-k1", "teardown", "passed", None),
        ]
        assert (tmp_path / "out" / "gate.md").read_text() == "# gate\n"
        assert last_lines(outcome)[1] == "gate FAILED"  # before what was not finished

    def test_only_a_complete_run_is_ruled_as_such(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """And a passed ruling leaves the exit status alone."""
        complete: list[bool] = []
        monkeypatch.setattr(
            "pbcore.analysis.run_verdict.judge_run",
            lambda plan, run, whole, *rest: complete.append(whole) or Ruling(),
        )
        ended = session()
        for cells in ((A, B, C), (A,)):
            outcome = begun(
                Config(tmp_path, out=tmp_path / f"out{len(cells)}", floor=("* accuracy>=0",))
            )
            for name in cells:
                take(outcome, report(name))
            outcome.pytest_sessionfinish(ended)
        assert (complete, ended.exitstatus) == ([True, False], 0)

    def test_without_settings_to_judge_by_there_is_no_ruling(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Neither with cells nor without."""
        monkeypatch.setattr("pbcore.analysis.run_verdict.judge_run", None)
        monkeypatch.setattr("pbcore.analysis.run_verdict.nothing_to_judge", None)
        begun(Config(tmp_path, out=tmp_path / "out")).pytest_sessionfinish(session())
        RunOutcome(Config(tmp_path, cells=())).pytest_sessionfinish(session())  # type: ignore[arg-type]


class TestNoCells:
    def outcome(self, config: Config, deselected: int = 0) -> RunOutcome:
        outcome = RunOutcome(config)  # type: ignore[arg-type]
        outcome._deselected = deselected
        return outcome

    def test_what_models_cannot_run_is_the_reason(self, tmp_path: Path) -> None:
        """Sorted by reason."""
        config = Config(tmp_path)
        run_lifecycle.left_out(config).update({"b: no": 2, "a: no": 1})  # type: ignore[arg-type]
        assert last_lines(self.outcome(config)) == [
            "=== pbcore ===",
            "no cell is left to measure",
            "left out: 1 cell, a: no",
            "left out: 2 cells, b: no",
        ]

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"keyword": "abc", "markexpr": "x"}, "'abc'"),
            ({"keyword": "", "markexpr": "slow"}, "'slow'"),
            ({}, "'the selection'"),
        ],
    )
    def test_a_selection_is_the_reason(
        self, tmp_path: Path, options: dict[str, str], words: str
    ) -> None:
        """With its words and how many cells there were."""
        assert last_lines(self.outcome(Config(tmp_path, options=options), 7)) == [
            "=== pbcore ===",
            "no cell is left to measure",
            f"none of 7 cells matches {words}; `--co -q` lists them",
        ]

    def test_no_test_of_the_category_is_the_reason(self, tmp_path: Path) -> None:
        """A task was named, and no collected test takes its cells. Without such an option other
        tests run in peace, and so does a collection that failed, which has its own message.
        """
        named = Config(tmp_path, cells=(), task=("kitchen/reverse",))
        plan(named).categories = {"kitchen"}  # type: ignore[arg-type, misc]
        outcome = self.outcome(named)
        assert (
            last_lines(outcome, pytest.ExitCode.INTERRUPTED)
            == last_lines(outcome, pytest.ExitCode.USAGE_ERROR)
            == []
        )
        assert last_lines(outcome) == [
            "=== pbcore ===",
            (
                "--pbcore-task: no collected test takes cells of kitchen; mark one with"
                " pytest.mark.cells, or run the stock cells: pytest --pyargs pbcore.benches"
            ),
        ]
        unnamed = self.outcome(Config(tmp_path, cells=()))
        unnamed._begin([])
        assert last_lines(unnamed) == []

    def test_gates_that_nothing_met(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The ruling alone is shown; collecting only asks for none."""
        silent = Ruling(["nothing judged"])
        monkeypatch.setattr(
            "pbcore.analysis.run_verdict.nothing_to_judge", lambda requested, ini: silent
        )
        monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
        outcome = self.outcome(Config(tmp_path, floor=("* accuracy>=0",)))
        outcome.pytest_sessionfinish(session())
        assert last_lines(outcome) == ["=== pbcore ===", "nothing judged"]
        outcome = self.outcome(
            Config(tmp_path, floor=("* accuracy>=0",), options={"collectonly": True})
        )
        outcome.pytest_sessionfinish(session())
        assert last_lines(outcome) == []

    def test_other_projects_read_nothing(self, tmp_path: Path) -> None:
        """Not a line."""
        assert last_lines(self.outcome(Config(tmp_path))) == []

    def test_collecting_only_shows_no_tables(self, tmp_path: Path) -> None:
        """Not even a title."""
        assert last_lines(begun(Config(tmp_path, options={"collectonly": True}))) == []
