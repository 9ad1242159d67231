"""Two checkouts timed interleaved.

Most tests use a pbcore of a few lines, which starts at once and sleeps as it is told.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from pbcore.analysis.timing import interleaved as module
from pbcore.analysis.timing.interleaved import (
    BaseError,
    NotTimed,
    TimedCheckout,
    checkout,
    interleaved,
)

FAKE = """
import os, time
from types import SimpleNamespace

def load_model(name, **options):
    print("loading", name)
    if name == "missing":
        raise RuntimeError("weights not here")
    return SimpleNamespace(name=name)

def load_task(name, **options):
    return SimpleNamespace(samples=("a", "b"))

def decode(model, samples, sampler, seed=0, batch_size=None):
    with open("log", "a") as log:
        log.write("SIDE ")
    if sampler == "dying":
        os._exit(9)
    time.sleep(SLEEP)
"""


def fake(folder: Path, side: str, sleep: float = 0.0) -> Path:
    (folder / "pbcore").mkdir(parents=True)
    (folder / "pbcore" / "__init__.py").write_text(
        FAKE.replace("SIDE", side).replace("SLEEP", str(sleep))
    )
    return folder


def job(model: str = "m", sampler: str = "random-k1") -> dict[str, Any]:
    task = {"files": [], "name": "waiting_line/copy"}
    return {
        "model": {"name": model},
        "task": task,
        "sampler": sampler,
        "seed": 0,
        "batch_size": None,
    }


@pytest.fixture
def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Head and base, of which the base takes 0.2 s longer a round."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module, "HEAD", fake(tmp_path / "head", "head"))
    with module.sides(fake(tmp_path / "base", "base", 0.2)) as both:
        yield both


class TestInterleaved:
    def test_rounds_alternate_after_one_that_warms_each_side(
        self, pair: tuple[TimedCheckout, TimedCheckout], tmp_path: Path
    ) -> None:
        """Base, head, base, head …, each with its own code, and the seconds are told apart."""
        head, base = interleaved(*pair, job(), 3)
        assert (tmp_path / "log").read_text().split() == [
            "base",
            "base",
            "head",
            "head",
            "base",
            "head",
            "base",
            "head",
        ]
        assert len(head) == len(base) == 3
        assert min(base) >= 0.2

    def test_what_a_side_cannot_run_is_told_and_the_next_cell_goes_on(
        self, pair: tuple[TimedCheckout, TimedCheckout]
    ) -> None:
        """An error, or a process that dies, costs its cell alone; the reason names the side."""
        with pytest.raises(
            NotTimed, match=r"the base could not run it \(RuntimeError: weights not here\)"
        ):
            interleaved(*pair, job(model="missing"), 3)
        with pytest.raises(NotTimed, match="the base's process ended with status 9"):
            interleaved(*pair, job(sampler="dying"), 3)
        assert len(interleaved(*pair, job(), 1)[1]) == 1


class TestSide:
    def test_another_pbcore_than_the_bases_is_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A folder without the package would time whatever is installed; so nothing is timed."""
        monkeypatch.setenv("PYTHONPATH", str(fake(tmp_path / "other", "other")))
        side = TimedCheckout("base", tmp_path)
        (tmp_path / "base").mkdir()
        side.folder = tmp_path / "base"
        with pytest.raises(NotTimed, match=r"imports another pbcore, .*other"):
            side.seconds(job())

    def test_a_closed_side_has_ended(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Its process is gone when `close` returns, and the next job starts a fresh one."""
        monkeypatch.chdir(tmp_path)
        side = TimedCheckout("base", fake(tmp_path, "x"))
        side.seconds(job())
        process = side._process
        assert process is not None
        side.close()
        assert process.returncode is not None
        assert side.seconds(job()) >= 0
        assert side._process is not process
        side.close()

    def test_a_base_that_cannot_be_imported_says_so_at_once(self, tmp_path: Path) -> None:
        """Its last line of stderr is the reason, also for later cells, for which it is not started
        again.
        """
        (fake(tmp_path, "x") / "pbcore" / "__init__.py").write_text(
            "import a_module_that_was_removed"
        )
        side = TimedCheckout("base", tmp_path)
        for _ in range(2):
            with pytest.raises(NotTimed, match="No module named 'a_module_that_was_removed'"):
                side.seconds(job())


class Process:
    """A timing process that says what it is told to."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.asked = []
        self.ended = []
        self.stdin = SimpleNamespace(write=self.write, flush=lambda: None)
        self.stdout = SimpleNamespace(readline=lambda: self.answers.pop(0))
        self.returncode = 3

    def write(self, text: str) -> None:
        if not self.answers:
            raise BrokenPipeError
        self.asked.append(text)

    def wait(self) -> int:
        return self.returncode

    def kill(self) -> None:
        self.ended.append("kill")

    def communicate(self) -> None:
        self.ended.append("communicate")


class TestTalk:
    """What is said between this process and the one that times."""

    @pytest.fixture
    def side(self, tmp_path: Path) -> TimedCheckout:
        return TimedCheckout("base", tmp_path)

    def started(self, side: TimedCheckout, *answers: str, stderr: str = "") -> Process:
        process: Any = Process(*answers)
        side._process, side._said = process, io.StringIO(stderr)
        return process  # type: ignore[no-any-return]

    def test_a_job_is_a_line(self, side: TimedCheckout) -> None:
        """And so is its answer."""
        process = self.started(side, '{"seconds": 2}', '{"error": "E"}')
        assert side.seconds({"a": 1}) == 2.0
        assert process.asked == ['{"a": 1}\n']
        with pytest.raises(NotTimed, match=r"the base could not run it \(E\)"):
            side.seconds({})

    @pytest.mark.parametrize(
        ("answers", "stderr", "last"),
        [((), "", "it said nothing"), (("",), "first\nlast\n\n", "last"), ((), "  one  ", "one")],
    )
    def test_a_process_that_ended_is_let_go(
        self, side: TimedCheckout, answers: tuple[str, ...], stderr: str, last: str
    ) -> None:
        """With its status and last words; the next job starts another."""
        process = self.started(side, *answers, stderr=stderr)
        with pytest.raises(NotTimed, match=f"the base's process ended with status 3: {last}$"):
            side.seconds({})
        assert process.ended == ["kill", "communicate"]
        assert (side._process, side._said) == (None, None)
        side.close()

    def test_it_is_started_with_its_own_code_alone(
        self, side: TimedCheckout, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The base's folder comes before what PYTHONPATH holds, and the script's own folder is not
        searched.
        """
        started: list[Any] = []

        def popen(words: list[str], **options: Any) -> Process:
            started.append((words, options["env"]["PYTHONPATH"]))
            return Process(
                json.dumps({"pbcore": str(side.folder / "pbcore" / "__init__.py")}),
                '{"seconds": 1}',
            )

        monkeypatch.setattr(module.subprocess, "Popen", popen)
        for path, paths in (("/other", [str(side.folder), "/other"]), ("", [str(side.folder)])):
            monkeypatch.setenv("PYTHONPATH", path)
            assert side.seconds({}) == 1.0
            assert started[-1] == (
                [sys.executable, "-P", str(module.SCRIPT)],
                os.pathsep.join(paths),
            )
            side.close()
        side.seconds({})
        side._process.answers = ['{"seconds": 4}']  # type: ignore[union-attr]
        assert side.seconds({}) == 4.0
        assert len(started) == 3

    def test_both_sides_end_whatever_happens(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Also after an error."""
        closed: list[str] = []
        monkeypatch.setattr(TimedCheckout, "close", lambda side: closed.append(side.label))
        both = module.sides(tmp_path)
        head, base = both.__enter__()
        assert (head.folder, base.folder) == (module.HEAD, tmp_path)
        assert not both.__exit__(KeyError, KeyError(), None)
        assert sorted(closed) == ["base", "head"]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a pbcore that said 1, then 2."""
    folder = tmp_path / "repository"
    (folder / "pbcore").mkdir(parents=True)
    git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "-q"], check=True)
    for number in "12":
        (folder / "pbcore" / "__init__.py").write_text(number)
        subprocess.run([*git, "add", "."], check=True)
        subprocess.run([*git, "commit", "-q", "-m", number], check=True)
    return folder


class TestCheckout:
    def test_a_revision_is_checked_out_for_a_while(self, repository: Path) -> None:
        """The worktree holds that revision's code, and neither it nor git's note of it stays."""
        with checkout("HEAD~1", repository) as folder:
            assert (folder / "pbcore" / "__init__.py").read_text() == "1"
        assert not folder.exists()
        listed = subprocess.run(
            ["git", "-C", repository, "worktree", "list"],
            capture_output=True,
            text=True,
            check=True,
        )
        assert len(listed.stdout.splitlines()) == 1

    def test_a_folder_is_taken_as_it_is(self, repository: Path) -> None:
        """And stays."""
        with checkout(str(repository), repository) as folder:
            assert folder == repository.resolve()
        assert repository.exists()

    def test_a_package_in_a_folder_of_the_repository(self, repository: Path) -> None:
        """The base's folder is the same one of its worktree; after an error the worktree is gone,
        too.
        """
        git = ["git", "-C", str(repository), "-c", "user.name=a", "-c", "user.email=a@b"]
        (repository / "part").mkdir()
        subprocess.run([*git, "mv", "pbcore", "part/pbcore"], check=True)
        subprocess.run([*git, "commit", "-q", "-m", "3"], check=True)
        held = checkout("HEAD", repository / "part")
        folder = held.__enter__()
        assert (folder / "pbcore" / "__init__.py").read_text() == "2"
        assert folder.name == "part"
        assert not held.__exit__(KeyError, KeyError(), None)
        assert not folder.exists()
        with (
            pytest.raises(BaseError, match="holds no pbcore/"),
            checkout("HEAD~1", repository / "part"),
        ):
            pass

    def test_git_itself_fails(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """It is missing, or complains, or says nothing."""
        with pytest.raises(BaseError, match=r"git worktree: .*not a git repository"):
            module._git(tmp_path, "worktree", "list")
        for error, said in (
            (FileNotFoundError(), "git is not installed; give --against the folder"),
            (subprocess.CalledProcessError(1, "git", stderr=" \n"), "git log: failed"),
        ):
            monkeypatch.setattr(module.subprocess, "run", Mock(side_effect=error))
            with pytest.raises(BaseError, match=said):
                module._git(tmp_path, "log")

    @pytest.mark.parametrize("against", ["no-such-branch", "HEAD~9", "--version"])
    def test_what_is_neither_is_named(self, against: str, repository: Path) -> None:
        """A typo is told before the run, not after it."""
        with pytest.raises(BaseError, match=f"'{against}' is neither a folder nor a revision"):
            module.check_base(against, repository)

    def test_a_folder_without_the_package(self, tmp_path: Path) -> None:
        """The message says what to give."""
        with pytest.raises(BaseError, match="holds no pbcore/; give the top folder of a checkout"):
            module.check_base(str(tmp_path))
