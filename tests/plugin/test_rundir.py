"""The run directory of a session: which path, who writes it, what is kept in it."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pbcore.base.printable import program
from pbcore.plugin import rundir
from pbcore.results import create
from tests.plugin.fakes import A, B, Config
from tests.results import factory


def path_of(config: Config) -> Path:
    return rundir.run_dir(config).path  # type: ignore[arg-type]


def worker(config: Config) -> Config:
    config.workerinput = {"pbcore_run": str(config.rootpath / "of-the-controller")}  # type: ignore[attr-defined]
    return config


class TestPath:
    def test_one_for_all_processes(self, tmp_path: Path) -> None:
        """Chosen once by the controller, who tells its workers."""
        config = Config(tmp_path)
        assert path_of(config).parent == tmp_path / "reports"
        assert path_of(config) == path_of(config)
        node = SimpleNamespace(config=config, workerinput={})
        rundir.pytest_configure_node(node)
        assert node.workerinput == {"pbcore_run": str(path_of(config))}
        assert (
            path_of(worker(Config(tmp_path, out=tmp_path / "out")))
            == tmp_path / "of-the-controller"
        )

    def test_out_and_resume(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Absolute, so that a test that changes the folder changes nothing; an empty folder may be
        there.
        """
        monkeypatch.chdir(tmp_path)
        (tmp_path / "empty").mkdir()
        create(tmp_path, "old")
        for settings in ({"out": Path("new")}, {"out": Path("empty")}, {"resume": Path("old")}):
            (name,) = settings.values()
            assert path_of(Config(tmp_path, **settings)) == tmp_path / name

    def test_what_cannot_be_used_is_named(self, tmp_path: Path) -> None:
        """A file, a folder that holds something, nothing to resume."""
        (tmp_path / "file").touch()
        with pytest.raises(
            pytest.UsageError, match=r"--out .*file is a file; give the name of a directory"
        ):
            path_of(Config(tmp_path, out=tmp_path / "file"))
        with pytest.raises(
            pytest.UsageError, match="exists and is not empty; choose another name, or resume it"
        ):
            path_of(Config(tmp_path, out=tmp_path))
        with pytest.raises(pytest.UsageError, match="--resume: "):
            path_of(Config(tmp_path, resume=tmp_path / "nothing"))


class TestLock:
    def test_a_named_directory_is_taken_at_once(self, tmp_path: Path) -> None:
        """By the controller of a run that writes; a second process is refused until it is freed."""
        config = Config(tmp_path, out=tmp_path / "out")
        rundir.pytest_configure(config)  # type: ignore[arg-type]
        rundir.lock(config)  # type: ignore[arg-type]
        with pytest.raises(pytest.UsageError, match="--out: "):
            rundir.lock(Config(tmp_path, out=tmp_path / "out"))  # type: ignore[arg-type]
        rundir.pytest_unconfigure(config)  # type: ignore[arg-type]
        other = Config(tmp_path, resume=create(tmp_path, "run").path)
        rundir.lock(other)  # type: ignore[arg-type]
        with pytest.raises(pytest.UsageError, match="--resume: "):
            rundir.lock(Config(tmp_path, resume=tmp_path / "run"))  # type: ignore[arg-type]
        rundir.pytest_unconfigure(other)  # type: ignore[arg-type]

    @pytest.mark.parametrize("how", ["default", "worker", "collecting", "drilled", "no options"])
    def test_others_take_none(self, tmp_path: Path, how: str) -> None:
        """A run without a named directory takes one with its first cell; the others write
        nothing.
        """
        config = {
            "default": lambda: Config(tmp_path, limit=3),
            "worker": lambda: worker(Config(tmp_path, out=tmp_path / "out")),
            "collecting": lambda: Config(
                tmp_path, out=tmp_path / "out", options={"collectonly": True}
            ),
            "drilled": lambda: Config(tmp_path, out=tmp_path / "out", drilled=True),
            "no options": lambda: Config(tmp_path),
        }[how]()
        rundir.pytest_configure(config)  # type: ignore[arg-type]
        assert rundir._LOCK not in config.stash
        assert list(tmp_path.iterdir()) == []
        rundir.pytest_unconfigure(config)  # type: ignore[arg-type]


class TestResume:
    @pytest.fixture
    def earlier(self, tmp_path: Path) -> Path:
        """A run of two cells, one of which is in the next run, too, with --data-seed 1."""
        run = create(tmp_path, "run")
        config = Config(tmp_path, resume=run.path, data_seed=1)
        rundir.write_facts(config, {f"::test_cell[{cell.item_id}]": cell for cell in (A, B)})  # type: ignore[arg-type]
        for name in (A, B):
            run.write_cell(*factory.cell(name.model, name.task, str(name.sampler)))
        return run.path

    def test_other_settings_are_counted(self, tmp_path: Path, earlier: Path) -> None:
        """What would be measured again, and what would stay beside the new cells."""
        config = Config(tmp_path, (A,), resume=earlier, data_seed=2)
        with pytest.raises(pytest.UsageError) as error:
            rundir.pytest_configure(config)  # type: ignore[arg-type]
        said = (
            "Of its 2 finished cells up to 1 would be measured again and overwritten, 1 are not in"
            " this run"
        )
        assert said in str(error.value)
        assert "data-seed was 1, is" in str(error.value)
        assert "Give the same options (pytest benches --limit 4), another --out" in str(error.value)

    def test_whose_run_it_is_stands_at_the_top(self, tmp_path: Path, earlier: Path) -> None:
        """The earlier command, since cells of other options are added to its run; other runs have
        no such line.
        """
        resumed = rundir.pytest_report_header(Config(tmp_path, resume=earlier))  # type: ignore[arg-type]
        assert resumed == [f"pbcore: resuming {earlier} (pytest benches --limit 4)"]
        assert rundir.pytest_report_header(Config(tmp_path)) == []  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        "target", ["--out a", "--out=a", "--pbcore-resume b --out=a", "--resume a", ""]
    )
    def test_the_command_that_resumes(self, tmp_path: Path, target: str) -> None:
        """The run's own arguments, with --resume in place of the option that named its
        directory.
        """
        config = Config(tmp_path, out=tmp_path / "a")
        config.invocation_params.args = (
            "benches",
            *target.split(),
            "--limit",
            4,
            "-k",
            "copy or sort",
        )
        told = rundir.resume_command(config)  # type: ignore[arg-type]
        assert told == (
            f"{program('pytest')} benches --limit 4 -k 'copy or sort' --resume {tmp_path / 'a'}"
        )

    def test_the_same_settings_or_anyway(self, tmp_path: Path, earlier: Path) -> None:
        """Neither is refused."""
        for settings in ({"data_seed": 1}, {"data_seed": 2, "resume_anyway": True}):
            config = Config(tmp_path, resume=earlier, **settings)
            rundir.pytest_configure(config)  # type: ignore[arg-type]
            rundir.pytest_unconfigure(config)  # type: ignore[arg-type]


class TestFacts:
    def facts(self, config: Config) -> dict[str, Any]:
        rundir.write_facts(config, {f"::test_cell[{cell.item_id}]": cell for cell in (A, B)})  # type: ignore[arg-type]
        found: dict[str, Any] = json.loads((path_of(config) / "run.json").read_text())
        return found

    def test_what_identifies_a_run(self, tmp_path: Path) -> None:
        """Its command and the settings that decide what is asked; nothing of an earlier run."""
        config = Config(
            tmp_path, out=tmp_path / "out", seed=(3, 4), limit=5, shard=(1, 2), data_dir=tmp_path
        )
        told = self.facts(config)
        assert told["command"] == ["pytest", "benches", "--limit", "4"]
        assert (told["seeds"], told["limit"], told["shard"], told["history"]) == (
            [3, 4],
            5,
            "1/2",
            [],
        )
        assert told["data_dir"] == str(tmp_path)
        assert told["settings"] == json.loads(json.dumps(config.settings.remembered, default=str))
        assert told["versions"]["pbcore"]
        bare = self.facts(Config(tmp_path, out=tmp_path / "bare"))
        assert (bare["data_dir"], bare["limit"], bare["shard"]) == (None, None, None)

    def test_a_resumed_run_keeps_its_history(self, tmp_path: Path) -> None:
        """Each earlier run once, the first one first."""
        path = create(tmp_path, "out").path
        for seed in (1, 2, 3):
            told = self.facts(Config(tmp_path, resume=path, data_seed=seed))
        assert [one["data_seed"] for one in told["history"]] == [1, 2]
        assert told["data_seed"] == 3
        assert not any("history" in one for one in told["history"])


class TestJunit:
    def kept(self, config: Config) -> bool:
        rundir.pytest_unconfigure(config)  # type: ignore[arg-type]
        return (config.rootpath / "out" / "junit.xml").exists()

    def config(self, tmp_path: Path, junit: str | None, folder: bool = True) -> Config:
        config = Config(tmp_path, out=tmp_path / "out", options={"xmlpath": junit})
        path_of(config)
        if folder:
            (tmp_path / "out").mkdir()
        return config

    def test_a_copy_goes_with_the_run(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """From wherever pytest wrote it, variables in the path resolved."""
        monkeypatch.setenv("SOMEWHERE", str(tmp_path))
        (tmp_path / "j.xml").write_text("<x/>")
        assert self.kept(self.config(tmp_path, "$SOMEWHERE/j.xml"))
        assert (tmp_path / "out" / "junit.xml").read_text() == "<x/>"

    def test_nothing_to_copy(self, tmp_path: Path) -> None:
        """No file asked for, none written, no run, or a worker; a file that is there already
        stays.
        """
        (tmp_path / "j.xml").write_text("<x/>")
        assert not self.kept(self.config(tmp_path, str(tmp_path / "j.xml"), folder=False))
        assert not self.kept(self.config(tmp_path, None))
        (tmp_path / "out").rmdir()
        assert not self.kept(self.config(tmp_path, str(tmp_path / "none.xml")))
        assert not self.kept(worker(Config(tmp_path, options={"xmlpath": str(tmp_path / "j.xml")})))
        assert not self.kept(Config(tmp_path, options={"xmlpath": str(tmp_path / "j.xml")}))
        own = tmp_path / "out" / "junit.xml"
        own.write_text("<y/>")
        config = Config(tmp_path, resume=create(tmp_path, "r").path, options={"xmlpath": str(own)})
        config.stash[rundir._PATH] = tmp_path / "out"
        assert self.kept(config)
        assert own.read_text() == "<y/>"
