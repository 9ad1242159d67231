"""Runs that are killed or interrupted keep every finished cell, and resume to what a straight run
gives.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pandas as pd
import pytest

import pbcore
from tests.plugin.conftest import TIMES, Run
from tests.warm_python import warm_python

pytestmark = pytest.mark.posix
CELLS = [
    "--model",
    "slow",
    "--limit",
    "2",
    "--task",
    "waiting_line/*",
    "--sampler",
    "random-k4",
    "-q",
]


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only runs that are killed take their time, not those that resume them."""
    monkeypatch.setenv("AT_ONCE", "1")


def start(folder: Path, *arguments: str, deaf: bool = False) -> subprocess.Popen[str]:
    """A run in a process group of its own, so that its workers can be hit with it; `deaf`: begun
    where interrupts are ignored.
    """
    command = [warm_python(), "-m", "pytest", "benches/test_waiting_line.py", *CELLS, *arguments]
    environment = {name: text for name, text in os.environ.items() if name != "AT_ONCE"}
    before = signal.signal(signal.SIGINT, signal.SIG_IGN if deaf else signal.default_int_handler)
    try:
        return subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
    finally:
        signal.signal(signal.SIGINT, before)


def wait_for_cells(run: Path, count: int, process: subprocess.Popen[str]) -> None:
    while len(list(run.glob("cells/*.json"))) < count:
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.05)


def kill_and_resume(
    project: pytest.Pytester, run_pytest: Run, workers: int, seed: int, again: int
) -> None:
    """Kills a run of ten cells outright at a random moment after its first cell, resumes it with
    `again` workers, and compares with a straight run.
    """
    chance = random.Random(seed)
    run = project.path / f"killed-{workers}-{seed}"
    process = start(project.path, "--out", str(run), "-n", str(workers))
    wait_for_cells(run, chance.randint(1, 8), process)
    time.sleep(chance.uniform(0, 0.2))
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    finished = {path: path.stat().st_mtime_ns for path in run.glob("cells/*.json")}
    run_pytest(*CELLS, "--resume", str(run), "-n", str(again)).assert_outcomes(passed=10)
    assert {path: path.stat().st_mtime_ns for path in finished} == finished, (
        "a finished cell was run again"
    )
    same_as_straight(project, run_pytest, run)


def same_as_straight(project: pytest.Pytester, run_pytest: Run, run: Path) -> None:
    """Compares a run with one that nothing killed."""
    straight = project.path / "straight"
    if not straight.exists():
        run_pytest(*CELLS, "--out", str(straight)).assert_outcomes(passed=10)
    pd.testing.assert_frame_equal(
        pbcore.results.load(run).drop(columns=TIMES),
        pbcore.results.load(straight).drop(columns=TIMES),
        check_like=True,
    )


class TestKill:
    @pytest.mark.parametrize(
        ("workers", "again"),
        [(2, 0), *(pytest.param(n, n, marks=pytest.mark.slow) for n in (0, 2))],
    )
    def test_kills_lose_only_the_cells_in_flight(
        self, project: pytest.Pytester, run: Run, workers: int, again: int
    ) -> None:
        """kill -9 of the whole run, without and with workers: finished cells stay, the resumed run
        equals a straight one row by row.
        """
        kill_and_resume(project, run, workers, seed=workers, again=again)

    @pytest.mark.parametrize(
        "left", [("run.json",), (".lock", ".holder.json"), (".lock", "run.json", ".run.json-0.tmp")]
    )
    def test_before_the_first_cell(
        self, project: pytest.Pytester, run: Run, left: tuple[str, ...]
    ) -> None:
        """What a kill in the first seconds leaves, with or without run.json: --resume begins at
        the first cell; a folder with anything else alone is no run.
        """
        cells = ("--model", "ideal", "--limit", "2", "--task", "copy", "--sampler", "random-k4")
        run(*cells, "--out", "whole")
        out = project.path / "out"
        out.mkdir()
        for name in left:
            (out / name).write_text((project.path / "whole" / "run.json").read_text())
        result = run(*cells, "--resume", "out")
        result.assert_outcomes(passed=1)
        result.stdout.fnmatch_lines(["*resumed: 0 cells kept, 1 measured*"])
        assert len(pbcore.results.load(out)) == 1
        (project.path / "mine").mkdir()
        (project.path / "mine" / "notes.txt").touch()
        refused = run(*cells, "--resume", "mine")
        assert "mine is not a run directory" in refused.stderr.str()

    @pytest.mark.slow
    @pytest.mark.parametrize("workers", [0, 2])
    @pytest.mark.parametrize(
        "seconds",
        [0.0, 2.0, *(pytest.param(late, marks=pytest.mark.nightly) for late in (1.0, 3.0, 5.0))],
    )
    def test_a_kill_at_any_second(
        self, project: pytest.Pytester, run: Run, workers: int, seconds: float
    ) -> None:
        """From 0 s on: where the run has left a directory it is resumed, else it starts there."""
        out = project.path / "out"
        process = start(project.path, "--out", str(out), "-n", str(workers))
        time.sleep(seconds)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        option = "--resume" if out.exists() else "--out"
        run(*CELLS, option, str(out), "-n", "0").assert_outcomes(passed=10)
        same_as_straight(project, run, out)

    @pytest.mark.nightly
    @pytest.mark.parametrize("seed", range(20))
    @pytest.mark.parametrize("workers", [0, 2])
    def test_twenty_kills_each_way(
        self, project: pytest.Pytester, run: Run, workers: int, seed: int
    ) -> None:
        """The same at twenty random moments with and without workers."""
        kill_and_resume(project, run, workers, 100 + seed, again=workers)


class TestInterrupt:
    @pytest.mark.slow
    @pytest.mark.parametrize("deaf", [pytest.param(False, marks=pytest.mark.nightly), True])
    def test_ctrl_c_still_writes_the_report(
        self, project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, deaf: bool
    ) -> None:
        """The tables of the finished cells are shown, the report is written, and the command that
        resumes is named; also in a run that a script started in the background, where interrupts
        are ignored.
        """
        monkeypatch.setenv("STAYS", "waiting_line/insert_index")  # however late the interrupt is
        run = project.path / "out"
        process = start(project.path, "--out", str(run), deaf=deaf)
        wait_for_cells(run, 2, process)
        os.killpg(process.pid, signal.SIGINT)
        said = process.communicate()[0]
        assert process.returncode == pytest.ExitCode.INTERRUPTED, said
        assert "score in %" in said
        assert "of 10 cells" in said
        assert "--resume out" in said  # from where it was started
        assert {"results.json", "samples.jsonl", "report.md"} <= {
            path.name for path in run.iterdir()
        }
        assert 2 <= len(pbcore.results.load(run)) < 10
