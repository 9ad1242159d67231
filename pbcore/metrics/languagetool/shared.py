"""The LanguageTool server that all of the user's processes on this machine share.

Needs POSIX file locks: Linux and macOS.
"""

from __future__ import annotations

import fcntl
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TextIO

import urllib3

from pbcore.metrics.languagetool import supervisor
from pbcore.metrics.languagetool.errors import ServerDied, Unavailable
from pbcore.metrics.languagetool.folders import runtime_folder
from pbcore.metrics.languagetool.install import Installation, java
from pbcore.metrics.languagetool.server import ask

HEAP_MEGABYTES = 1024
START_LIMIT = 240.0
STOP_LIMIT = 10.0
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


class SharedServer:
    """The server of a local installation, started by the first process that needs it and shared by all processes of the
    user.

    Each user holds a shared lock on `users.lock` in `folder`. The supervisor stops Java when no lock is left, so the
    server ends with its last user, even if that one is killed. A server that dies is restarted once by each of its
    users; when it dies again, `ensure` raises.
    """

    def __init__(self, installation: Installation, folder: Path | None = None) -> None:
        """Doesn't start the server."""
        self._installation = installation
        self._folder = folder or runtime_folder(f"grammar-{installation.identity}")
        self._lease: TextIO | None = None
        self._url = ""
        self._starts = 0

    @property
    def identity(self) -> str:
        return self._installation.identity

    @property
    def java(self) -> int | None:
        """Java's process id while there is a server."""
        return int((self._folder / "java.pid").read_text()) if self._supervised() else None

    def start(self) -> str:
        if self._lease is None:
            self._lease, self._starts = (self._folder / "users.lock").open("w"), 0
            fcntl.flock(self._lease, fcntl.LOCK_SH)  # waits for a supervisor that is about to end
            try:
                self._url = self._serve()
            except Unavailable:
                self.stop()
                raise
        return self._url

    def ensure(self) -> str:
        try:
            self._url = self._serve()
        except Unavailable as error:
            raise ServerDied(f"grammar can't be measured in the rest of this run: {error}") from error
        return self._url

    def stop(self) -> None:
        """Releases the server; without other users, waits until it has stopped."""
        if self._lease is None:
            return
        # Closing the file releases the lock; an explicit unlock would also release it for forked children.
        self._lease.close()
        self._lease = None
        limit = time.monotonic() + STOP_LIMIT
        while self._supervised() and not self._used_by_others() and time.monotonic() < limit:
            time.sleep(0.02)

    def _serve(self) -> str:
        """The URL of a server that answers; starts one if there is none. One process does so, the others wait."""
        with (self._folder / "start.lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if self._supervised() and self._answers(url := (self._folder / "url").read_text()):
                return url
            if self._starts > RESTARTS:
                raise Unavailable(
                    f"LanguageTool's server died {self._starts} times in this run; the end of its log: {self._tail()}"
                )
            self._starts += 1
            for _ in range(PORT_TRIES):
                url = f"http://127.0.0.1:{(port := _free_port())}/"
                command = self._command(port)
                self._supervise(command, url)
                if self._answers(url):
                    return url
                if PORT_TAKEN not in self._log():
                    break
            raise Unavailable(f"LanguageTool's server did not start: `{' '.join(command)}`: {self._tail()}")

    def _command(self, port: int) -> list[str]:
        """The parallel collector needs a quarter less time and a third less memory than Java's default. The first
        compiler alone (level 1) halves the processor time of a few hundred answers and is as fast over thousands.
        Without `nodelay` Java's HTTP server waits 40 ms per request on persistent connections; without a log
        configuration it logs every request."""
        (config := self._folder / "server.properties").write_text(CONFIG)
        (logback := self._folder / "logback.xml").write_text(LOGBACK)
        return [
            *(str(java()), f"-Xmx{HEAP_MEGABYTES}m", "-XX:+UseParallelGC", "-XX:TieredStopAtLevel=1"),
            *(
                "-Dsun.net.httpserver.nodelay=true",
                f"-Dlogback.configurationFile={logback}",
                "-cp",
                f"{self._installation.folder}/*",
            ),
            *("org.languagetool.server.HTTPServer", "--port", str(port), "--config", str(config)),
        ]

    def _supervise(self, command: list[str], url: str) -> None:
        """Starts the supervisor in the background; it holds `supervisor.lock` as long as Java runs."""
        (self._folder / "url").write_text(url)
        script = [sys.executable, "-I", supervisor.__file__, str(self._folder), *command]
        with (self._folder / "server.log").open("wb") as log:
            subprocess.run(
                script, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, check=False
            )

    def _answers(self, url: str) -> bool:
        """Waits for a verdict of the server, before whose first it loads the rules; False once there is no server."""
        limit = time.monotonic() + START_LIMIT
        while self._supervised() and time.monotonic() < limit:
            try:
                if ask("POST", f"{url}v2/check", START_LIMIT, WARM_UP).status == 200:
                    return True
            except urllib3.exceptions.HTTPError:
                pass
            time.sleep(0.05)
        return False

    def _log(self) -> str:
        return (self._folder / "server.log").read_text(errors="replace")

    def _tail(self) -> str:
        """The last lines of the server's log, without stack frames."""
        lines = [line for line in self._log().splitlines() if line.strip() and not line.startswith(("\t", " "))]
        return " | ".join(lines[-3:]) or "(nothing)"

    def _supervised(self) -> bool:
        return not _try_lock(self._folder / "supervisor.lock", fcntl.LOCK_SH)

    def _used_by_others(self) -> bool:
        users = self._folder / "users.lock"
        return not _try_lock(users, fcntl.LOCK_EX) and _try_lock(users, fcntl.LOCK_SH)


def _try_lock(path: Path, how: int) -> bool:
    """Whether the lock `how` on `path` is free now; it is released at once."""
    with path.open("a") as file:
        try:
            fcntl.flock(file, how | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
