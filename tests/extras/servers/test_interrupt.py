"""Ctrl-C while a server doesn't answer: the run ends soon, says what it waits for, and keeps what
came.
"""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pbcore.extras.servers.reply import read_answers
from tests.extras.servers.fake import Act, FakeServer, serving
from tests.extras.servers.served import MINE, declare, right
from tests.plugin.conftest import Run
from tests.warm_python import warm_python

pytestmark = [pytest.mark.posix, pytest.mark.slow]
NEVER = 100.0  # seconds until the server answers, and of the request's own limit
BOUND = 60.0  # a run that waits for its requests takes longer; one that ends, far less


def silent_after(number: int) -> Any:
    """Answers so many requests, and no other."""

    def script(place: int, body: dict[str, Any]) -> Act:
        return right(place, body) if place < number else Act(pause=NEVER)

    return script


@contextmanager
def started(project: pytest.Pytester, command: list[str]) -> Iterator[subprocess.Popen[str]]:
    """A process in the project's folder that takes SIGINT as one at a terminal does."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        process = subprocess.Popen(
            [warm_python(), *command],
            cwd=project.path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    finally:
        signal.signal(signal.SIGINT, before)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def until(process: subprocess.Popen[str], come: Any) -> None:
    """Waits for something of the server while the process runs."""
    while not come():
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.01)


def interrupted(process: subprocess.Popen[str]) -> str:
    """What it prints until it has ended, after one Ctrl-C."""
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=BOUND)
    return output


def patient(project: pytest.Pytester, server: FakeServer, **keys: Any) -> None:
    """Declares a model whose requests take longer than the test."""
    declare(project, server, timeout=10 * NEVER, retries=4, **keys)


class TestInterrupt:
    @pytest.mark.parametrize("kind", ["openai", "anthropic"])
    def test_during_a_cell(self, project: pytest.Pytester, run: Run, kind: str) -> None:
        """Requests under way are waited for a moment, which is said at once; the answers before
        them are kept, and a resumed run asks for the others alone.
        """
        with serving(silent_after(5)) as server:
            patient(project, server, kind=kind, concurrency=3)
            words = f"{MINE} --task copy --limit 12 --out out".split()
            with started(project, ["-m", "pytest", "benches", *words]) as process:
                until(process, lambda: len(server.asked) == 8)
                output = interrupted(process)
            assert process.returncode == 2
            assert "3 requests to mine under way; waiting for at most 1 s" in output
            assert "3 requests to mine had no answer yet" in output
            assert "KeyboardInterrupt" in output
            (file,) = (project.path / "out" / "cells").glob("*.answers.jsonl")
            assert len(read_answers(file).replies) == 5
            server.script = right
            run(f"{MINE} --task copy --limit 12 --resume out").assert_outcomes(passed=1)
            assert len(server.asked) == 8 + 7

    def test_with_workers(self, project: pytest.Pytester) -> None:
        """The controller says how long it waits for them."""
        with serving(silent_after(5)) as server:
            patient(project, server, concurrency=3)
            words = f"{MINE} --task copy --limit 12 --out out -n 2".split()
            with started(project, ["-m", "pytest", "benches", *words]) as process:
                until(process, lambda: len(server.asked) == 8)
                output = interrupted(process)
            assert process.returncode == 2
            (file,) = (project.path / "out" / "cells").glob("*.answers.jsonl")
            assert len(read_answers(file).replies) == 5
        assert "waiting for at most" in output

    def test_before_the_first_cell(self, project: pytest.Pytester) -> None:
        """While the server is asked for its models."""
        with serving(right) as server:
            server.slow = {"/v1/models"}
            patient(project, server)
            words = f"{MINE} --task copy --limit 2 --out out".split()
            with started(project, ["-m", "pytest", "benches", *words]) as process:
                until(process, lambda: "/v1/models" in server.other)
                interrupted(process)
            assert process.returncode == 2
        assert not server.asked

    def test_in_python(self, project: pytest.Pytester) -> None:
        """A program that decodes ends with its KeyboardInterrupt."""
        with serving(silent_after(0)) as server:
            patient(project, server)
            code = (
                "import pbcore; from pbcore.models.registry import add_models_file;"
                "add_models_file('models.yaml');"
                "pbcore.decode(pbcore.load_model('mine'), ['One.', 'Two.'], 'ar')"
            )
            with started(project, ["-c", code]) as process:
                until(process, lambda: len(server.asked) == 2)
                output = interrupted(process)
        assert process.returncode == -signal.SIGINT
        assert "KeyboardInterrupt" in output
