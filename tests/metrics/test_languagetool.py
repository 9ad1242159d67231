"""LanguageTool: what a server's answers become."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pbcore.metrics.languagetool import LanguageToolUnavailable, Match
from pbcore.metrics.languagetool.client import TRIES, check_many
from pbcore.metrics.languagetool.server import UserServer
from tests.metrics import fake_java


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[UserServer]:
    """The stand-in's HTTP interface, served by this process; the environment names a proxy that
    doesn't answer.
    """
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    http = fake_java.ThreadingHTTPServer(("127.0.0.1", 0), fake_java.Handler)
    threading.Thread(target=http.serve_forever, daemon=True).start()
    yield UserServer(f"127.0.0.1:{http.server_port}/v2/")
    http.shutdown()
    http.server_close()


def check(server: UserServer, *texts: str) -> list[list[Match] | str]:
    return check_many(server, texts, "en-US")


class TestCheckMany:
    def test_every_text_gets_its_own_matches(self, server: UserServer) -> None:
        """Answers of concurrent requests are put back in the order of the texts."""
        texts = [
            f"Text {number} is is here." if number % 3 == 0 else f"Text {number} is here."
            for number in range(60)
        ]
        assert [len(found) for found in check(server, *texts)] == [
            int(number % 3 == 0) for number in range(60)
        ]

    def test_spans_count_characters(self, server: UserServer) -> None:
        """Java counts an emoji as two, before a match and in it, whatever other threads check at
        the same time.
        """
        texts = [f"{'😀' * number} The 𠜎at 𠜎at sat{' no' * 20}." for number in range(40)]
        for text, found in zip(texts, check(server, *texts), strict=True):
            repeat, *_ = found
            assert isinstance(repeat, Match)
            assert text[repeat.offset : repeat.offset + repeat.length] == "𠜎at 𠜎at"
            assert repeat == Match("REPEAT", "REPEAT fired", text.index("𠜎at"), 7, "GRAMMAR")

    def test_what_is_no_verdict_is_a_reason(self, server: UserServer) -> None:
        """An error, a check that was broken off and JSON of another shape; none of them spoils
        another text.
        """
        error, slow, nonsense, fine = check(server, "ERROR", "SLOW", "NONSENSE", "fine")
        assert error == "LanguageTool gave no verdict: Error: Internal Error"
        assert (
            slow == "LanguageTool gave no verdict: it stopped before it had checked the whole text"
            " (incompleteResults)"
        )
        assert str(nonsense).startswith("LanguageTool gave no verdict: ")
        assert fine == []

    def test_a_lone_surrogate_is_checked_like_any_text(self, server: UserServer) -> None:
        """Half of a pair, as byte-level decoders can leave behind, breaks nothing."""
        (found,) = check(server, "a \ud83d b is is")
        assert [one.offset for one in found if isinstance(one, Match)] == [6]

    def test_a_text_without_any_answer_is_tried_again_and_given_up(
        self, server: UserServer, tmp_path: Path
    ) -> None:
        """The connection is dropped each time; the error names the text."""
        with pytest.raises(
            LanguageToolUnavailable,
            match=rf"dropped the connection {TRIES} times on one text .*'DROP this'",
        ):
            check(server, "DROP this")
        assert (tmp_path / "asked.log").read_text().splitlines() == ['"DROP this"'] * TRIES


class TestUserServer:
    def test_identity_names_the_version_and_its_rules(self, server: UserServer) -> None:
        """A server that the user runs is told apart by version, build and rules."""
        assert server.identity.startswith("6.8-today-")

    def test_says_when_nobody_answers(self) -> None:
        """A wrong URL is named with the option that gave it."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(
            LanguageToolUnavailable,
            match=rf"no LanguageTool server answers at {url}/ .*--languagetool-url",
        ):
            UserServer(url)


@pytest.mark.slow
def test_the_libraries_are_imported_with_the_first_text() -> None:
    """Scorers, the plugin and the checker's own modules cost neither language_tool_python nor
    bert-score.
    """
    code = (
        "import sys, pbcore.plugin, pbcore.plugin.cell, pbcore.metrics.text,"
        " pbcore.metrics.languagetool.server\nfrom pbcore.metrics import grammar,"
        " semantic\ngrammar.available(),"
        " semantic.available()\nprint(sorted({'language_tool_python', 'bert_score', 'pooch', 'jgo'}"
        " & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
