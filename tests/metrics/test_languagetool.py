"""LanguageTool: finding it, installing it, asking it, remembering what it said."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from pbcore.metrics.languagetool import BadAnswer, ServerDied, Unavailable, maven
from pbcore.metrics.languagetool.cache import VerdictCache, key
from pbcore.metrics.languagetool.client import Match, check_many
from pbcore.metrics.languagetool.find import find_installation, find_installations, find_java
from pbcore.metrics.languagetool.folders import cache_folder
from pbcore.metrics.languagetool.server import UserServer
from pbcore.metrics.languagetool.supervisor import free_port
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


def a_java(folder: Path, monkeypatch: pytest.MonkeyPatch, version: str = "17.0.1") -> None:
    for name, value in fake_java.install(folder, version).items():
        monkeypatch.setenv(name, value)


class TestFind:
    def test_prefers_the_users_folder_to_ours_to_the_librarys(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A folder named by language-tool-python's variable comes before our installation, and that before the
        library's download.
        """
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        monkeypatch.setenv("PBCORE_CACHE", str(tmp_path / "ours"))
        monkeypatch.setenv("LTP_PATH", str(tmp_path / "users"))
        monkeypatch.delenv("LTP_JAR_DIR_PATH", raising=False)
        for folder in ("home/.cache/language_tool_python", "ours/languagetool", "users"):
            for version in ("6.4", "6.8", "6.10"):
                (tmp_path / folder / f"LanguageTool-{version}").mkdir(parents=True)
                (tmp_path / folder / f"LanguageTool-{version}" / "languagetool-server.jar").touch()
        found = [(one.folder.parent.relative_to(tmp_path).parts[0], one.version) for one in find_installations()]
        assert found == [
            (folder, version) for folder in ("users", "ours", "home") for version in ("6.8", "6.10", "6.4")
        ]

    def test_says_what_to_do_without_an_installation(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """With nothing installed, the message names the command, the option and the variables."""
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("PBCORE_CACHE", str(tmp_path))
        monkeypatch.delenv("LTP_PATH", raising=False)
        monkeypatch.delenv("LTP_JAR_DIR_PATH", raising=False)
        with pytest.raises(Unavailable, match=r"pbcore languagetool install.*--languagetool-url.*LTP_PATH"):
            find_installation()

    def test_identity_changes_with_the_jars(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Another set of jars under the same version is another checker for the cache."""
        a_java(tmp_path, monkeypatch)
        before = find_installation().identity
        (tmp_path / "LanguageTool-6.8" / "language-en.jar").write_bytes(b"rules")
        assert before.startswith("6.8-")
        assert find_installation().identity != before

    @pytest.mark.parametrize(("said", "number"), [("17.0.15", 17), ("21", 21), ("25-ea", 25)])
    def test_reads_javas_version(self, said: str, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The feature release is read from every form in which Java gives it."""
        a_java(tmp_path, monkeypatch, said)
        assert find_java().version == number

    @pytest.mark.parametrize("said", ["1.8.0_392", "11.0.2"])
    def test_refuses_an_old_java(self, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """An old Java is named with the version that is needed."""
        a_java(tmp_path, monkeypatch, said)
        with pytest.raises(Unavailable, match=r"is Java (8|11), LanguageTool needs 17"):
            find_java()

    def test_says_what_to_do_without_java(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """No Java at all is told apart from an old one."""
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.delenv("JAVA_HOME", raising=False)
        with pytest.raises(Unavailable, match="no `java` on PATH"):
            find_java()

    def test_cache_folder_follows_the_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Our own variable wins over the desktop standard's, and that over the home folder."""
        monkeypatch.setenv("PBCORE_CACHE", "/a")
        monkeypatch.setenv("XDG_CACHE_HOME", "/b")
        assert cache_folder() == Path("/a")
        monkeypatch.delenv("PBCORE_CACHE")
        assert cache_folder() == Path("/b/pbcore")


class TestMaven:
    def test_pom_pins_every_artifact_and_leaves_the_others_out(self) -> None:
        """Each artifact comes in the pinned version, without the languages and network clients that aren't needed."""
        space = {"m": "http://maven.apache.org/POM/4.0.0"}
        root = ElementTree.fromstring(maven.pom())
        dependencies = root.findall("m:dependencies/m:dependency", space)
        assert [one.findtext("m:artifactId", "", space) for one in dependencies] == list(maven.ARTIFACTS)
        assert {one.findtext("m:version", "", space) for one in dependencies} == {maven.VERSION}
        for one in dependencies:
            left_out = {
                item.findtext("m:artifactId", "", space) for item in one.findall("m:exclusions/m:exclusion", space)
            }
            assert left_out == {artifact for _, artifact in maven.LEFT_OUT}

    def test_a_changed_missing_or_added_jar_is_refused(self, tmp_path: Path) -> None:
        """Every jar must be there with its recorded digest, and none besides."""
        recorded = {name: hashlib.sha256(name.encode()).hexdigest() for name in ("a.jar", "b.jar")}
        for name in recorded:
            (tmp_path / name).write_bytes(name.encode())
        maven.check_jars(tmp_path, recorded)
        (tmp_path / "a.jar").write_bytes(b"other")
        (tmp_path / "b.jar").rename(tmp_path / "c.jar")
        with pytest.raises(Unavailable, match=r"a.jar differs; b.jar is missing; c.jar is not expected"):
            maven.check_jars(tmp_path, recorded)

    def test_recorded_digests_name_the_pinned_jars(self) -> None:
        """The list that ships with the package belongs to the pinned version."""
        digests = maven.recorded_digests()
        assert {f"{artifact}-{maven.VERSION}.jar" for artifact in maven.ARTIFACTS} <= digests.keys()
        assert all(len(digest) == 64 for digest in digests.values())

    def test_installs_what_maven_brings_with_a_server_jar(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The jars end up beside a `languagetool-server.jar` whose class path lists them, and a second call
        finds them.
        """
        names = [f"some-rather-long-library-name-{number}.jar" for number in range(9)]
        monkeypatch.setattr(
            maven, "recorded_digests", lambda: {name: hashlib.sha256(b"x").hexdigest() for name in names}
        )
        writes = "".join(f"printf x > $out/{name}\n" for name in names)
        read = "for a; do case $a in -DoutputDirectory=*) out=${a#*=};; esac; done"
        mvn = f'#!/bin/sh\n{read}\nmkdir -p "$out"\n{writes}'
        self.a_maven(tmp_path, monkeypatch, mvn)
        done = maven.install(tmp_path / "target")
        with zipfile.ZipFile(done.jar) as jar:
            lines = jar.read("META-INF/MANIFEST.MF").decode().split("\r\n")
        assert max(map(len, lines)) <= 72
        assert "".join(line.removeprefix(" ") for line in lines[1:] if line) == f"Class-Path: {' '.join(names)}"
        (tmp_path / "bin" / "mvn").unlink()
        assert maven.install(tmp_path / "target") == done

    def test_what_maven_brings_must_be_what_was_recorded(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A mirror's changed jar is never installed; one that changes later is refused."""
        monkeypatch.setattr(maven, "recorded_digests", lambda: {"a.jar": hashlib.sha256(b"x").hexdigest()})
        read = "for a; do case $a in -DoutputDirectory=*) out=${a#*=};; esac; done"
        self.a_maven(tmp_path, monkeypatch, f'#!/bin/sh\n{read}\nmkdir -p "$out"\nprintf $BRINGS > $out/a.jar\n')
        monkeypatch.setenv("BRINGS", "y")
        with pytest.raises(Unavailable, match=r"a\.jar differs"):
            maven.install(tmp_path / "target")
        assert list((tmp_path / "target").iterdir()) == []
        monkeypatch.setenv("BRINGS", "x")
        done = maven.install(tmp_path / "target")
        (done.jar.parent / "a.jar").write_bytes(b"y")
        with pytest.raises(Unavailable, match=r"a\.jar differs"):
            maven.install(tmp_path / "target")

    def test_mavens_error_is_passed_on(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without a network the message holds what Maven said and what else can be done; nothing is left behind."""
        self.a_maven(tmp_path, monkeypatch, "#!/bin/sh\necho '[INFO] x'; echo '[ERROR] Unknown host repo'; exit 1\n")
        with pytest.raises(Unavailable, match=r"Unknown host repo.*--from download"):
            maven.install(tmp_path / "target")
        assert list((tmp_path / "target").iterdir()) == []

    def test_says_so_without_maven(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A missing `mvn` is named, with the other way."""
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(Unavailable, match=r"no `mvn` on PATH.*--from download"):
            maven.install(tmp_path / "target")

    def a_maven(self, folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
        (folder / "bin").mkdir()
        (folder / "bin" / "mvn").write_text(script)
        (folder / "bin" / "mvn").chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder / 'bin'}:/usr/bin:/bin")


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
        server = UserServer(f"http://127.0.0.1:{free_port()}")
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
