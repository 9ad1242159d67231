"""What the controller learns of a run's cells, and says at its end."""

from __future__ import annotations

import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pbcore.plugin import rundir, summary
from pbcore.plugin.summary import Outcome
from pbcore.results import create
from pbcore.ruling import Ruling
from tests.plugin.fakes import A, B, C, Config, Terminal, node_id, report
from tests.results import factory

IDS = [node_id(name) for name in (A, B, C)]


@pytest.fixture(autouse=True)
def apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupts of the run outside stay as they are."""
    monkeypatch.setattr(summary, "listen_to_interrupts", lambda: None)


def begun(config: Config, ids: list[str] = IDS) -> Outcome:
    """A run whose cells are collected by xdist's workers."""
    outcome = Outcome(config)  # type: ignore[arg-type]
    outcome.pytest_xdist_node_collection_finished(ids)
    return outcome


def take(outcome: Outcome, one: Any) -> None:
    """A report, through the hook."""
    hook = outcome.pytest_runtest_logreport(one)
    next(hook)
    with pytest.raises(StopIteration):
        next(hook)


def last_lines(outcome: Outcome) -> list[str]:
    terminal = Terminal()
    outcome.pytest_terminal_summary(terminal)
    return terminal.lines


def session(status: int = 0) -> Any:
    return SimpleNamespace(exitstatus=status)


def stored(config: Config, *names: Any) -> None:
    """Records of these cells in the run's directory."""
    for name in names:
        record, samples = factory.cell(name.model, name.task, name.sampler)
        rundir.run_dir(config).write_cell(record, samples)  # type: ignore[arg-type]


class TestBegin:
    def test_cells_are_told_from_other_tests(self, tmp_path: Path) -> None:
        """Those of the plan, by node id; the first worker's collection counts."""
        outcome = begun(Config(tmp_path, out=tmp_path / "out"), [*IDS[:2], "t.py::test_x[a/b/c]", "t.py::test_y"])
        assert list(outcome.planned.values()) == [A, B]
        outcome.pytest_xdist_node_collection_finished(IDS)
        assert len(outcome.planned) == 2

    def test_the_directory_is_made_for_cells_alone(self, tmp_path: Path) -> None:
        """run.json is written before the first cell; without cells, in the drill-down and when collecting only nothing
        is.
        """
        begun(Config(tmp_path, out=tmp_path / "a"))
        assert (tmp_path / "a" / "run.json").exists()
        begun(Config(tmp_path, out=tmp_path / "b"), ["t.py::test_y"])
        begun(Config(tmp_path, out=tmp_path / "c", drilled=True))
        begun(Config(tmp_path, out=tmp_path / "d", options={"collectonly": True}))
        assert sorted(path.name for path in tmp_path.iterdir()) == ["a"]

    @pytest.mark.parametrize(
        ("options", "plugins", "said"),
        [
            ({"benchmark_disable": True}, ["benchmark"], "--benchmark-disable: cells are timed"),
            ({"benchmark_skip": True}, ["benchmark"], "--benchmark-skip: cells are timed"),
            ({}, [], "-p no:benchmark: cells are timed"),
            ({"benchmark_skip": True}, [], "-p no:benchmark and --benchmark-skip: cells"),
        ],
    )
    def test_cells_need_the_clock(self, tmp_path: Path, options: Any, plugins: list[str], said: str) -> None:
        """What switches it off is named; a run without cells may do so."""
        config = Config(tmp_path, options=options)
        config.pluginmanager.hasplugin = lambda name: name in plugins
        begun(config, ["t.py::test_y"])
        with pytest.raises(pytest.UsageError, match=said):
            begun(config)

    def test_a_run_that_a_server_refuses_writes_nothing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """And says nothing at its end: the error has said it."""

        def refuse(config: Any, names: Any) -> None:
            raise pytest.UsageError("no key")

        monkeypatch.setattr(summary, "prepare", refuse)
        outcome = Outcome(Config(tmp_path, out=tmp_path / "out"))  # type: ignore[arg-type]
        with pytest.raises(pytest.UsageError, match="no key"):
            outcome.pytest_xdist_node_collection_finished(IDS)
        outcome.pytest_sessionfinish(session())
        assert last_lines(outcome) == []
        assert not (tmp_path / "out").exists()


class TestReports:
    def test_a_cell_is_finished_with_its_teardown(self, tmp_path: Path) -> None:
        """Its other reports come before that; those of other tests count for nothing."""
        outcome = begun(Config(tmp_path, out=tmp_path / "out"))
        take(outcome, report(A, "call"))
        assert outcome.finished == set()
        take(outcome, report(A))
        assert outcome.finished == {IDS[0]}
        take(outcome, pytest.TestReport("t.py::test_y", ("t.py", 1, "x"), {}, "passed", None, "teardown"))
        assert outcome.finished == {IDS[0]}

    def test_a_test_that_reads_like_a_cell_is_none(self, tmp_path: Path) -> None:
        """Its report lacks the mark; a report without any keywords is a lost worker's."""
        outcome = begun(Config(tmp_path, out=tmp_path / "out"))
        take(outcome, report(A, "setup", "passed", parametrize=1))
        assert list(outcome.planned.values()) == [B, C]
        crash = report(B, "???", "failed")
        crash.keywords = {}
        take(outcome, crash)
        assert list(outcome.planned.values()) == [B, C]

    def test_notes_and_resumed_cells_are_counted_once(self, tmp_path: Path) -> None:
        """pytest repeats a test's properties on the report of its teardown."""
        outcome = begun(Config(tmp_path, out=tmp_path / "out"))
        properties = [("pbcore_resumed", True), ("pbcore_unwritten", "disk full"), ("pbcore_kept", "kept"), ("x", 1)]
        for when in ("call", "teardown"):
            take(outcome, report(A, when, "passed", *properties))
        assert outcome.resumed == 1
        assert outcome.notes == [
            "ideal/copy/random-k1: its record could not be written (disk full)",
            "ideal/copy/random-k1: kept",
        ]

    def test_a_dead_workers_cell_is_recorded_and_reported(self, tmp_path: Path) -> None:
        """Its report is followed by the teardown that the worker owes, with the record's properties."""
        config = Config(tmp_path, out=tmp_path / "out")
        outcome = begun(config)
        outcome.pytest_handlecrashitem(IDS[0])
        outcome.pytest_handlecrashitem("t.py::test_y")
        crash = report(A, "???", "failed")
        crash.node = "gw0"
        take(outcome, crash)
        (teardown,) = config.reports
        assert (teardown.nodeid, teardown.when, teardown.outcome, teardown.node) == (
            IDS[0],
            "teardown",
            "passed",
            "gw0",
        )
        assert teardown.keywords == {"cells": 1}
        assert dict(teardown.user_properties)["status"] == "error"
        take(outcome, teardown)
        assert len(config.reports) == 1
        (entry,) = rundir.run_dir(config).read_cells()  # type: ignore[arg-type]
        assert "the worker process died while running this cell" in str(entry.cell.error)

    def test_in_the_drill_down_answers_are_counted_by_cell(self, tmp_path: Path) -> None:
        """Right ones of those that were judged: a skipped sample is not, and setup and teardown say nothing."""
        outcome = begun(Config(tmp_path, drilled=True))
        for name, outcomes in ((A, ["passed", "failed", "skipped"]), (B, ["skipped"])):
            for one in outcomes:
                take(outcome, report(name, "setup"))
                take(outcome, report(name, "call", one))
                take(outcome, report(name))
        assert last_lines(outcome) == [
            "=== pbcore ===",
            "ideal/copy/random-k1: 1 of 2 samples right",
            "ideal/copy/random-k2: 0 of 0 samples right",
            "drill-down: single answers were judged; nothing was written, and there are no tables",
        ]
        outcome.pytest_handlecrashitem(IDS[0])
        assert not (tmp_path / "reports").exists()


class TestEnd:
    def test_tables_then_what_is_missing_then_files(self, tmp_path: Path) -> None:
        """A cell is missing if it neither reported nor left a record."""
        config = Config(tmp_path, out=tmp_path / "out")
        outcome = begun(config)
        stored(config, A)
        take(outcome, report(B))
        outcome.pytest_sessionfinish(session())
        first, *rest = last_lines(outcome)
        assert first == "=== pbcore ==="
        assert any("random-k1" in line for line in rest)
        assert rest[-2:] == [
            f"not finished: 1 of 3 cells (ideal/copy/random-k4); resume with: pytest benches --limit 4 --resume "
            f"{tmp_path / 'out'}",
            f"{tmp_path / 'out'}: results.json, samples.jsonl, report.md, report.html, curves.png",
        ]

    def test_without_a_finished_cell_no_file_is_written(self, tmp_path: Path) -> None:
        """There is nothing to report, and all cells are missing."""
        outcome = begun(Config(tmp_path, out=tmp_path / "out"))
        outcome.pytest_sessionfinish(session())
        assert last_lines(outcome)[-1].startswith(
            "not finished: 3 of 3 cells (ideal/copy/random-k1, ideal/copy/random-k2, idea"
        )
        assert [path.name for path in (tmp_path / "out").iterdir() if path.suffix == ".md"] == []

    def test_a_full_disk_is_a_note(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The cells are on disk."""

        def full(path: Path) -> list[Path]:
            raise OSError("no space")

        monkeypatch.setattr("pbcore.report.markdown.write_report", full)
        config = Config(tmp_path, out=tmp_path / "out")
        outcome = begun(config)
        stored(config, A)
        outcome.pytest_sessionfinish(session())
        folder = tmp_path / "out" / "cells"
        assert outcome.notes == [f"the report could not be written (no space); the finished cells are in {folder}"]

    def test_a_resumed_run_says_what_it_kept(self, tmp_path: Path) -> None:
        """Before any other note."""
        run = create(tmp_path, "out")
        config = Config(tmp_path, resume=run.path)
        outcome = begun(config)
        outcome.notes.append("a note")
        for name, *properties in ((A, ("pbcore_resumed", True)), (B,), (C,)):
            take(outcome, report(name, "call", "passed", *properties))
            take(outcome, report(name))
        assert last_lines(outcome)[-2:] == ["resumed: 1 cells kept, 2 measured", "a note"]

    @pytest.mark.parametrize(("status", "after"), [(0, 1), (2, 2)])
    def test_a_failed_ruling_fails_the_run(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, after: int
    ) -> None:
        """An exit status that says more, such as that of an interrupt, stays; the verdict is shown."""
        ruling = Ruling(["gate FAILED"], [("ideal/copy/random-k1", "worse")], ["# gate\n"])
        monkeypatch.setattr("pbcore.ruling.rule", lambda *parts: ruling)
        monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
        config = Config(tmp_path, out=tmp_path / "out", floor=("* accuracy>=0",))
        outcome, ended = begun(config), session(status)
        outcome.pytest_sessionfinish(ended)
        assert ended.exitstatus == after
        assert [(one.nodeid, one.when, one.outcome, one.longrepr) for one in config.reports] == [
            ("gate::ideal/copy/random-k1", "call", "failed", "worse"),
            ("gate::ideal/copy/random-k1", "teardown", "passed", None),
        ]
        assert (tmp_path / "out" / "gate.md").read_text() == "# gate\n"
        assert last_lines(outcome)[-1] == "gate FAILED"

    def test_only_a_complete_run_is_ruled_as_such(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """And a passed ruling leaves the exit status alone."""
        complete: list[bool] = []
        monkeypatch.setattr("pbcore.ruling.rule", lambda plan, run, whole, *rest: complete.append(whole) or Ruling())
        ended = session()
        for cells in ((A, B, C), (A,)):
            outcome = begun(Config(tmp_path, out=tmp_path / f"out{len(cells)}", floor=("* accuracy>=0",)))
            for name in cells:
                take(outcome, report(name))
            outcome.pytest_sessionfinish(ended)
        assert (complete, ended.exitstatus) == ([True, False], 0)

    def test_without_settings_to_judge_by_there_is_no_ruling(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Neither with cells nor without."""
        monkeypatch.setattr("pbcore.ruling.rule", None)
        monkeypatch.setattr("pbcore.ruling.nothing_to_judge", None)
        begun(Config(tmp_path, out=tmp_path / "out")).pytest_sessionfinish(session())
        Outcome(Config(tmp_path, cells=())).pytest_sessionfinish(session())  # type: ignore[arg-type]


class TestNoCells:
    def outcome(self, config: Config, deselected: int = 0) -> Outcome:
        outcome = Outcome(config)  # type: ignore[arg-type]
        outcome._deselected = deselected
        return outcome

    def test_what_models_cannot_run_is_the_reason(self, tmp_path: Path) -> None:
        """Sorted by reason."""
        config = Config(tmp_path)
        summary.left_out(config).update({"b: no": 2, "a: no": 1})  # type: ignore[arg-type]
        assert last_lines(self.outcome(config)) == [
            "=== pbcore ===",
            "no cell is left to measure",
            "left out: 1 cells, a: no",
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
    def test_a_selection_is_the_reason(self, tmp_path: Path, options: dict[str, str], words: str) -> None:
        """With its words and how many cells there were."""
        assert last_lines(self.outcome(Config(tmp_path, options=options), 7)) == [
            "=== pbcore ===",
            "no cell is left to measure",
            f"none of 7 cells matches {words}; `--co -q` lists them",
        ]

    def test_gates_that_nothing_met(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The ruling alone is shown; collecting only asks for none."""
        monkeypatch.setattr("pbcore.ruling.nothing_to_judge", lambda requested, ini: Ruling(["nothing judged"]))
        monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
        outcome = self.outcome(Config(tmp_path, floor=("* accuracy>=0",)))
        outcome.pytest_sessionfinish(session())
        assert last_lines(outcome) == ["=== pbcore ===", "nothing judged"]
        outcome = self.outcome(Config(tmp_path, floor=("* accuracy>=0",), options={"collectonly": True}))
        outcome.pytest_sessionfinish(session())
        assert last_lines(outcome) == []

    def test_other_projects_read_nothing(self, tmp_path: Path) -> None:
        """Not a line."""
        assert last_lines(self.outcome(Config(tmp_path))) == []

    def test_collecting_only_shows_no_tables(self, tmp_path: Path) -> None:
        """Not even a title."""
        assert last_lines(begun(Config(tmp_path, options={"collectonly": True}))) == []


class TestRerun:
    def test_a_cell_of_the_run_by_its_node_id(self, tmp_path: Path) -> None:
        """One that only the baseline has by its parts."""
        (tmp_path / "benches").mkdir()
        (tmp_path / "benches" / "test_waiting_line.py").touch()
        outcome = begun(Config(tmp_path, out=tmp_path / "out"))
        assert outcome._rerun("ideal/copy/random-k2", 5) == (
            "pytest 'benches/test_waiting_line.py::test_cell[ideal/copy/random-k2/5]'"
        )
        assert outcome._rerun("copy/random-k2", 5) == 'pytest benches -k "copy and random-k2" --sample 5'


class TestInterrupts:
    @pytest.mark.parametrize("ignored", [True, False])
    def test_only_ignored_ones_are_taken(self, monkeypatch: pytest.MonkeyPatch, ignored: bool) -> None:
        """A background job's; a handler of the user's own stays."""
        monkeypatch.undo()
        handler: Any = signal.SIG_IGN if ignored else signal.SIG_DFL
        before = signal.signal(signal.SIGINT, handler)
        try:
            summary.listen_to_interrupts()
            assert signal.getsignal(signal.SIGINT) is (signal.default_int_handler if ignored else handler)
        finally:
            signal.signal(signal.SIGINT, before)


class TestConfigure:
    def test_a_worker_keeps_no_outcome(self, tmp_path: Path) -> None:
        """The controller does, and with --resume it looks at the records first."""
        config = Config(tmp_path)
        summary.pytest_configure(config)  # type: ignore[arg-type]
        assert isinstance(config.pluginmanager.get_plugin(summary.NAME), Outcome)
        worker = Config(tmp_path)
        worker.workerinput = {}  # type: ignore[attr-defined]
        summary.pytest_configure(worker)  # type: ignore[arg-type]
        assert worker.pluginmanager.get_plugin(summary.NAME) is None

    def test_a_damaged_record_is_set_aside_at_once(self, tmp_path: Path) -> None:
        """And noted; a damaged run.json is a usage error."""
        run = create(tmp_path, "out")
        run.write_run({})
        config = Config(tmp_path, resume=run.path)
        stored(config, A)
        (file,) = run.cells_dir.glob("*.json")
        file.write_text("{")
        summary.pytest_configure(config)  # type: ignore[arg-type]
        assert len(config.pluginmanager.get_plugin(summary.NAME).notes) == 1
        assert list(run.cells_dir.glob("*.json")) == []
        (run.path / "run.json").write_text("{")
        with pytest.raises(pytest.UsageError, match="--resume: "):
            summary.pytest_configure(Config(tmp_path, resume=run.path))  # type: ignore[arg-type]
