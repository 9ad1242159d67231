"""Finds the installed LanguageTool and Java. Downloads and starts nothing."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from pbcore.metrics.languagetool.errors import Unavailable
from pbcore.metrics.languagetool.folders import cache_folder

URL_VARIABLE = "PBCORE_LANGUAGETOOL_URL"
MINIMUM_JAVA = 17
SERVER_JAR = "languagetool-server.jar"
HOW_TO_GET_IT = (
    f"run `pbcore languagetool install`, or give a running server with --languagetool-url or {URL_VARIABLE}, "
    "or set LTP_PATH to a folder that holds LanguageTool-<version>/"
)


@dataclass(frozen=True, slots=True)
class Installation:
    """A folder with `languagetool-server.jar`. `origin` is the variable or command that led to it."""

    jar: Path
    version: str
    origin: str

    @property
    def folder(self) -> Path:
        return self.jar.parent

    @property
    def identity(self) -> str:
        """Identifies the installation in cache keys: its version and a digest of its jars' names and sizes."""
        jars = sorted((path.name, path.stat().st_size) for path in self.folder.rglob("*.jar"))
        return f"{self.version}-{hashlib.sha256(repr(jars).encode()).hexdigest()[:12]}"


@dataclass(frozen=True, slots=True)
class Java:
    path: Path
    version: int
    """The feature release: 8, 11, 17, 21 …"""


def maven_folder() -> Path:
    """The folder that `pbcore languagetool install` fills from Maven Central, in language-tool-python's layout."""
    return cache_folder() / "languagetool"


def find_installations() -> list[Installation]:
    """All local installations, in order of preference.

    First the folders of language-tool-python's environment variables, then the one of `pbcore languagetool install`,
    then language-tool-python's own download.
    """
    installations = []
    if jar_folder := os.environ.get("LTP_JAR_DIR_PATH"):
        installations += _in_folder(Path(jar_folder), "LTP_JAR_DIR_PATH")
    if download_folder := os.environ.get("LTP_PATH"):
        installations += _below(Path(download_folder), "LTP_PATH")
    installations += _below(maven_folder(), "pbcore languagetool install")
    installations += _below(Path.home() / ".cache" / "language_tool_python", "language-tool-python's download")
    return installations


def find_installation() -> Installation:
    """The preferred local installation. Raises Unavailable, saying how to get one."""
    installations = find_installations()
    if not installations:
        raise Unavailable(f"LanguageTool is not installed: {HOW_TO_GET_IT}")
    return installations[0]


def find_java() -> Java:
    """The Java on PATH, else the one in JAVA_HOME. Raises Unavailable if there is none or it is too old."""
    home = os.environ.get("JAVA_HOME")
    command = shutil.which("java") or (shutil.which("java", path=str(Path(home) / "bin")) if home else None)
    if command is None:
        raise Unavailable(
            f"LanguageTool needs Java {MINIMUM_JAVA} or newer and there is no `java` on PATH or in JAVA_HOME: "
            f"install a Java runtime, or give a running server with --languagetool-url or {URL_VARIABLE}"
        )
    output = subprocess.run([command, "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'version "(?:1\.)?(\d+)', output)
    if version is None:
        raise Unavailable(
            f"`{command} -version` printed no version but {output.strip()[:200]!r}; put a Java runtime first on PATH"
        )
    if int(version[1]) < MINIMUM_JAVA:
        raise Unavailable(
            f"{command} is Java {version[1]}, LanguageTool needs {MINIMUM_JAVA} or newer: put a newer `java` first on "
            "PATH"
        )
    return Java(Path(command), int(version[1]))


def _below(folder: Path, origin: str) -> list[Installation]:
    """The installations `folder/LanguageTool-<version>/`: first the version that language-tool-python uses, then newest
    first.
    """
    below = [installation for child in folder.glob("LanguageTool-*") for installation in _in_folder(child, origin)]
    if len(below) < 2:
        return below
    from language_tool_python.download_lt import LTP_DOWNLOAD_VERSION

    return sorted(below, key=lambda one: (one.version == LTP_DOWNLOAD_VERSION, _numbers(one.version)), reverse=True)


def _in_folder(folder: Path, origin: str) -> list[Installation]:
    jar = folder / SERVER_JAR
    if not jar.is_file():
        return []
    named = re.search(r"LanguageTool-(.+)", folder.name)
    return [Installation(jar, named[1] if named else "unknown", origin)]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version))
