"""What --ray decides without a cluster: options, room on nodes, versions, the order of cells."""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pbcore.base.errors import InputError
from pbcore.extras.ray import connect, options, pool, session, worker
from pbcore.grid.settings import Settings
from pbcore.grid.validate_settings import check
from pbcore.plugin import rundir
from tests.plugin.conftest import SMALL, Run
from tests.plugin.fakes import A, B, C, Config, node_id
from tests.results import factory


def node(number: int, **resources: float) -> dict[str, Any]:
    return {
        "NodeID": f"{number:08}",
        "NodeManagerAddress": f"10.0.0.{number}",
        "Resources": resources,
    }


class TestOptions:
    @pytest.mark.parametrize("text", ["auto", "local", "10.0.0.1:6379", "head:1", "[::1]:6379"])
    def test_addresses(self, text: str) -> None:
        """Host and port, or the two words."""
        assert options.address(text) == text

    @pytest.mark.parametrize(
        "text", ["benches", "10.0.0.1", "ray://head:10001", "head:", ":6379", ""]
    )
    def test_what_is_no_address(self, text: str) -> None:
        """A path that was put after a bare --ray is the usual case, so the message says where paths
        go.
        """
        with pytest.raises(argparse.ArgumentTypeError, match="paths before --ray"):
            options.address(text)

    @pytest.mark.parametrize(("text", "number"), [("0", 0.0), ("2", 2.0), ("0.5", 0.5)])
    def test_gpus(self, text: str, number: float) -> None:
        """Whole ones, or a part of one."""
        assert options.number_of_gpus(text) == number

    @pytest.mark.parametrize("text", ["1.5", "-1", "all"])
    def test_what_is_no_number_of_gpus(self, text: str) -> None:
        """Ray refuses more than one and a part, too."""
        with pytest.raises(argparse.ArgumentTypeError, match="number of GPUs"):
            options.number_of_gpus(text)

    def test_sizes_go_with_ray(self) -> None:
        """Alone they would say nothing."""
        for settings in (
            Settings.of(ray_gpus=1.0),
            Settings.of(ray_cpus=2),
            Settings.of(ray_workers=3),
        ):
            with pytest.raises(InputError, match="go with --ray"):
                check(settings)
        assert check(Settings.of(ray="auto", ray_gpus=1.0, ray_cpus=2, ray_workers=3))
        assert [
            options.RayOptions(ray_gpus=gpus).gpus(gpu)
            for gpu, gpus in ((False, None), (True, None), (True, 0.5))
        ] == [
            0,
            1,
            0.5,
        ]


class TestUsage:
    def test_without_ray_the_extra_is_named(
        self, run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A usage error before anything is collected."""

        def missing(name: str) -> None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

        monkeypatch.setattr(connect, "import_module", missing)
        result = run(*SMALL, "--ray")
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines(["*pip install *'.[[]ray]'*"])

    @pytest.mark.parametrize(
        ("option", "message"),
        [
            ("-n 2", "--ray and -n both say where cells run"),
            ("--pdb", "--pdb can't reach the workers"),
            ("--estimate", "leave --ray out"),
        ],
    )
    def test_what_does_not_go_with_ray(self, run: Run, option: str, message: str) -> None:
        """Said before Ray is asked for."""
        result = run(*SMALL, "--ray local", option)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines([f"*{message}*"])

    def test_an_unreachable_head(self, run: Run) -> None:
        """Named with its address, without Ray's minute of retries."""
        pytest.importorskip("ray")
        result = run(*SMALL, "--ray 127.0.0.1:1")
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines(["*--ray 127.0.0.1:1: nothing answers there*"])


class TestNodes:
    def test_room(self) -> None:
        """As many workers as the scarcer resource allows; nodes without room are left out."""
        nodes = [
            node(1, CPU=0.0),
            node(2, CPU=8.0, GPU=2.0),
            node(3, CPU=3.0, GPU=4.0),
            node(4, CPU=16.0),
        ]
        assert connect.fitting(nodes, 1, 1.0) == {"00000002": 2, "00000003": 3}
        assert connect.fitting(nodes, 4, 0.0) == {"00000002": 2, "00000004": 4}
        assert connect.fitting(nodes, 1, 0.5) == {"00000002": 4, "00000003": 3}
        assert connect.fitting(nodes, 32, 0.0) == {}

    def test_differences_name_both(self) -> None:
        """Every difference, with its node; none is the empty text."""
        here = dict.fromkeys(connect.COMPARED, "1")
        assert connect.node_differences(here, {"a": here, "b": here}) == ""
        found = connect.node_differences(
            here, {"a": here, "b": {**here, "torch": "2"}, "c": {"pbcore": "gone"}}
        )
        assert "torch is 2 on b and 1 on the controller" in found
        assert "pbcore is gone on c and 1 on the controller" in found
        assert " on a " not in found

    def test_local_versions_are_alike(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A head without a GPU has torch's +cpu."""
        monkeypatch.setattr(
            "pbcore.results.environment.versions",
            lambda: {"torch": "2.13.0+cpu", "python": "3.13.1"},
        )
        known = connect.facts()
        assert (known["torch"], known["python"], known["pbcore"]) == (
            "2.13.0",
            "3.13.1",
            "not installed",
        )
        assert len(known["pbcore's source"]) >= 16


class TestSplit:
    def config(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Any, **options: Any) -> Any:
        weights = {A: 1.0, B: 3.0, C: 2.0}
        monkeypatch.setattr("pbcore.grid.cost.weights", lambda plan, number: weights.__getitem__)
        return Config(tmp_path, **options)

    def test_long_cells_come_first(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
        """Unless cells share forwards, where neighbours share most; other tests come last."""
        ids = [node_id(name) for name in (A, B, C)]
        config = self.config(monkeypatch, tmp_path, ray="auto")
        assert pool.cells_by_gpus(config, ["tests/test_x.py::test_y", *ids]) == {
            0.0: [ids[1], ids[2], ids[0], "tests/test_x.py::test_y"]
        }
        config = self.config(monkeypatch, tmp_path, ray="auto", share_forwards=True)
        assert pool.cells_by_gpus(config, ids) == {0.0: ids}

    def test_big_models_have_workers_of_their_own(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
    ) -> None:
        """The models' own number of GPUs counts where workers have any."""
        config = self.config(monkeypatch, tmp_path, ray="auto", gpu=True)
        gpus = {"small": 1, "big": 3}
        monkeypatch.setattr(
            "pbcore.models.resolve_model", lambda name: type("Entry", (), {"gpus": gpus[name]})
        )
        small, big = (type("Name", (), {"model": name}) for name in gpus)
        assert [pool.needed(config, name) for name in (small, big, None)] == [1.0, 3.0, 1.0]  # type: ignore[arg-type]
        config = self.config(monkeypatch, tmp_path, ray="auto")
        assert pool.needed(config, big) == 0.0  # type: ignore[arg-type]


class TestCrowded:
    @pytest.mark.parametrize(
        ("others", "room", "expected"),
        [
            ([], 4, False),
            (["a"], 4, True),
            (["b", "b"], 4, False),
            (["", "b"], 4, True),
            (["", "b"], 1, False),
            (["a"], 1, True),
        ],
    )
    def test_who_may_compute_there_too(self, others: list[str], room: int, expected: bool) -> None:
        """Workers on the node, and as many of those that have no node yet as it has room for."""
        config: Any = None
        own, *rest = (
            pool.Remote(f"ray{i}", config, None, config, node)
            for i, node in enumerate(["a", *others])
        )
        assert pool.crowded(own, [own, *rest], room) is expected


class TestFinished:
    """What comes back with a cell, told to pytest on the controller."""

    @pytest.fixture
    def config(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
        monkeypatch.setattr(session, "the_ray", lambda: None)
        config = Config(tmp_path, ray="auto", out=tmp_path / "out")
        self.warnings: list[Any] = []
        config.hook = SimpleNamespace(
            pytest_runtest_logreport=lambda report: config.reports.append(report),
            pytest_runtest_logfinish=lambda nodeid, location: None,
            pytest_report_from_serializable=lambda config, data: SimpleNamespace(**data),
            pytest_warning_recorded=SimpleNamespace(
                call_historic=lambda kwargs: self.warnings.append(kwargs)
            ),
        )
        return config

    def finish(
        self, config: Any, record: str | None, *caught: warnings.WarningMessage
    ) -> list[Any]:
        """The reports of a cell that a worker has run."""
        phases = ("setup", "call", "teardown")
        reports = [
            {"when": when, "outcome": "passed", "longrepr": None, "user_properties": []}
            for when in phases
        ]
        done = worker.Done(reports, record, [])
        place = SimpleNamespace(_done=done)
        for one in caught:
            worker.Worker.pytest_warning_recorded(place, one, "runtest", "id", None)  # type: ignore[arg-type]
        cluster = session.Cluster(config)
        cluster._open[node_id(A)] = SimpleNamespace(location=("", 0, ""))  # type: ignore[assignment]
        who = pool.Remote("ray0", None, None, config, "a", running=node_id(A))  # type: ignore[arg-type]
        cluster._finished(who, done, more=False)
        assert not cluster._open
        assert all(report.node is who for report in config.reports)
        return config.reports

    def test_reports_come_as_they_are(self, config: Any) -> None:
        """Where the record is written, or there is none."""
        for report in self.finish(config, None):
            assert (report.outcome, report.longrepr, report.user_properties) == ("passed", None, [])

    def test_a_record_that_cannot_be_written_fails_the_call(
        self, config: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The call alone, whose report says why, also as a property; setup and teardown have
        passed.
        """
        text = rundir.run_dir(config).write_cell(*factory.cell()).read_text()

        def full(*facts: Any) -> None:
            raise OSError("no space left")

        monkeypatch.setattr("pbcore.results.rundir.RunDir.write_cell", full)
        setup, call, teardown = self.finish(config, text)
        why = "OSError: no space left"
        assert (call.outcome, call.longrepr, call.user_properties) == (
            "failed",
            why,
            [("pbcore_unwritten", why)],
        )
        for report in (setup, teardown):
            assert (report.outcome, report.longrepr, report.user_properties) == ("passed", None, [])

    def test_warnings_come_as_they_are(self, config: Any) -> None:
        """With class, text and place."""
        self.finish(
            config,
            None,
            warnings.WarningMessage(DeprecationWarning("old"), DeprecationWarning, "f.py", 3),
        )
        [told] = self.warnings
        found = told.pop("warning_message")
        assert told == {"when": "runtest", "nodeid": "id", "location": None}
        assert (str(found.message), found.category, found.filename, found.lineno) == (
            "old",
            DeprecationWarning,
            "f.py",
            3,
        )

    @pytest.mark.parametrize(
        ("module", "name"),
        [("no_such_package.warnings", "OddWarning"), ("pbcore.base.errors", "OddWarning")],
    )
    def test_a_warning_of_a_class_that_is_not_here(
        self, config: Any, module: str, name: str
    ) -> None:
        """It is still a warning, and its text names the class."""
        odd = type(name, (Warning,), {"__module__": module})
        self.finish(config, None, warnings.WarningMessage(odd("it drips"), odd, "f.py", 3))
        found = self.warnings[0]["warning_message"]
        assert (str(found.message), found.category, found.filename, found.lineno) == (
            f"{module}.{name}: it drips",
            UserWarning,
            "f.py",
            3,
        )

    def test_a_warning_that_cannot_be_made_again(self, config: Any) -> None:
        """Its class checks what it is given."""
        self.finish(config, None, warnings.WarningMessage(Strict("x", 1), Strict, "f.py", 3))
        text = str(self.warnings[0]["warning_message"].message)
        assert text == f"{Strict.__module__}.Strict: x"


class Strict(Warning):
    """One whose text isn't what it is made of."""

    def __init__(self, *words: Any) -> None:
        if len(words) < 2:
            raise ValueError("two words")
        super().__init__(words[0])


class TestArguments:
    @pytest.mark.parametrize(
        ("python", "told"), [("/v/bin/python", None), ("/a b/bin/python", "'/a b/bin/python'")]
    )
    def test_a_pythons_path_may_have_spaces(
        self, python: str, told: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Ray hands it to a shell as it is."""
        given: dict[str, Any] = {}

        def init(address: str | None, **options: Any) -> None:
            given.update(options)

        ray = SimpleNamespace(is_initialized=lambda: False, init=init)
        monkeypatch.setattr(connect, "the_ray", lambda: ray)
        monkeypatch.setattr(sys, "executable", python)
        connect.connect("local", tmp_path)
        assert given["runtime_env"].get("py_executable") == told

    @pytest.mark.parametrize(
        ("given", "moved"),
        [
            ("/x/pbcore", "/tmp/copy"),
            ("/x/pbcore/m/tiny", "/tmp/copy/m/tiny"),
            ("--out=/x/pbcore/a", "--out=/tmp/copy/a"),
            ("/x/pbcore-data/a", "/x/pbcore-data/a"),
            ("/mnt/x/pbcore/a", "/mnt/x/pbcore/a"),
        ],
    )
    def test_workers_find_paths_in_their_copy(self, given: str, moved: str) -> None:
        """Those in the copied folder alone, not others whose names begin or end with its name."""
        assert worker.moved(given, "/x/pbcore", "/tmp/copy") == moved

    def test_workers_open_no_file_of_the_controller(self) -> None:
        """--benchmark-json truncates its file when it is read."""
        given = ["benches", "--benchmark-json", "a.json", "-x", "--benchmark-json=b.json"]
        assert worker.for_workers(given) == ["benches", "-x"]


class TestCauses:
    def test_the_cause_is_what_ray_says_of_the_worker(self) -> None:
        """Without ids before it and advice after it; any other text is kept."""
        long = (
            "The actor died unexpectedly before finishing this task.\n\tactor_id: 3cf4\nThe actor"
            " is dead because its worker process has died. Worker exit detail: End of file. Some"
            " common causes include: (1) the OOM killer"
        )
        said = connect.cause_of(Exception(long))
        assert said == "its worker process has died. Worker exit detail: End of file."
        assert connect.cause_of(Exception("no\n  room")) == "no room"
