"""Runs that are resumed with other options, started twice, or fail: nothing good is lost, and
nothing stale passes for new.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import pbcore
from pbcore.results.lock import lock_run
from pbcore.results.rundir import RunDirError
from tests.plugin.conftest import Run

CELLS = ("--model", "ideal", "--limit", "2", "--task", "copy", "--sampler", "random-k8")


def errors(result: pytest.RunResult) -> str:
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    return result.stderr.str()


class TestResume:
    def test_an_error_never_replaces_a_good_record(
        self, run: Run, project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A resumed run whose model fails to load leaves the earlier record, and says so; the run
        fails.
        """
        run("--model moody", *CELLS[2:], "--out out").assert_outcomes(passed=1)
        before = {path: path.read_bytes() for path in (project.path / "out" / "cells").iterdir()}
        monkeypatch.setenv("MOODY", "1")
        result = run("--model moody", *CELLS[2:], "--resume out")
        assert result.ret == pytest.ExitCode.TESTS_FAILED
        assert {
            path: path.read_bytes() for path in (project.path / "out" / "cells").iterdir()
        } == before
        result.stdout.fnmatch_lines(
            ["*moody/copy/random-k8: its record of an earlier run was kept"]
        )
        assert len(pbcore.results.load("out")) == 1

    def test_other_settings_are_refused(self, run: Run, project: pytest.Pytester) -> None:
        """The difference is named with what would become of the cells, and nothing on disk
        changes.
        """
        run(*CELLS, "--sampler random-k4 --out out").assert_outcomes(passed=2)
        before = {path: path.read_bytes() for path in (project.path / "out").rglob("*.json")}
        for option, difference in (
            ("--limit 3", "limit was 2, is 3"),
            ("--seed 4", "seed was [0], is [4]"),
            ("--data-seed 1", "data-seed was not given, is 1"),
            ("--n 7", "n was not given, is [7]"),
            ("--profile ci", "profile was quick, is ci"),
        ):
            message = errors(run(*CELLS, option, "--resume out"))
            assert difference in message
            assert "Of its 2 finished cells up to 1 would be measured again" in message
            assert "1 are not in this run" in message
            assert {
                path: path.read_bytes() for path in (project.path / "out").rglob("*.json")
            } == before, option

    def test_they_are_taken_on_demand_and_the_history_is_kept(
        self, run: Run, project: pytest.Pytester
    ) -> None:
        """--resume-anyway measures again; run.json holds every run's command and settings, and the
        screen counts the cells.
        """
        run(*CELLS, "--out out")
        run(*CELLS, "--resume out").stdout.fnmatch_lines(["resumed: 1 cell kept, 0 measured"])
        result = run(*CELLS, "--seed 3 --resume out --resume-anyway")
        result.stdout.fnmatch_lines(["resumed: 0 cells kept, 1 measured"])
        facts = json.loads((project.path / "out" / "run.json").read_text())
        assert facts["settings"]["seed"] == [3]
        assert [earlier["settings"]["seed"] for earlier in facts["history"]] == [[0], [0]]
        assert "--resume" in facts["history"][1]["command"]

    def test_anyway_needs_a_run(self, run: Run) -> None:
        """Alone it means nothing."""
        assert "--resume-anyway goes with --resume RUN" in errors(run(*CELLS, "--resume-anyway"))


class TestOneWriter:
    def test_the_second_start_is_refused(self, run: Run, project: pytest.Pytester) -> None:
        """A directory that another process writes is refused with that process's pid and host, from
        its first moment on.
        """
        code = (
            "import sys, time; from pathlib import Path; from pbcore.results.lock import lock_run\n"
            "lock = lock_run(Path('out')); print('held', flush=True); sys.stdin.read()"
        )
        holder = subprocess.Popen(
            [sys.executable, "-c", code],
            cwd=project.path,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        message = errors(run(*CELLS, "--out out"))
        assert f"is being written by process {holder.pid} on {socket.gethostname()}" in message
        holder.communicate("")
        run(*CELLS, "--out out").assert_outcomes(passed=1)

    def test_the_lock_leaves_nothing_behind(self, run: Run, project: pytest.Pytester) -> None:
        """Neither a finished run's directory nor a run without cells shows that there was one."""
        run(*CELLS, "--out out")
        assert not [path for path in (project.path / "out").iterdir() if path.name.startswith(".")]
        run("--model ideal --task summarization --out none")
        assert not (project.path / "none").exists()

    def test_a_process_that_died_frees_it(self, tmp_path: Path) -> None:
        """The system releases the lock of a killed process."""
        code = (
            "import os; from pathlib import Path; from pbcore.results.lock import lock_run\n"
            f"lock = lock_run(Path({str(tmp_path / 'out')!r})); os._exit(9)"
        )
        subprocess.run([sys.executable, "-c", code], check=False)
        lock = lock_run(tmp_path / "out")
        with pytest.raises(RunDirError, match=f"process {os.getpid()} on"):
            lock_run(tmp_path / "out")
        lock.release()
        assert not (tmp_path / "out").exists()

    def test_it_is_released_when_its_files_are_gone(self, tmp_path: Path) -> None:
        """Somebody who clears the directory doesn't break the run that ends there."""
        lock = lock_run(tmp_path / "out")
        for file in (tmp_path / "out").iterdir():
            file.unlink()
        lock.release()
        assert not (tmp_path / "out").exists()
        lock = lock_run(tmp_path / "out")
        shutil.rmtree(tmp_path / "out")
        lock.release()
        assert not (tmp_path / "out").exists()

    def test_a_place_that_cannot_be_written(self, run: Run, project: pytest.Pytester) -> None:
        """It is a usage error before a model is loaded."""
        (project.path / "file").write_text("")
        assert "can't be written" in errors(run(*CELLS, "--out file/out"))
        (project.path / "reports").write_text("")  # as in a folder that is read-only
        result = run(*CELLS)
        assert "choose another directory by --out" in errors(result)
        assert "--out:" not in errors(result)
        assert "resume with" not in result.stdout.str()


class TestJunit:
    def test_it_has_every_cell(self, run: Run, project: pytest.Pytester) -> None:
        """Cells that could not be run are errors with the properties of their record, so that a
        kept file gives whole tables.
        """
        models = ("--model", "ideal", "--model", "missing", "--model", "breaking")
        run(*models, *CELLS[2:], "--task sort --out out --junitxml j.xml")
        kept = pbcore.results.load("j.xml").set_index("id")
        rows = pbcore.results.load("out").set_index("id")
        assert kept["status"].to_dict() == rows["status"].to_dict()
        assert kept.loc["missing/copy/random-k8", "error"] == "RuntimeError: weights not here"


class TestErrors:
    def test_what_the_user_can_mend_has_no_traceback(
        self, run: Run, project: pytest.Pytester
    ) -> None:
        """A checkpoint without weights: a line or two a cell; --full-trace shows where it came
        from.
        """
        folder = project.path / "broken"
        folder.mkdir()
        (folder / "config.json").write_text('{"model_type": "llama"}')
        (folder / "tokenizer.json").write_text("{}")
        cells = ("--model", str(folder), *CELLS[2:])
        short = run(*cells)
        long = run(*cells, "--full-trace")
        assert short.ret == long.ret == pytest.ExitCode.TESTS_FAILED
        assert "ModelError" in short.stdout.str()
        lines = [line for line in short.stdout.lines if "UserWarning" not in line]
        assert "loading.py" not in "".join(lines)
        assert "loading.py" in long.stdout.str()

    def test_a_sampler_that_a_model_of_its_own_refuses(self, run: Run) -> None:
        """The model's complaint stands alone, once a cell."""
        result = run("--model speaker --task copy --sampler threshold-0.9 --limit 2")
        assert result.ret == pytest.ExitCode.TESTS_FAILED
        assert "speaker decodes by itself; use eb-0.1" in result.stdout.str()
        assert "Traceback" not in result.stdout.str()
        assert "toys.py" not in result.stdout.str()

    def test_a_checkpoint_without_a_tokenizer(self, run: Run, project: pytest.Pytester) -> None:
        """It is refused once, at collection, in one line that says where and what to copy; with its
        tokenizer the same folder is measured.
        """
        folder = project.path / "mine"
        shutil.copytree(Path(pbcore.__file__).parent / "models" / "tiny", folder)
        for file in folder.glob("tokenizer*"):
            file.rename(project.path / file.name)
        cells = ("--model", "./mine", "--task", "copy", "--sampler", "random-k16", "--limit", "1")
        message = errors(run(*cells))
        assert message.count("has no tokenizer files") == 1
        assert f"--model mine: {folder} has no tokenizer files" in message
        assert "copy those of the model that it was trained from into its folder" in message
        for file in project.path.glob("tokenizer*"):
            file.rename(folder / file.name)
        run(*cells).assert_outcomes(passed=1)
