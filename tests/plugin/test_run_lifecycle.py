"""What the controller learns of a run's cells."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from pbcore.plugin import run_lifecycle, rundir
from pbcore.plugin.run_lifecycle import RunOutcome
from pbcore.results import create
from tests.plugin.ends import IDS, begun, last_lines, session, stored, take
from tests.plugin.fakes import A, B, C, Config, record_of, report

pytestmark = pytest.mark.usefixtures("apart")


class TestBegin:
    def test_cells_are_told_from_other_tests(self, tmp_path: Path) -> None:
        """Those of the plan, by node id; the first worker's collection counts."""
        outcome = begun(
            Config(tmp_path, out=tmp_path / "out"),
            [*IDS[:2], "t.py::test_x[a/b/c]", "t.py::test_y"],
        )
        assert list(outcome.planned.values()) == [A, B]
        outcome.pytest_xdist_node_collection_finished(IDS)
        assert len(outcome.planned) == 2

    def test_the_directory_is_made_for_cells_alone(self, tmp_path: Path) -> None:
        """run.json is written before the first cell; without cells, in the drill-down and when
        collecting only nothing is.
        """
        begun(Config(tmp_path, out=tmp_path / "a"))
        assert (tmp_path / "a" / "run.json").exists()
        begun(Config(tmp_path, out=tmp_path / "b"), ["t.py::test_y"])
        drilled = Config(tmp_path, out=tmp_path / "c", drilled=True)
        drilled.invocation_params.args = ("benches", "--out", "c")
        with pytest.raises(pytest.UsageError, match="no cell of this run is written"):
            begun(drilled)
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
    def test_cells_need_the_clock(
        self, tmp_path: Path, options: Any, plugins: list[str], said: str
    ) -> None:
        """What switches it off is named, and no command that would repeat it follows; a run without
        cells may do so.
        """
        config = Config(tmp_path, options=options, out=tmp_path / "out")
        config.pluginmanager.hasplugin = lambda name: name in plugins
        begun(config, ["t.py::test_y"])
        outcome = RunOutcome(config)  # type: ignore[arg-type]
        with pytest.raises(pytest.UsageError, match=said):
            outcome.pytest_xdist_node_collection_finished(IDS)
        outcome.pytest_sessionfinish(session())
        assert last_lines(outcome) == []

    def test_a_run_that_a_server_refuses_writes_nothing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """And says nothing at its end: the error has said it."""

        def refuse(config: Any, cells: Any) -> None:
            raise pytest.UsageError("no key")

        config = Config(tmp_path, out=tmp_path / "out")
        monkeypatch.setattr(config.hook, "pytest_pbcore_check", refuse)
        outcome = RunOutcome(config)  # type: ignore[arg-type]
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
        take(
            outcome,
            pytest.TestReport("t.py::test_y", ("t.py", 1, "x"), {}, "passed", None, "teardown"),
        )
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
        properties = [
            ("pbcore_resumed", True),
            ("pbcore_unwritten", "disk full"),
            ("pbcore_kept", "kept"),
            ("x", 1),
        ]
        for when in ("call", "teardown"):
            take(outcome, report(A, when, "passed", *properties))
        assert outcome.resumed == 1
        assert outcome.notes == [
            "ideal/copy/random-k1: its record could not be written (disk full)",
            "ideal/copy/random-k1: kept",
        ]

    def test_a_dead_workers_cell_is_recorded_and_reported(self, tmp_path: Path) -> None:
        """Its report is followed by the teardown that the worker owes, with the record's
        properties.
        """
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
        assert record_of(teardown.user_properties)["status"] == "error"
        take(outcome, teardown)
        assert len(config.reports) == 1
        (entry,) = rundir.run_dir(config).read_cells()  # type: ignore[arg-type]
        assert "the worker process died while running this cell" in str(entry.cell.error)

    def test_in_the_drill_down_answers_are_counted_by_cell(self, tmp_path: Path) -> None:
        """Right ones of those that were judged: a skipped sample is not, and setup and teardown say
        nothing.
        """
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


class TestInterrupts:
    @pytest.mark.parametrize("ignored", [True, False])
    def test_only_ignored_ones_are_taken(
        self, monkeypatch: pytest.MonkeyPatch, ignored: bool
    ) -> None:
        """A background job's; a handler of the user's own stays."""
        monkeypatch.undo()
        handler: Any = signal.SIG_IGN if ignored else signal.SIG_DFL
        before = signal.signal(signal.SIGINT, handler)
        try:
            run_lifecycle.listen_to_interrupts()
            assert signal.getsignal(signal.SIGINT) is (
                signal.default_int_handler if ignored else handler
            )
        finally:
            signal.signal(signal.SIGINT, before)


class TestConfigure:
    def test_a_worker_keeps_no_outcome(self, tmp_path: Path) -> None:
        """The controller does, and with --resume it looks at the records first."""
        config = Config(tmp_path)
        run_lifecycle.pytest_configure(config)  # type: ignore[arg-type]
        assert isinstance(config.pluginmanager.get_plugin(run_lifecycle.NAME), RunOutcome)
        worker = Config(tmp_path)
        worker.workerinput = {}  # type: ignore[attr-defined]
        run_lifecycle.pytest_configure(worker)  # type: ignore[arg-type]
        assert worker.pluginmanager.get_plugin(run_lifecycle.NAME) is None

    def test_a_damaged_record_is_set_aside_at_once(self, tmp_path: Path) -> None:
        """And noted; a damaged run.json is a usage error."""
        run = create(tmp_path, "out")
        run.write_run({})
        config = Config(tmp_path, resume=run.path)
        stored(config, A)
        (file,) = run.cells_dir.glob("*.json")
        file.write_text("{")
        run_lifecycle.pytest_configure(config)  # type: ignore[arg-type]
        assert len(config.pluginmanager.get_plugin(run_lifecycle.NAME).notes) == 1
        assert list(run.cells_dir.glob("*.json")) == []
        (run.path / "run.json").write_text("{")
        with pytest.raises(pytest.UsageError, match="--resume: "):
            run_lifecycle.pytest_configure(Config(tmp_path, resume=run.path))  # type: ignore[arg-type]
