"""Servers that give verdicts: one that all processes of this machine share, or one that the user runs."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import http.client
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, TextIO
from urllib.parse import urlsplit

from pbcore.metrics.languagetool import keeper
from pbcore.metrics.languagetool.errors import ServerDied, Unavailable
from pbcore.metrics.languagetool.find import URL_VARIABLE, Installation, find_installation, find_java
from pbcore.metrics.languagetool.folders import runtime_folder

HEAP_MEGABYTES = 1024
STOP_LIMIT = 10.0


class Server(Protocol):
    """Something that answers LanguageTool's HTTP interface (`<url>v2/check`)."""

    @property
    def identity(self) -> str:
        """What tells this server's verdicts from another's."""
        ...

    def start(self) -> str:
        """The server's URL, with a slash at its end. Raises Unavailable if it can't be had."""
        ...

    def ensure(self) -> str:
        """The URL to go on with after a failed request. Raises ServerDied if there is none."""
        ...

    def stop(self) -> None:
        """Says that this process needs the server no longer."""
        ...


class SharedServer:
    """The server of a local installation, started by whoever needs it first and shared by every process of the user.

    A process that uses it holds a shared lock on `users.lock` in `folder`; `keeper.py` stops Java when no lock is left, so it ends
    with its last user even if that is killed. A server that dies is started once more; when it dies again, `ensure` raises.
    """

    def __init__(self, installation: Installation | None = None, folder: Path | None = None) -> None:
        """Finds the installation if none is given (raises Unavailable); starts nothing."""
        self._installation = installation or find_installation()
        self._folder = folder or runtime_folder(f"languagetool-{self._installation.identity}")
        self._lease: TextIO | None = None

    @property
    def identity(self) -> str:
        return self._installation.identity

    @property
    def state(self) -> keeper.State:
        """What the keeper last said."""
        return keeper.read_state(self._folder)

    def start(self) -> str:
        if self._lease is None:
            self._lease = self._join()
        try:
            return self._wait()
        except Unavailable:
            self.stop()
            raise

    def ensure(self) -> str:
        # The keeper sees a death within one poll; a state read earlier may still name the dead server.
        time.sleep(2 * keeper.POLL)
        try:
            return self._wait()
        except Unavailable as error:
            raise ServerDied(f"grammar can't be measured in the rest of this run: {error}") from error

    def stop(self) -> None:
        """Leaves the server; if nobody else uses it, waits until it is gone."""
        if self._lease is None:
            return
        # Closing is what releases; an explicit unlock would take the lease from forked children, too.
        self._lease.close()
        self._lease = None
        limit = time.monotonic() + STOP_LIMIT
        while self._kept() and not self._used_by_others() and time.monotonic() < limit:
            time.sleep(0.02)

    def _join(self) -> TextIO:
        with self._starting():
            if not self._kept() and _try_lock(self._folder / "users.lock", fcntl.LOCK_EX):
                # Left behind by a keeper that was killed together with its users.
                (self._folder / "state.json").unlink(missing_ok=True)
            lease = (self._folder / "users.lock").open("w")
            fcntl.flock(lease, fcntl.LOCK_SH)
            return lease

    def _wait(self) -> str:
        """The URL once the server is ready, starting a keeper where there is none."""
        limit = time.monotonic() + 2 * keeper.START_LIMIT
        keepers = 0
        while time.monotonic() < limit:
            with self._starting():
                if not self._kept():
                    if keepers > keeper.RESTARTS:
                        raise Unavailable(f"LanguageTool's keeper died {keepers} times: {self._keeper_log()}")
                    self._start_keeper()
                    keepers += 1
            state = self.state
            if state.status == "failed":
                raise Unavailable(state.message)
            if state.status == "ready" and state.url is not None:
                return state.url
            time.sleep(0.05)
        raise Unavailable(
            f"LanguageTool's server was not ready after {2 * keeper.START_LIMIT:.0f} s; see {self._folder}/server.log"
        )

    def _start_keeper(self) -> None:
        java = find_java()
        command = [
            sys.executable,
            "-I",
            keeper.__file__,
            str(self._folder),
            str(java.path),
            str(self._installation.jar),
        ]
        with (self._folder / "keeper.log").open("wb") as log:
            done = subprocess.run(
                [*command, str(HEAP_MEGABYTES)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                check=False,
            )
        if done.returncode != 0:
            raise Unavailable(f"LanguageTool's keeper could not be started: {self._keeper_log()}")

    def _keeper_log(self) -> str:
        return (self._folder / "keeper.log").read_text(errors="replace").strip()[-600:] or f"see {self._folder}"

    def _kept(self) -> bool:
        return not _try_lock(self._folder / "keeper.lock", fcntl.LOCK_SH)

    def _used_by_others(self) -> bool:
        users = self._folder / "users.lock"
        return not _try_lock(users, fcntl.LOCK_EX) and _try_lock(users, fcntl.LOCK_SH)

    @contextlib.contextmanager
    def _starting(self) -> Iterator[None]:
        with (self._folder / "start.lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


class UserServer:
    """A server that the user runs, by URL. It is never started or stopped here."""

    def __init__(self, url: str) -> None:
        """`url` with or without scheme and `/v2`: `localhost:8081`, `https://example.org/api/v2`."""
        whole = url if "://" in url else f"http://{url}"
        self._url = whole.rstrip("/").removesuffix("/v2") + "/"
        self._identity: str | None = None

    @property
    def identity(self) -> str:
        """Version, build and a digest of the rules it has: servers of one version differ by n-grams and configuration."""
        if self._identity is None:
            said = self._get("v2/configinfo?language=en-US")
            software = json.loads(said)["software"]
            self._identity = f"{software['version']}-{software['buildDate']}-{hashlib.sha256(said).hexdigest()[:12]}"
        return self._identity

    def start(self) -> str:
        self._get("v2/healthcheck")
        return self._url

    def ensure(self) -> str:
        try:
            return self.start()
        except Unavailable as error:
            raise ServerDied(f"{error} It answered earlier in this run.") from error

    def stop(self) -> None:
        """Nothing to do: it is the user's."""

    def _get(self, path: str) -> bytes:
        try:
            with contextlib.closing(connect(self._url, timeout=20)) as connection:
                connection.request("GET", urlsplit(self._url).path + path)
                response = connection.getresponse()
                said = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise Unavailable(
                f"no LanguageTool server answers at {self._url} ({error}): start it, or correct --languagetool-url or {URL_VARIABLE}."
            ) from error
        if response.status != 200:
            raise Unavailable(
                f"{self._url}{path} answered {response.status}, is that LanguageTool? Give the part before /v2."
            )
        return said


def connect(url: str, timeout: float) -> http.client.HTTPConnection:
    """A connection to the host of `url`; opened by its first request."""
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    return kind(parts.netloc, timeout=timeout)


def _try_lock(path: Path, how: int) -> bool:
    """Whether `path` could be locked so just now; the lock is given back at once."""
    with path.open("a") as file:
        try:
            fcntl.flock(file, how | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
