"""Hooks around one cell, on runs that only look like some: recording, timing."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pbcore.base.errors import InputError
from pbcore.plugin import benchmark_xdist, rundir
from pbcore.plugin.rundir import RECORDED
from pbcore.plugin.state import UNTIMED
from tests.plugin.fakes import A, B, C, Config, Item, drive, node_id, record_of, report


class TestRecording:
    def fail(self, item: Any, error: Exception, when: str = "call", outcome: str = "failed") -> Any:
        """A test's report, as pytest has made it and as the hook leaves it."""
        call: Any = SimpleNamespace(
            excinfo=SimpleNamespace(typename=type(error).__name__, value=error)
        )
        made = report(A, when, outcome)
        made.longrepr = "a long traceback"
        return drive(rundir.pytest_runtest_makereport(item, call), made)

    def test_what_the_user_can_mend_has_no_traceback(self, tmp_path: Path) -> None:
        """A bug has, but only the first of its kind; --full-trace shows all."""
        config = Config(tmp_path, out=tmp_path / "out")
        items: list[Any] = [Item(config, name) for name in (A, B, C)]
        assert self.fail(items[0], InputError("no such")).longrepr == "InputError: no such"
        assert self.fail(items[1], KeyError("x")).longrepr == "a long traceback"
        same = self.fail(items[2], KeyError("x")).longrepr
        assert (
            same == f"KeyError: 'x'\n(the same error as in {node_id(B)}, which has the traceback)"
        )
        full = Config(tmp_path, out=tmp_path / "full", options={"fulltrace": True})
        item: Any = Item(full, A)
        assert self.fail(item, InputError("no such")).longrepr == "a long traceback"

    def test_the_record_is_written_once(self, tmp_path: Path) -> None:
        """Its properties stand on the report and, for JUnit, on the item; a later error leaves
        them.
        """
        config = Config(tmp_path, out=tmp_path / "out")
        item: Any = Item(config, A)
        made = self.fail(item, OSError("gone"))
        for shown in (made, item):
            assert record_of(shown.user_properties)["status"] == "error"
        assert item.stash[RECORDED]
        assert self.fail(item, KeyError("x"), "teardown").user_properties == []
        (entry,) = rundir.run_dir(config).read_cells()  # type: ignore[arg-type]
        assert entry.cell.error == "OSError: gone"

    @pytest.mark.parametrize("how", ["passed", "no cell", "drilled"])
    def test_nothing_else_leaves_a_record(self, tmp_path: Path, how: str) -> None:
        """A passed test, another test, and a sample in the drill-down keep pytest's report."""
        config = Config(tmp_path, out=tmp_path / "out", drilled=how == "drilled")
        item: Any = Item(config, A, mark=how != "no cell")
        made = self.fail(item, KeyError("x"), outcome="passed" if how == "passed" else "failed")
        assert made.longrepr == "a long traceback"
        assert not (tmp_path / "out").exists()

    def test_a_full_disk_hides_no_error(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its own complaint comes beside it."""

        def full(self: Any, cell: Any, samples: Any) -> None:
            raise OSError("no space")

        monkeypatch.setattr("pbcore.results.rundir.RunDir.write_cell", full)
        pairs = rundir.record_error(Config(tmp_path, out=tmp_path / "out"), A, "boom")  # type: ignore[arg-type]
        assert pairs[-1] == ("pbcore_unwritten", "OSError: no space")

    def test_tests_of_a_run_that_resumes_nothing_are_pytests(self, tmp_path: Path) -> None:
        """So are other tests of one that does."""
        item: Any = Item(Config(tmp_path), A)
        assert rundir.pytest_pyfunc_call(item) is None


class TestWorkersClock:
    def worker(self, tmp_path: Path, **facts: Any) -> Any:
        config: Any = Config(tmp_path, **facts)
        config.workerinput = {}
        return config

    def test_a_worker_writes_no_files_and_warns_of_nothing(self, tmp_path: Path) -> None:
        """pytest-benchmark is switched off where cells are likely; elsewhere the user's choice
        stays.
        """
        for facts, args, off in (
            ({"limit": 3}, [], True),
            ({}, ["benches/x.py"], True),
            ({}, ["tests"], False),
        ):
            config = self.worker(tmp_path, **facts)
            config.args = args
            config.option.benchmark_json, config.option.benchmark_disable = "b.json", False
            benchmark_xdist.pytest_configure(config)
            assert config.option.benchmark_disable is off
            assert [getattr(config.option, name) for name in benchmark_xdist.SAVES] == [None] * 3
        controller: Any = Config(tmp_path, limit=3, options={"benchmark_json": "b.json"})
        benchmark_xdist.pytest_configure(controller)
        assert controller.option.benchmark_json == "b.json"

    @pytest.mark.parametrize(
        ("in_worker", "mark", "off"),
        [(True, True, False), (True, False, True), (False, True, True)],
    )
    def test_it_times_cells_there(
        self, tmp_path: Path, in_worker: bool, mark: bool, off: bool
    ) -> None:
        """And nothing else."""
        benchmark = SimpleNamespace(disabled=True)
        config = self.worker(tmp_path) if in_worker else Config(tmp_path)
        item: Any = Item(config, A, mark, funcargs={"benchmark": benchmark})
        drive(benchmark_xdist.pytest_runtest_setup(item))
        assert benchmark.disabled is off

    def test_statistics_travel_with_the_report(self, tmp_path: Path) -> None:
        """Of a cell that was timed without an error, in a worker."""
        stats = SimpleNamespace(
            as_dict=lambda include_data: {"name": "x", "data": [1.0] if include_data else None}
        )

        def properties(config: Any, **facts: Any) -> list[Any]:
            benchmark = SimpleNamespace(
                **{"stats": stats, "has_error": False, "skipped": False, **facts}
            )
            item: Any = Item(config, A, funcargs={"benchmark": benchmark})
            drive(benchmark_xdist.pytest_runtest_teardown(item))
            return item.user_properties

        ((name, text),) = properties(self.worker(tmp_path))
        assert (name, json.loads(text)) == (benchmark_xdist.STATS, {"name": "x", "data": [1.0]})
        assert properties(self.worker(tmp_path), has_error=True) == []
        assert properties(self.worker(tmp_path), stats=None) == []
        assert properties(Config(tmp_path)) == []

    @pytest.mark.parametrize(
        ("how", "skipped"), [("resumed", True), ("shared", True), ("measured", False)]
    )
    def test_a_clock_that_was_not_needed(self, tmp_path: Path, how: str, skipped: bool) -> None:
        """pytest-benchmark is not to warn of it."""
        benchmark = SimpleNamespace(stats=None, skipped=False)
        item: Any = Item(Config(tmp_path), A, funcargs={"benchmark": benchmark})
        if how == "resumed":
            item.user_properties.append(("pbcore_resumed", True))
        if how == "shared":
            item.stash[UNTIMED] = True
        drive(benchmark_xdist.pytest_runtest_teardown(item))
        assert benchmark.skipped is skipped

    def test_the_controller_takes_them_off(self) -> None:
        """From a worker's teardown, and leaves the other properties."""
        session = SimpleNamespace(benchmarks=[])
        manager = SimpleNamespace(get_plugin={"pytest-benchmark": session}.get)
        data = json.dumps({"fullname": "t::x", "name": "x", "stats": {}})
        for when in ("call", "teardown"):
            made = report(A, when, "passed", ("a", 1), (benchmark_xdist.STATS, data))
            benchmark_xdist.pytest_runtest_logreport(made)  # a run without workers
            assert len(made.user_properties) == 2
            made.node = SimpleNamespace(config=SimpleNamespace(pluginmanager=manager))
            benchmark_xdist.pytest_runtest_logreport(made)
            assert len(made.user_properties) == (1 if when == "teardown" else 2)
        assert [bench.fullname for bench in session.benchmarks] == ["t::x"]

    def test_cells_stay_out_of_pytest_benchmarks_table(self) -> None:
        """A group of nothing else is gone."""
        own = {"extra_info": {"cell": "x"}}
        other = {"extra_info": {}}
        groups = [("a", [own, other]), ("b", [own])]
        assert drive(benchmark_xdist.pytest_benchmark_group_stats([]), groups) == [("a", [other])]
