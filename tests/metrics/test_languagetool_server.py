"""The shared server's life, with real processes and a stand-in for Java: it starts once, is shared, and never outlives
its users.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from pbcore.metrics.grammar import Checker
from pbcore.metrics.languagetool import ServerDied, Unavailable
from pbcore.metrics.languagetool.cache import VerdictCache
from pbcore.metrics.languagetool.install import find_installation
from pbcore.metrics.languagetool.shared import SharedServer
from tests.metrics import fake_java

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 120.0

USER = """
import sys, time
from pathlib import Path
from pbcore.metrics.languagetool.shared import SharedServer
from pbcore.metrics.languagetool.install import find_installation
server = SharedServer(find_installation(), Path(sys.argv[1]))
server.start()
print(server.java, flush=True)
time.sleep(60)
"""

CELLS = """
import time, pytest
from pathlib import Path
from pbcore.metrics import grammar

@pytest.mark.parametrize("number", range(4))
def test_cell(number, languagetool, worker_id):
    checker = grammar.checker()
    assert [verdict.score for verdict in checker.check([f"It is is {number}.", f"It is {number}."])] == [0.0, 1.0]
    Path(f"java-{worker_id}-{number}").write_text(str(checker.server.java))
    time.sleep(WAIT)
"""


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The stand-in is the Java that this test and its subprocesses find; gives the server's folder."""
    for name, value in fake_java.install(tmp_path / "lt").items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("PBCORE_LANGUAGETOOL_URL", raising=False)
    (tmp_path / "run").mkdir()
    return tmp_path / "run"


@pytest.fixture
def server(environment: Path) -> Iterator[SharedServer]:
    made = SharedServer(find_installation(), environment)
    yield made
    made.stop()


def gone(process: int) -> bool:
    """Whether a process ends within a while."""
    limit = time.monotonic() + PATIENCE
    while time.monotonic() < limit:
        if not psutil.pid_exists(process) or psutil.Process(process).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.05)
    return False


def java_of(server: SharedServer) -> int:
    assert server.java is not None
    return server.java


def user(folder: Path) -> tuple[subprocess.Popen[str], int]:
    """Another process that uses the server of `folder`, and the Java that it found."""
    process = subprocess.Popen([sys.executable, "-c", USER, str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, int(process.stdout.readline())


class TestSharedServer:
    def test_ends_with_its_last_user(self, server: SharedServer, environment: Path) -> None:
        """Two users get one server; it stays while one of them lives, and is gone when `stop` of the last returns."""
        url = server.start()
        second = SharedServer(find_installation(), environment)
        assert second.start() == url
        java = java_of(server)
        server.stop()
        assert psutil.pid_exists(java)
        second.stop()
        assert not psutil.pid_exists(java)

    def test_outlives_no_killed_user(self, environment: Path) -> None:
        """A user that is killed without a chance to clean up takes the server with it."""
        process, java = user(environment)
        assert psutil.pid_exists(java)
        process.kill()
        process.wait()
        assert gone(java)

    def test_is_kept_for_the_user_that_is_left(self, server: SharedServer, environment: Path) -> None:
        """The death of the process that started the server doesn't take it from others."""
        process, java = user(environment)
        server.start()
        process.kill()
        process.wait()
        time.sleep(1)
        assert java_of(server) == java
        assert Checker(server).check(["It is is."])[0].score == 0.0

    def test_java_dies_with_its_supervisor(self, server: SharedServer) -> None:
        """Even a killed supervisor takes Java with it, and the next request gets a new server."""
        server.start()
        java = java_of(server)
        supervisor = psutil.Process(java).parent()
        assert supervisor is not None
        assert supervisor.pid != os.getpid()
        supervisor.kill()
        assert gone(java)
        assert Checker(server).check(["It is."])[0].score == 1.0
        assert java_of(server) != java

    def test_is_restarted_once(self, server: SharedServer) -> None:
        """After one death the work goes on; after the second every request fails with what happened, without a third
        try.
        """
        checker = Checker(server)
        checker.check(["One."])
        psutil.Process(java_of(server)).kill()
        assert [verdict.score for verdict in checker.check(["Two.", "Three is is."])] == [1.0, 0.0]
        psutil.Process(java_of(server)).kill()
        with pytest.raises(ServerDied, match=r"can't be measured in the rest of this run: .*died 2 times"):
            checker.check(["Four."])
        with pytest.raises(ServerDied, match="died 2 times"):
            checker.check(["Five."])

    def test_a_text_that_kills_the_server_fails_its_caller(self, server: SharedServer) -> None:
        """A text is tried again on the new server; it can't start servers for ever."""
        with pytest.raises(ServerDied, match="died 2 times"):
            Checker(server).check(["POISON"])

    def test_a_new_run_starts_afresh(self, server: SharedServer, environment: Path) -> None:
        """Deaths count until a user leaves, and no longer."""
        with pytest.raises(ServerDied):
            Checker(server).check(["POISON"])
        server.stop()
        assert Checker(server).check(["Fine."])[0].score == 1.0

    def test_takes_another_port_if_its_own_is_taken(
        self, server: SharedServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A port that someone took between the choice and the start costs another try, not the run."""
        monkeypatch.setenv("BEHAVIOUR", "port")
        assert Checker(server).check(["Fine."])[0].score == 1.0

    def test_says_why_java_did_not_start(self, server: SharedServer, monkeypatch: pytest.MonkeyPatch) -> None:
        """What Java said and the command that was tried are in the message, and nothing is left running."""
        monkeypatch.setenv("BEHAVIOUR", "dies")
        with pytest.raises(Unavailable, match=r"did not start: `.*HTTPServer.*find or load main class"):
            server.start()


class TestCacheAndServer:
    def test_cached_answers_need_no_server(self, server: SharedServer, tmp_path: Path) -> None:
        """A run whose answers are all known starts no Java; one new answer asks about that one alone."""
        cache = tmp_path / "grammar.sqlite"
        texts = ["It is is.", "It is.", " It is. ", ""]
        first = Checker(server, VerdictCache(cache)).check(texts)
        assert [verdict.score for verdict in first] == [0.0, 1.0, 1.0, 0.0]
        server.stop()
        again = Checker(server, VerdictCache(cache))
        assert again.check(texts) == first
        assert server.java is None
        again.check([*texts, "Something new."])
        asked = [json.loads(line) for line in (tmp_path / "lt" / "asked.log").read_text().splitlines()]
        assert sorted(text for text in asked if text != "This is a test.") == ["It is is.", "It is.", "Something new."]


class TestPytestRuns:
    @pytest.mark.parametrize(
        ("workers", "end"),
        [
            pytest.param("0", "end", marks=pytest.mark.nightly),
            pytest.param("2", "end", marks=pytest.mark.nightly),
            pytest.param("2", "SIGINT", marks=pytest.mark.nightly),
            ("2", "SIGKILL"),
        ],
    )
    def test_one_server_and_no_orphan(self, workers: str, end: str, environment: Path) -> None:
        """All workers of a run share one server, and it is gone after the end, Ctrl-C and a killed controller."""
        (environment / "test_cells.py").write_text(CELLS.replace("WAIT", "0.3" if end == "end" else "60"))
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "fixtures.grammar",
            "-p",
            "no:pbcore",
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
                # A terminal sends it to the whole foreground group.
                os.killpg(process.pid, signal.SIGINT)
            else:
                process.kill()
        said = process.communicate(timeout=PATIENCE)[0]
        javas = {path.read_text() for path in environment.glob("java-*")}
        assert len(javas) == 1, said
        assert len({path.name.split("-")[1] for path in environment.glob("java-*")}) == max(int(workers), 1), said
        assert gone(int(javas.pop()))
