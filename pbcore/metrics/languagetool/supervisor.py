"""The supervisor process: runs one LanguageTool server for all of the user's processes. A script with the standard
library only.

`supervisor.py FOLDER JAVA JAR MEGABYTES` starts Java, restarts it once if it dies, and stops it when no process holds
`users.lock` any more. Users hold a shared lock on that file while they live. The kernel releases a lock when its
process ends, however it ends, so a killed run needs no clean-up. On Linux Java dies with the supervisor.

Users read FOLDER/state.json, a State that is always replaced atomically.
"""

from __future__ import annotations

import ctypes
import fcntl
import http.client
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TextIO

POLL = 0.2
START_LIMIT = 240.0
RESTARTS = 1
PORT_TRIES = 5
PORT_TAKEN = "Address already in use"
WARM_UP = "text=This+is+a+test.&language=en-US"

CONFIG = "pipelineCaching=true\nmaxPipelinePoolSize=20\npipelineExpireTimeInSeconds=3600\n"
LOGBACK = """<configuration>
  <appender name="out" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d %level %msg%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="out"/></root>
</configuration>
"""


@dataclass(frozen=True, slots=True)
class State:
    """`status` is `starting`, `ready` or `failed`; `generation` counts the servers started for the current users."""

    status: str = "starting"
    generation: int = 0
    java: int | None = None
    url: str | None = None
    message: str = ""


def main(folder: Path, java: str, jar: str, megabytes: str) -> None:
    """Runs a server until the last user is gone."""
    command = [java, f"-Xmx{megabytes}m", *java_options(folder), "-cp", jar, "org.languagetool.server.HTTPServer"]
    with (folder / "users.lock").open("w") as users:
        generation = read_state(folder).generation
        while generation <= RESTARTS and not unused(users):
            generation += 1
            process = start(folder, command, generation, lambda: unused(users))
            if process is None:
                break
            while process.poll() is None and not unused(users):
                time.sleep(POLL)
            stop(process)
        state = read_state(folder)
        if not unused(users) and state.status != "failed":
            message = (
                f"LanguageTool's server died {state.generation} times in this run; the end of its log: {tail(folder)}"
            )
            write_state(folder, State("failed", state.generation, message=message))
        while not unused(users):
            time.sleep(POLL)
        # From here to the exit `users` is locked exclusively: a process arriving now waits, then finds no state and no
        # supervisor.
        (folder / "state.json").unlink(missing_ok=True)


def java_options(folder: Path) -> list[str]:
    """Java's options. The parallel collector needs a quarter less time and a third less memory than Java's default.
    Without `nodelay` Java's HTTP server waits 40 ms per request on persistent connections; without a log configuration
    it logs every request."""
    return [
        "-XX:+UseParallelGC",
        "-Dsun.net.httpserver.nodelay=true",
        f"-Dlogback.configurationFile={folder / 'logback.xml'}",
    ]


def unused(users: TextIO) -> bool:
    """Whether no user is left; if so, this process holds the exclusive lock until it exits."""
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def start(
    folder: Path, command: list[str], generation: int, given_up: Callable[[], bool]
) -> subprocess.Popen[bytes] | None:
    """Starts Java on a free port and waits for its first verdict.

    If none comes, sets the state `failed` and returns None.
    """
    (folder / "server.properties").write_text(CONFIG)
    (folder / "logback.xml").write_text(LOGBACK)
    for _ in range(PORT_TRIES):
        port = free_port()
        full = [*command, "--port", str(port), "--config", str(folder / "server.properties")]
        with (folder / "server.log").open("wb") as log:
            process = subprocess.Popen(
                full, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder, preexec_fn=die_with_parent
            )
        write_state(folder, State("starting", generation, process.pid))
        if answers(port, process, given_up):
            write_state(folder, State("ready", generation, process.pid, f"http://127.0.0.1:{port}/"))
            return process
        stop(process)
        if PORT_TAKEN not in log_text(folder):
            break
    ended = f"`{' '.join(full)}` ended with exit code {process.returncode}: {tail(folder)}"
    message = f"LanguageTool's server did not start: {ended}"
    write_state(folder, State("failed", generation, message=message))
    return None


def answers(port: int, process: subprocess.Popen[bytes], given_up: Callable[[], bool]) -> bool:
    """Waits for the server's first verdict, before which it loads the rules.

    False if it ends, times out or is given up.
    """
    limit = time.monotonic() + START_LIMIT
    while process.poll() is None and time.monotonic() < limit and not given_up():
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=START_LIMIT)
        try:
            connection.request("POST", "/v2/check", WARM_UP, {"Content-Type": "application/x-www-form-urlencoded"})
            while not select.select([connection.sock], [], [], POLL)[0]:
                if process.poll() is not None or time.monotonic() > limit or given_up():
                    return False
            if connection.getresponse().status == 200:
                return True
        except (OSError, http.client.HTTPException):
            time.sleep(POLL)
        finally:
            connection.close()
    return False


def die_with_parent() -> None:
    """Runs in the child before Java: tells Linux to kill it when the supervisor dies (PR_SET_PDEATHSIG = 1)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def stop(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def log_text(folder: Path) -> str:
    return (folder / "server.log").read_text(errors="replace")


def tail(folder: Path) -> str:
    """The last lines of the server's log, without stack frames."""
    lines = [line for line in log_text(folder).splitlines() if line.strip() and not line.startswith(("\t", " "))]
    return " | ".join(lines[-3:]) or "(nothing)"


def read_state(folder: Path) -> State:
    try:
        return State(**json.loads((folder / "state.json").read_text()))
    except FileNotFoundError:
        return State()


def write_state(folder: Path, state: State) -> None:
    new = folder / "state.json.new"
    new.write_text(json.dumps(asdict(state)))
    new.replace(folder / "state.json")


if __name__ == "__main__":
    with (Path(sys.argv[1]) / "supervisor.lock").open("w") as alive:
        # Locked before the fork and inherited by the child: when this command returns, the caller sees a running
        # supervisor.
        fcntl.flock(alive, fcntl.LOCK_EX)
        if os.fork() == 0:
            main(Path(sys.argv[1]), *sys.argv[2:])
