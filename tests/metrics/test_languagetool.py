"""LanguageTool: asking it, remembering what it said."""

from __future__ import annotations

import os
import socket
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pbcore.metrics.languagetool import BadAnswer, ServerDied, Unavailable
from pbcore.metrics.languagetool.cache import VerdictCache, key
from pbcore.metrics.languagetool.client import Match, check_many
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
