"""Installs LanguageTool's English server from Maven Central: pinned versions, checked against recorded digests.

The published archive holds all languages (about 250 MB). An English checker needs the server, the English rules, and
the Spanish, Catalan and Portuguese ones that the server's language identifier loads at its start. The clients for
remote rules, databases and shared caches are left out, so the server makes no network connections of its own.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
import zipfile
from importlib import resources
from pathlib import Path
from xml.sax.saxutils import escape

from pbcore.metrics.languagetool.errors import Unavailable
from pbcore.metrics.languagetool.find import SERVER_JAR, Installation, maven_folder

VERSION = "6.8"
ARTIFACTS = ("languagetool-server", "language-en", "language-es", "language-ca", "language-pt")
LEFT_OUT = (
    ("org.languagetool", "language-all"),
    ("io.grpc", "grpc-netty-shaded"),
    ("io.lettuce", "lettuce-core"),
    ("org.mariadb.jdbc", "mariadb-java-client"),
    ("co.elastic.logging", "logback-ecs-encoder"),
)
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"


def pom() -> str:
    """The pom.xml of a project whose dependencies are exactly those of the English server."""
    exclusions = "".join(
        f"<exclusion><groupId>{group}</groupId><artifactId>{artifact}</artifactId></exclusion>"
        for group, artifact in LEFT_OUT
    )
    dependencies = "\n".join(
        f"    <dependency><groupId>org.languagetool</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{escape(VERSION)}</version><exclusions>{exclusions}</exclusions></dependency>"
        for artifact in ARTIFACTS
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0">\n  <modelVersion>4.0.0</modelVersion>\n'
        "  <groupId>pbcore</groupId><artifactId>languagetool</artifactId><version>1</version>\n"
        f"  <dependencies>\n{dependencies}\n  </dependencies>\n</project>\n"
    )


def recorded_digests() -> dict[str, str]:
    """SHA-256 by jar name, as recorded when the pinned version was chosen (the format of `sha256sum`)."""
    text = resources.files("pbcore.metrics.languagetool").joinpath("jars.sha256").read_text(encoding="ascii")
    return {name: digest for digest, name in (line.split() for line in text.splitlines())}


def check_jars(folder: Path, recorded: dict[str, str]) -> None:
    """Compares the jars of `folder` with the recorded digests. Raises Unavailable naming those that differ."""
    digests = {path.name: _sha256(path) for path in folder.glob("*.jar") if path.name != SERVER_JAR}
    wrong = [f"{name} differs" for name in sorted(digests.keys() & recorded) if digests[name] != recorded[name]]
    wrong += [f"{name} is missing" for name in sorted(recorded.keys() - digests)]
    wrong += [f"{name} is not expected" for name in sorted(digests.keys() - recorded)]
    if wrong:
        raise Unavailable(
            f"Maven's jars are not those recorded for LanguageTool {VERSION} ({'; '.join(wrong[:5])}"
            f"{f' and {len(wrong) - 5} more' if len(wrong) > 5 else ''}): nothing was installed. "
            "Remove these artifacts from your Maven repository and check the mirror it uses"
        )


def install(folder: Path | None = None) -> Installation:
    """Resolves the server with `mvn` into `folder` (default: the user's cache). An existing installation is checked and
    returned.

    Raises Unavailable if `mvn` is missing or fails, or if a jar differs from the recorded one.
    """
    target = (folder or maven_folder()) / f"LanguageTool-{VERSION}"
    installation = Installation(target / SERVER_JAR, VERSION, "pbcore languagetool install")
    if installation.jar.is_file():
        check_jars(target, recorded_digests())
        return installation
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".install-") as temporary:
        jars = Path(temporary) / target.name
        _resolve(Path(temporary), jars)
        check_jars(jars, recorded_digests())
        _write_server_jar(jars)
        try:
            jars.rename(target)
        except OSError as error:
            # If another process finished first, its jars have been checked like ours.
            if not installation.jar.is_file():
                raise Unavailable(f"{target} can't be written ({error}): set PBCORE_CACHE to another folder") from error
    return installation


def _resolve(project: Path, jars: Path) -> None:
    mvn = shutil.which("mvn")
    if mvn is None:
        raise Unavailable(
            "there is no `mvn` on PATH: install Apache Maven, or use `pbcore languagetool install --from download`"
        )
    (project / "pom.xml").write_text(pom(), encoding="utf-8")
    command = [mvn, "-q", "-B", "-C", COPY, "-DincludeScope=runtime", f"-DoutputDirectory={jars}"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        errors = [line for line in done.stdout.splitlines() if line.startswith("[ERROR]")] or [done.stderr.strip()]
        raise Unavailable(
            f"Maven could not fetch LanguageTool {VERSION}: {errors[0].removeprefix('[ERROR]').strip()[:600]}. Check "
            "the network "
            "and Maven's settings (mirror, proxy), or use `pbcore languagetool install --from download`"
        )


def _write_server_jar(folder: Path) -> None:
    """Writes an empty jar with the other jars on its class path, for `java -cp languagetool-server.jar`."""
    names = " ".join(sorted(path.name for path in folder.glob("*.jar")))
    lines = ["Manifest-Version: 1.0", *_manifest_lines(f"Class-Path: {names}")]
    with zipfile.ZipFile(folder / SERVER_JAR, "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", "\r\n".join(lines) + "\r\n\r\n")


def _manifest_lines(text: str) -> list[str]:
    """Splits a manifest line: at most 72 bytes each, continuation lines start with a space."""
    return [text[:70], *(" " + text[start : start + 69] for start in range(70, len(text), 69))]


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
