"""Hooks one by one, on runs that only look like some: options, collection, recording, timing, gates."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pbcore.errors import InputError
from pbcore.grid.cellid import CellName
from pbcore.grid.settings import OPTIONS, Settings
from pbcore.plugin import (
    benchmark_xdist,
    collection,
    gate,
    options,
    recording,
    rundir,
)
from pbcore.plugin.cell import RECORDED
from pbcore.plugin.sharing import UNTIMED
from pbcore.ruling import Ruling
from tests.plugin.fakes import A, B, C, Config, node_id, report

BY_NAME = {option.name: option for option in OPTIONS}


class Item:
    """A collected test; a cell's is marked."""

    def __init__(self, config: Config, name: CellName | str, mark: bool = True, **facts: Any) -> None:
        self.nodeid = name if isinstance(name, str) else node_id(name)
        self.config, self.stash, self.user_properties = config, pytest.Stash(), []
        self.marks = {"cells"} if mark else set()
        self.funcargs: dict[str, Any] = {}
        vars(self).update(facts)

    def get_closest_marker(self, name: str) -> Any:
        return name if name in self.marks else None

    def add_marker(self, name: str) -> None:
        self.marks.add(name)


def drive(hook: Any, result: Any = None) -> Any:
    """Runs a wrapper around a hook that returns `result`."""
    next(hook)
    try:
        hook.send(result)
    except StopIteration as end:
        return end.value
    raise AssertionError("it went on")


class TestOptions:
    def test_an_ini_value_is_read_as_the_command_line_would(self, tmp_path: Path) -> None:
        """Each by its kind; the command line goes first, and what is not set stays the default."""
        config = Config(tmp_path, ini={"pbcore_limit": 3, "pbcore_model": ["a", "b"], "pbcore_gpu": True})
        config.option.pbcore_limit = 5
        read = options.read(config)  # type: ignore[arg-type]
        assert (read.limit, read.model, read.gpu, read.seed) == (5, ("a", "b"), True, Settings().seed)
        assert options.given(config)  # type: ignore[arg-type]
        assert not options.given(Config(tmp_path))  # type: ignore[arg-type]

    def test_a_bad_ini_value_names_its_option(self, tmp_path: Path) -> None:
        """So does one that does not go with another."""
        with pytest.raises(pytest.UsageError, match="ini option pbcore_limit: '0' is not a whole number above 0"):
            options.read(Config(tmp_path, ini={"pbcore_limit": 0}))  # type: ignore[arg-type]
        with pytest.raises(pytest.UsageError, match="--resume-anyway goes with"):
            options.read(Config(tmp_path, ini={"pbcore_resume_anyway": True}))  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("name", "kind"),
        [("model", "linelist"), ("gpu", "bool"), ("limit", "int"), ("shard", "string"), ("rounds", "int")],
    )
    def test_kinds_in_an_ini_file(self, name: str, kind: str) -> None:
        """Repeatable options are lists of lines."""
        assert options._ini_type(BY_NAME[name]) == kind

    def test_options_on_the_command_line_as_written_there(self, tmp_path: Path) -> None:
        """Short names unless another plugin has them; an ini value is not on the command line."""
        config = Config(tmp_path, ini={"pbcore_gate_time": 0.1}, floor=("x",), gate=(tmp_path,))
        config.stash[options._SHORT] = frozenset({"gate"})
        named = options.on_command_line(config, "floor", "gate", "gate-time")  # type: ignore[arg-type]
        assert sorted(named) == ["--gate", "--pbcore-floor"]


class TestCollection:
    def config(self, tmp_path: Path, **settings: Any) -> Config:
        config = Config(tmp_path, **settings)
        config.deselected = []  # type: ignore[attr-defined]
        config.hook.pytest_deselected = lambda items: config.deselected.extend(items)  # type: ignore[attr-defined]
        return config

    def order(self, config: Config, items: list[Any]) -> list[str]:
        collection.pytest_collection_modifyitems(config, items)  # type: ignore[arg-type]
        return [item.nodeid.partition("[")[2].rstrip("]") or item.nodeid for item in items]

    def test_a_models_cells_stand_together_where_cells_stood(self, tmp_path: Path) -> None:
        """Models in the order of their first cells; other tests keep their places; an empty grid's item is dropped."""
        names = [CellName(model, "waiting_line/copy", f"ar{i}") for i, model in enumerate("abab")]
        config = self.config(tmp_path, cells=names)
        items: list[Any] = [Item(config, name) for name in names]
        items.insert(1, Item(config, "t.py::test_x", mark=False))
        items.append(Item(config, "t.py::test_cell[NOTSET]"))
        assert self.order(config, items) == ["a/copy/ar0", "t.py::test_x", "a/copy/ar2", "b/copy/ar1", "b/copy/ar3"]

    def test_a_shard_keeps_its_cells_and_other_tests(self, tmp_path: Path) -> None:
        """The others are deselected."""
        config = self.config(tmp_path, shard=(1, 2))
        items: list[Any] = [*(Item(config, name) for name in (A, B, C)), Item(config, "t.py::test_x", mark=False)]
        assert self.order(config, items) == [A.cell_id, C.cell_id, "t.py::test_x"]
        assert [item.nodeid for item in config.deselected] == [node_id(B)]  # type: ignore[attr-defined]

    def test_without_cells_nothing_is_done(self, tmp_path: Path) -> None:
        """But the empty grid's item goes."""
        config = self.config(tmp_path, shard=(1, 2))
        items: list[Any] = [Item(config, "t.py::test_x", mark=False), Item(config, "t.py::test_cell[NOTSET]")]
        assert self.order(config, items) == ["t.py::test_x"]
        assert config.deselected == []  # type: ignore[attr-defined]

    def test_a_cell_is_collected_once_and_without_other_parameters(self, tmp_path: Path) -> None:
        """Else its id would not tell which is meant."""
        config = self.config(tmp_path)
        other = node_id(A).replace("waiting_line", "other")
        with pytest.raises(pytest.UsageError, match=r"collected twice, as .*/test_waiting.* and as .*/test_o"):
            collection._collected([Item(config, A), Item(config, other)])  # type: ignore[list-item]
        more = Item(config, "t.py::test_cell[x-1]", callspec=SimpleNamespace(params={"cell": "x"}))
        with pytest.raises(pytest.UsageError, match="has no parameters of its own"):
            collection._collected([more])  # type: ignore[list-item]
        unmarked = Item(config, "t.py::test_x[x-1]", False, callspec=SimpleNamespace(params={"cell": "x"}))
        foreign = Item(config, "t.py::test_cell[x-1]", callspec=SimpleNamespace(params={"cell": 5}))
        assert collection._collected([unmarked, foreign]) == {}  # type: ignore[list-item]

    @pytest.mark.parametrize(
        ("profile", "mark", "marks"),
        [("quick", True, {"quick"}), ("ci", True, {"ci"}), ("paper", True, set()), ("quick", False, set())],
    )
    def test_cells_bear_the_mark_of_a_small_profile(
        self, tmp_path: Path, profile: str, mark: bool, marks: set[str]
    ) -> None:
        """So that -m quick selects them; other tests bear none."""
        item: Any = Item(self.config(tmp_path, profile=profile), A, mark)
        collection.pytest_itemcollected(item)
        assert item.marks - {"cells"} == marks

    def test_the_header_warns_of_foreign_code(self, tmp_path: Path) -> None:
        """And says nothing else."""
        assert collection.pytest_report_header(Config(tmp_path, limit=3)) == []  # type: ignore[arg-type]
        (line,) = collection.pytest_report_header(Config(tmp_path, trust_remote_code=True))  # type: ignore[arg-type]
        assert "--trust-remote-code" in line

    def test_workers_inherit_how_text_is_scored(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """By environment, and only what was given."""
        names = ("PBCORE_LANGUAGETOOL_URL", "PBCORE_NO_DOWNLOAD")
        for settings, values in (
            ({"limit": 3}, [None, None]),
            ({"no_download": True}, [None, "1"]),
            ({"languagetool_url": "http://x"}, ["http://x", None]),
        ):
            environment: dict[str, str] = {}
            monkeypatch.setattr(collection, "os", SimpleNamespace(environ=environment))
            config: Any = Config(tmp_path, **settings)
            config.addinivalue_line = lambda kind, line: None
            collection.pytest_configure(config)
            assert [environment.get(name) for name in names] == values


class TestRecording:
    def fail(self, item: Any, error: Exception, when: str = "call", outcome: str = "failed") -> Any:
        """A test's report, as pytest has made it and as the hook leaves it."""
        call: Any = SimpleNamespace(excinfo=SimpleNamespace(typename=type(error).__name__, value=error))
        made = report(A, when, outcome)
        made.longrepr = "a long traceback"
        return drive(recording.pytest_runtest_makereport(item, call), made)

    def test_what_the_user_can_mend_has_no_traceback(self, tmp_path: Path) -> None:
        """A bug has, but only the first of its kind; --full-trace shows all."""
        config = Config(tmp_path, out=tmp_path / "out")
        items: list[Any] = [Item(config, name) for name in (A, B, C)]
        assert self.fail(items[0], InputError("no such")).longrepr == "InputError: no such"
        assert self.fail(items[1], KeyError("x")).longrepr == "a long traceback"
        same = self.fail(items[2], KeyError("x")).longrepr
        assert same == f"KeyError: 'x'\n(the same error as in {node_id(B)}, which has the traceback)"
        full = Config(tmp_path, out=tmp_path / "full", options={"fulltrace": True})
        item: Any = Item(full, A)
        assert self.fail(item, InputError("no such")).longrepr == "a long traceback"

    def test_the_record_is_written_once(self, tmp_path: Path) -> None:
        """Its properties stand on the report and, for JUnit, on the item; a later error leaves them."""
        config = Config(tmp_path, out=tmp_path / "out")
        item: Any = Item(config, A)
        made = self.fail(item, OSError("gone"))
        assert dict(made.user_properties)["status"] == dict(item.user_properties)["status"] == "error"
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

    def test_a_full_disk_hides_no_error(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Its own complaint comes beside it."""

        def full(self: Any, cell: Any, samples: Any) -> None:
            raise OSError("no space")

        monkeypatch.setattr("pbcore.results.rundir.RunDir.write_cell", full)
        pairs = recording.record_error(Config(tmp_path, out=tmp_path / "out"), A, "boom")  # type: ignore[arg-type]
        assert pairs[-1] == ("pbcore_unwritten", "OSError: no space")

    def test_tests_of_a_run_that_resumes_nothing_are_pytests(self, tmp_path: Path) -> None:
        """So are other tests of one that does."""
        item: Any = Item(Config(tmp_path), A)
        assert recording.pytest_pyfunc_call(item) is None


class TestWorkersClock:
    def worker(self, tmp_path: Path, **facts: Any) -> Any:
        config: Any = Config(tmp_path, **facts)
        config.workerinput = {}
        return config

    def test_a_worker_writes_no_files_and_warns_of_nothing(self, tmp_path: Path) -> None:
        """pytest-benchmark is switched off where cells are likely; elsewhere the user's choice stays."""
        for facts, args, off in (({"limit": 3}, [], True), ({}, ["benches/x.py"], True), ({}, ["tests"], False)):
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
        ("in_worker", "mark", "off"), [(True, True, False), (True, False, True), (False, True, True)]
    )
    def test_it_times_cells_there(self, tmp_path: Path, in_worker: bool, mark: bool, off: bool) -> None:
        """And nothing else."""
        benchmark = SimpleNamespace(disabled=True)
        config = self.worker(tmp_path) if in_worker else Config(tmp_path)
        item: Any = Item(config, A, mark, funcargs={"benchmark": benchmark})
        drive(benchmark_xdist.pytest_runtest_setup(item))
        assert benchmark.disabled is off

    def test_statistics_travel_with_the_report(self, tmp_path: Path) -> None:
        """Of a cell that was timed without an error, in a worker."""
        stats = SimpleNamespace(as_dict=lambda include_data: {"name": "x", "data": [1.0] if include_data else None})

        def properties(config: Any, **facts: Any) -> list[Any]:
            benchmark = SimpleNamespace(**{"stats": stats, "has_error": False, "skipped": False, **facts})
            item: Any = Item(config, A, funcargs={"benchmark": benchmark})
            drive(benchmark_xdist.pytest_runtest_teardown(item))
            return item.user_properties

        ((name, text),) = properties(self.worker(tmp_path))
        assert (name, json.loads(text)) == (benchmark_xdist.STATS, {"name": "x", "data": [1.0]})
        assert properties(self.worker(tmp_path), has_error=True) == []
        assert properties(self.worker(tmp_path), stats=None) == []
        assert properties(Config(tmp_path)) == []

    @pytest.mark.parametrize(("how", "skipped"), [("resumed", True), ("shared", True), ("measured", False)])
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
        own, other = {"extra_info": {"cell": "x"}}, {"extra_info": {}}
        groups = [("a", [own, other]), ("b", [own])]
        assert drive(benchmark_xdist.pytest_benchmark_group_stats([]), groups) == [("a", [other])]


class TestPublish:
    def publish(self, config: Config, run: Any = None, **facts: Any) -> None:
        gate.publish(Ruling(**facts), run, config)  # type: ignore[arg-type]

    def test_a_summary_is_appended(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """After what other steps of the CI wrote; the run has its own copy. Nothing to say, nothing is written."""
        summary = tmp_path / "summary.md"
        summary.write_text("before\n")
        monkeypatch.setenv(gate.STEP_SUMMARY, str(summary))
        self.publish(Config(tmp_path), SimpleNamespace(path=tmp_path))
        assert not (tmp_path / "gate.md").exists()
        self.publish(Config(tmp_path), SimpleNamespace(path=tmp_path), markdown=["a\n", "b\n"])
        assert summary.read_text() == "before\na\n\nb\n"
        assert (tmp_path / "gate.md").read_text() == "a\n\nb\n"

    def test_a_failure_has_no_dot(self, tmp_path: Path) -> None:
        """It counts as failed; the report of its teardown counts for nothing, and other tests' are pytest's."""
        config = Config(tmp_path)
        self.publish(config, failures=[("cell", "worse")])
        statuses = [gate.pytest_report_teststatus(one) for one in config.reports]
        assert statuses == [("failed", "", "FAILED"), ("", "", "")]
        assert gate.pytest_report_teststatus(report(A, "call", "failed")) is None
