"""The LanguageTool server that all of the user's processes on this machine share.

Needs POSIX file locks: Linux and macOS.
"""

from __future__ import annotations

import contextlib
import fcntl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from pbcore.metrics.languagetool import supervisor
from pbcore.metrics.languagetool.errors import ServerDied, Unavailable
from pbcore.metrics.languagetool.find import Installation, find_installation, find_java
from pbcore.metrics.languagetool.folders import runtime_folder

HEAP_MEGABYTES = 1024
STOP_LIMIT = 10.0


class SharedServer:
    """The server of a local installation, started by the first process that needs it and shared by all processes of the
    user.

    Each user holds a shared lock on `users.lock` in `folder`. The supervisor stops Java when no lock is left, so the
    server ends with its last user, even if that one is killed. A server that dies is restarted once; when it dies
    again, `ensure` raises.
    """

    def __init__(self, installation: Installation | None = None, folder: Path | None = None) -> None:
        """Finds the installation if none is given (raises Unavailable). Doesn't start the server."""
        self._installation = installation or find_installation()
        self._folder = folder or runtime_folder(f"languagetool-{self._installation.identity}")
        self._lease: TextIO | None = None

    @property
    def identity(self) -> str:
        return self._installation.identity

    @property
    def state(self) -> supervisor.State:
        """The state that the supervisor last wrote."""
        return supervisor.read_state(self._folder)

    def start(self) -> str:
        if self._lease is None:
            self._lease = self._join()
        try:
            return self._wait()
        except Unavailable:
            self.stop()
            raise

    def ensure(self) -> str:
        # The supervisor notices a death within one poll; a state read before that may still name the dead server.
        time.sleep(2 * supervisor.POLL)
        try:
            return self._wait()
        except Unavailable as error:
            raise ServerDied(f"grammar can't be measured in the rest of this run: {error}") from error

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

    def _join(self) -> TextIO:
        with self._starting():
            if not self._supervised() and _try_lock(self._folder / "users.lock", fcntl.LOCK_EX):
                # A stale state: the supervisor was killed together with its users.
                (self._folder / "state.json").unlink(missing_ok=True)
            lease = (self._folder / "users.lock").open("w")
            fcntl.flock(lease, fcntl.LOCK_SH)
            return lease

    def _wait(self) -> str:
        """Waits until the server is ready and returns its URL. Starts a supervisor if there is none."""
        limit = time.monotonic() + 2 * supervisor.START_LIMIT
        starts = 0
        while time.monotonic() < limit:
            with self._starting():
                if not self._supervised():
                    if starts > supervisor.RESTARTS:
                        raise Unavailable(f"LanguageTool's supervisor died {starts} times: {self._supervisor_log()}")
                    self._start_supervisor()
                    starts += 1
            state = self.state
            if state.status == "failed":
                raise Unavailable(state.message)
            if state.status == "ready" and state.url is not None:
                return state.url
            time.sleep(0.05)
        raise Unavailable(
            f"LanguageTool's server was not ready after {2 * supervisor.START_LIMIT:.0f} s; see "
            f"{self._folder}/server.log"
        )

    def _start_supervisor(self) -> None:
        java = find_java()
        command = [
            sys.executable,
            "-I",
            supervisor.__file__,
            str(self._folder),
            str(java.path),
            str(self._installation.jar),
        ]
        with (self._folder / "supervisor.log").open("wb") as log:
            done = subprocess.run(
                [*command, str(HEAP_MEGABYTES)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                check=False,
            )
        if done.returncode != 0:
            raise Unavailable(f"LanguageTool's supervisor could not be started: {self._supervisor_log()}")

    def _supervisor_log(self) -> str:
        return (self._folder / "supervisor.log").read_text(errors="replace").strip()[-600:] or f"see {self._folder}"

    def _supervised(self) -> bool:
        return not _try_lock(self._folder / "supervisor.lock", fcntl.LOCK_SH)

    def _used_by_others(self) -> bool:
        users = self._folder / "users.lock"
        return not _try_lock(users, fcntl.LOCK_EX) and _try_lock(users, fcntl.LOCK_SH)

    @contextlib.contextmanager
    def _starting(self) -> Iterator[None]:
        with (self._folder / "start.lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _try_lock(path: Path, how: int) -> bool:
    """Whether the lock `how` on `path` is free now; it is released at once."""
    with path.open("a") as file:
        try:
            fcntl.flock(file, how | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
