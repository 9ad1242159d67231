"""Runs that are killed or interrupted keep every finished cell, and resume to what a straight run
gives.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

import pbcore
from tests.plugin.conftest import TIMES, Run

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


def start(folder: Path, *arguments: str, deaf: bool = False) -> subprocess.Popen[str]:
    """A run in a process group of its own, so that its workers can be hit with it; `deaf`: begun
    where interrupts are ignored.
    """
    command = [sys.executable, "-m", "pytest", "benches/test_waiting_line.py", *CELLS, *arguments]
    before = signal.signal(signal.SIGINT, signal.SIG_IGN if deaf else signal.default_int_handler)
    try:
        return subprocess.Popen(
            command,
            cwd=folder,
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
    straight = project.path / "straight"
    if not straight.exists():
        run_pytest(*CELLS, "--out", str(straight)).assert_outcomes(passed=10)
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
    def test_ctrl_c_still_writes_the_report(self, project: pytest.Pytester, deaf: bool) -> None:
        """The tables of the finished cells are shown, the report is written, and the command that
        resumes is named; also in a run that a script started in the background, where interrupts
        are ignored.
        """
        run = project.path / "out"
        process = start(project.path, "--out", str(run), deaf=deaf)
        wait_for_cells(run, 2, process)
        os.killpg(process.pid, signal.SIGINT)
        said = process.communicate()[0]
        assert process.returncode == pytest.ExitCode.INTERRUPTED
        assert "waiting_line: score in %" in said
        assert "of 10 cells" in said
        assert f"--resume {run}" in said
        assert {"results.json", "samples.jsonl", "report.md"} <= {
            path.name for path in run.iterdir()
        }
        assert 2 <= len(pbcore.results.load(run)) < 10
