"""LanguageTool servers: one that the user runs, and the one that the processes of a run share."""

import contextlib
import hashlib
import os
import subprocess
import sys
import tempfile
import time
import uuid
from contextlib import AbstractContextManager
from pathlib import Path

from filelock import FileLock

from pbcore.metrics.languagetool import LanguageToolUnavailable, watchdog
from pbcore.metrics.languagetool.install import URL_VARIABLE, java

RUN_VARIABLE = "PBCORE_GRAMMAR_RUN"  # names a run: its first process sets it, the others inherit it
DIRECT = {"no_proxy": "*"}  # servers are reached directly, whatever proxies the environment names
HEAP_MEGABYTES = 1024
START_LIMIT = 240.0


class UserServer:
    """A server that the user runs: never started or stopped here. `identity` has its version and a
    digest of its rules: two servers of one version can differ in n-grams and configuration.
    """

    def __init__(self, url: str) -> None:
        """`url` with or without scheme and `/v2`, as `localhost:8081`. Raises Unavailable if none
        answers there.
        """
        import requests

        self._url = (url if "://" in url else f"http://{url}").rstrip("/").removesuffix("/v2") + "/"
        try:
            answer = requests.get(
                f"{self._url}v2/configinfo?language=en-US", timeout=20, proxies=DIRECT
            )
            answer.raise_for_status()
            software = answer.json()["software"]
            rules = hashlib.sha256(answer.content).hexdigest()[:12]
            self.identity = f"{software['version']}-{software['buildDate']}-{rules}"
        except (requests.RequestException, ValueError, KeyError, TypeError) as error:
            raise LanguageToolUnavailable(
                f"no LanguageTool server answers at {self._url} ({error!r}): start it, or correct"
                f" --languagetool-url or {URL_VARIABLE}, the part before /v2"
            ) from error

    def url(self, lost: str = "") -> str:
        """The server's URL, ending with a slash."""
        return self._url

    def stop(self) -> None:
        """Does nothing: the user runs the server."""


class SharedServer:
    """The server of the jars in a folder, started by the first process of a run that needs it, used
    by all of them. Each process holds a lock in `state`. The watchdog starts Java again if it dies,
    once, and ends it when no process is left. `identity` has LanguageTool's version and a digest of
    the jars' names and sizes.
    """

    def __init__(self, jars: Path, state: Path | None = None) -> None:
        """Starts nothing yet."""
        run = os.environ.setdefault(RUN_VARIABLE, uuid.uuid4().hex)
        jar_sizes = sorted((path.name, path.stat().st_size) for path in jars.rglob("*.jar"))
        key = hashlib.sha256(repr((run, jars, java())).encode()).hexdigest()
        digest = hashlib.sha256(repr(jar_sizes).encode()).hexdigest()
        self.identity = f"{jars.name.removeprefix('LanguageTool-')}-{digest[:12]}"
        self._jars = jars
        self.state = state or Path(tempfile.gettempdir()) / f"pbcore-grammar-{key[:16]}"
        self._lease = FileLock(self.state / "users" / uuid.uuid4().hex, thread_local=False)
        self._url = ""

    def url(self, lost: str = "") -> str:
        """The server's URL, ending with a slash; starts the server if needed. `lost` is the URL of
        a request that got no answer. Raises Unavailable if there is no server.
        """
        if self._url in ("", lost):
            with self._lock():
                if not self._lease.is_locked:
                    self._lease.acquire()
                # Windows can't remove server.log, which is open.
                if not (self.state / "java").exists():
                    self._start()
                self._url = self._answering()
        return self._url

    def stop(self) -> None:
        """Ends this process's use of the server."""
        self._lease.release()
        self._url = ""

    def _lock(self) -> AbstractContextManager[object]:
        """The lock of the folder, held. The watchdog of a server that nobody uses any more removes
        the folder, perhaps just now.
        """
        while True:
            self.state.mkdir(mode=0o700, exist_ok=True)
            with contextlib.suppress(FileNotFoundError):
                return FileLock(self.state / "lock").acquire()

    def _start(self) -> None:
        """Starts the watchdog, and waits until it has started Java. The parallel collector needs a
        quarter less time and a third less memory than Java's default; the first compiler alone
        (level 1) halves the processor time of a few hundred answers and is as fast over thousands.
        """
        config = Path(__file__).with_name("server.properties")
        logback = Path(__file__).with_name("logback.xml")
        command = [
            str(java()),
            f"-Xmx{HEAP_MEGABYTES}m",
            "-XX:+UseParallelGC",
            "-XX:TieredStopAtLevel=1",
            "-Dsun.net.httpserver.nodelay=true",
            f"-Dlogback.configurationFile={logback}",
            "-cp",
            f"{self._jars}{os.sep}*",
            "org.languagetool.server.HTTPServer",
            "--config",
            str(config),
        ]
        with (self.state / "server.log").open("wb") as log:
            script = [sys.executable, "-P", watchdog.__file__, str(self.state), *command]
            # Its own session, and on Windows its own group: Ctrl-C doesn't reach it.
            self._watchdog = subprocess.Popen(
                script,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
            )
        while self._watchdog.poll() is None and not (self.state / "java").exists():
            time.sleep(0.02)

    def _answering(self) -> str:
        """The URL, once the server has checked a text: it loads its rules with the first."""
        import requests

        text = {"text": "This is a test.", "language": "en-US"}
        limit = time.monotonic() + START_LIMIT
        while watchdog.held(self.state / "running") and time.monotonic() < limit:
            url = f"http://127.0.0.1:{(self.state / 'java').read_text().partition(' ')[2]}/"
            try:
                if requests.post(f"{url}v2/check", text, timeout=START_LIMIT, proxies=DIRECT).ok:
                    return url
            except requests.RequestException:
                time.sleep(0.05)  # Java is not ready yet, or has died
        lines = (self.state / "server.log").read_text(errors="replace").splitlines()
        # The lines of a Java stack trace are indented; messages are not.
        messages = [line for line in lines if line.strip() and not line.startswith(("\t", " "))]
        tail = " | ".join(messages[-3:])
        raise LanguageToolUnavailable(
            f"LanguageTool's server did not start or died, {watchdog.STARTS} times with {java()}:"
            f" {tail}"
        )


GrammarServer = UserServer | SharedServer
