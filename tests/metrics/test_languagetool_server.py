"""The life of a run's server, with real processes and a stand-in for Java."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest
from filelock import FileLock

from pbcore.metrics.grammar import GrammarChecker, verdict_cache
from pbcore.metrics.languagetool import LanguageToolUnavailable
from pbcore.metrics.languagetool.install import find_installation
from pbcore.metrics.languagetool.server import RUN_VARIABLE, SharedServer
from tests.metrics import fake_java

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 60.0

USER = """
import time
from pbcore.metrics.languagetool.server import SharedServer
from pbcore.metrics.languagetool.install import find_installation
server = SharedServer(find_installation())
server.url()
print((server.state / "java").read_text(), flush=True)
time.sleep(60)
"""

CELLS = """
import os, time, pytest
from pathlib import Path
from pbcore.metrics import grammar

@pytest.mark.parametrize("number", range(4))
def test_cell(number, languagetool, worker_id):
    checker = grammar.checker()
    verdicts = checker.check([f"It is is {number}.", f"It is {number}."])
    assert [verdict.score for verdict in verdicts] == [0.0, 1.0]
    Path(f"java-{worker_id}-{number}").write_text((checker.server.state / "java").read_text())
    time.sleep(WAIT)
"""


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The stand-in is the Java that this test and its subprocesses find; gives a folder to run
    in.
    """
    for name, value in fake_java.install(tmp_path / "lt").items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("tempfile.tempdir", None)  # so that TMPDIR is read again
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("PBCORE_LANGUAGETOOL_URL", raising=False)
    (tmp_path / "run").mkdir()
    return tmp_path / "run"


@pytest.fixture
def server(environment: Path) -> Iterator[SharedServer]:
    made = SharedServer(find_installation())
    yield made
    made.stop()


def gone(process: int) -> bool:
    """Whether a process ends within a while."""
    limit = time.monotonic() + PATIENCE
    while time.monotonic() < limit:
        if (
            not psutil.pid_exists(process)
            or psutil.Process(process).status() == psutil.STATUS_ZOMBIE
        ):
            return True
        time.sleep(0.05)
    return False


def java_of(server: SharedServer) -> int:
    return int((server.state / "java").read_text().split()[0])


def user() -> tuple[subprocess.Popen[str], int]:
    """Another process of the run, and the Java whose server it uses."""
    process = subprocess.Popen([sys.executable, "-c", USER], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, int(process.stdout.readline().split()[0])


class TestSharedServer:
    def test_ends_with_its_last_user(self, server: SharedServer) -> None:
        """Two users of a run get one server; it stays while one of them lives, and leaves nothing
        behind.
        """
        second = SharedServer(find_installation())
        assert server.url() == second.url()
        java = java_of(server)
        server.stop()
        time.sleep(1)
        assert psutil.pid_exists(java)
        second.stop()
        assert gone(java)
        limit = time.monotonic() + PATIENCE
        while server.state.exists() and time.monotonic() < limit:
            time.sleep(0.05)
        assert not server.state.exists()

    def test_starts_while_the_folder_of_an_earlier_server_goes(
        self, server: SharedServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its watchdog removes the folder just before the lock's file is opened."""
        acquire = FileLock.acquire
        goes = [True, True]

        def late(lock: FileLock, *arguments: Any, **options: Any) -> Any:
            if Path(lock.lock_file) == server.state / "lock" and goes:
                goes.pop()
                server.state.rmdir()
                raise FileNotFoundError(lock.lock_file)
            return acquire(lock, *arguments, **options)

        monkeypatch.setattr(FileLock, "acquire", late)
        assert server.url().startswith("http://127.0.0.1:")
        assert goes == []

    def test_processes_that_start_together_share_it(self, environment: Path) -> None:
        """One starts it, the others wait."""
        with ThreadPoolExecutor(3) as threads:
            processes, javas = zip(*threads.map(lambda _: user(), range(3)), strict=True)
        assert len(set(javas)) == 1
        for process in processes:
            process.kill()
            process.wait()
        assert gone(javas[0])

    def test_is_kept_for_the_user_that_is_left(self, server: SharedServer) -> None:
        """The death of the process that started the server doesn't take it from others."""
        process, java = user()
        server.url()
        process.kill()
        process.wait()
        time.sleep(1)
        assert java_of(server) == java
        assert GrammarChecker(server).check(["It is is."])[0].score == 0.0

    def test_other_runs_have_other_servers(
        self, server: SharedServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What kills the server of one run leaves that of another alone."""
        url = server.url()
        monkeypatch.setenv(RUN_VARIABLE, "another")
        other = SharedServer(find_installation())
        assert other.url() != url
        with pytest.raises(LanguageToolUnavailable):
            GrammarChecker(other).check(["POISON"])
        assert GrammarChecker(server).check(["It is is."])[0].score == 0.0
        assert server.url() == url
        other.stop()

    @pytest.mark.skipif(sys.platform != "linux", reason="Linux alone ends Java with its parent")
    def test_java_dies_with_its_watchdog(self, server: SharedServer) -> None:
        """Killed, the watchdog still takes Java with it."""
        server.url()
        java = java_of(server)
        watchdog = psutil.Process(java).parent()
        assert watchdog is not None
        assert watchdog.pid != os.getpid()
        watchdog.kill()
        assert gone(java)

    def test_is_restarted_once(self, server: SharedServer) -> None:
        """After one death the work goes on; after the second every request has the same reason, and
        no third server.
        """
        checker = GrammarChecker(server)
        checker.check(["One."])
        psutil.Process(java_of(server)).kill()
        assert [verdict.score for verdict in checker.check(["Two.", "Three is is."])] == [1.0, 0.0]
        psutil.Process(java_of(server)).kill()
        for texts in (["Four."], ["Five."]):
            with pytest.raises(LanguageToolUnavailable, match="did not start or died, 2 times"):
                checker.check(texts)
        with pytest.raises(LanguageToolUnavailable, match="2 times"):
            SharedServer(find_installation()).url()
        assert (server.state.parent / "started.log").read_text().splitlines() == ["started"] * 2

    def test_a_text_that_kills_the_server_ends_grammar(self, server: SharedServer) -> None:
        """A text is tried again on the new server; it can't start servers for ever."""
        with pytest.raises(LanguageToolUnavailable, match="2 times"):
            GrammarChecker(server).check(["POISON"])

    def test_a_connection_without_an_answer_is_no_death(self, server: SharedServer) -> None:
        """Where the server lives on, no restart is used up."""
        server.url()
        java = java_of(server)
        with pytest.raises(LanguageToolUnavailable, match="dropped the connection"):
            GrammarChecker(server).check(["DROP"])
        assert java_of(server) == java

    def test_says_why_java_did_not_start(
        self, server: SharedServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What Java said and its path are in the message."""
        monkeypatch.setenv("BEHAVIOUR", "dies")
        with pytest.raises(
            LanguageToolUnavailable,
            match=r"did not start or died, 2 times with .*java: .*find or load main class",
        ):
            server.url()

    def test_says_so_without_java(self, environment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A wrong PBCORE_JAVA is named."""
        monkeypatch.setenv("PBCORE_JAVA", "/no/such/java")
        server = SharedServer(find_installation())
        with pytest.raises(
            LanguageToolUnavailable, match=r"with /no/such/java: .*FileNotFoundError"
        ):
            server.url()
        server.stop()


class TestCacheAndServer:
    def test_cached_answers_need_no_server(self, server: SharedServer, tmp_path: Path) -> None:
        """A run whose answers are all known starts no Java; one new answer asks about that one
        alone.
        """
        cache = tmp_path / "grammar.sqlite"
        texts = ["It is is.", "It is.", " It is. ", ""]
        first = GrammarChecker(server, verdict_cache(cache)).check(texts)
        assert [verdict.score for verdict in first] == [0.0, 1.0, 1.0, 0.0]
        java = java_of(server)
        server.stop()
        assert gone(java)
        log = server.state / "server.log"
        limit = time.monotonic() + PATIENCE
        while log.exists() and time.monotonic() < limit:  # the watchdog removes it
            time.sleep(0.05)
        again = GrammarChecker(server, verdict_cache(cache))
        assert again.check(texts) == first
        assert not log.exists()
        again.check([*texts, "Something new."])
        asked = [
            json.loads(line) for line in (tmp_path / "lt" / "asked.log").read_text().splitlines()
        ]
        assert sorted(text for text in asked if text != "This is a test.") == [
            "It is is.",
            "It is.",
            "Something new.",
        ]


class TestPytestRuns:
    @pytest.mark.parametrize(
        ("workers", "end"),
        [
            pytest.param("0", "end", marks=pytest.mark.nightly),
            pytest.param("2", "end", marks=pytest.mark.slow),
            pytest.param("2", "SIGINT", marks=pytest.mark.nightly),
            ("2", "SIGKILL"),
            pytest.param("2", "SIGKILL of all", marks=pytest.mark.slow),
        ],
    )
    def test_one_server_and_no_orphan(self, workers: str, end: str, environment: Path) -> None:
        """All workers of a run share one server, and it is gone after the end, Ctrl-C, a killed
        controller, and a kill of every process of the run at once.
        """
        (environment / "test_cells.py").write_text(
            CELLS.replace("WAIT", "0.3" if end == "end" else "60")
        )
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "fixtures.grammar",
            "-n",
            workers,
            "test_cells.py",
        ]
        process = subprocess.Popen(
            command,
            cwd=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        if end != "end":
            limit = time.monotonic() + PATIENCE
            while len(list(environment.glob("java-*"))) < 2 and time.monotonic() < limit:
                time.sleep(0.05)
            time.sleep(0.2)
            if end == "SIGINT":
                os.killpg(
                    process.pid, signal.SIGINT
                )  # a terminal sends it to the whole foreground group
            elif end == "SIGKILL":
                process.kill()
            else:
                java = psutil.Process(int(next(environment.glob("java-*")).read_text().split()[0]))
                for one in [
                    *psutil.Process(process.pid).children(recursive=True),
                    java.parent(),
                    process,
                ]:
                    assert one is not None
                    one.kill()
        said = process.communicate(timeout=PATIENCE)[0]
        javas = {int(path.read_text().split()[0]) for path in environment.glob("java-*")}
        assert len(javas) == 1, said
        assert len({path.name.split("-")[1] for path in environment.glob("java-*")}) == max(
            int(workers), 1
        ), said
        assert gone(javas.pop())
