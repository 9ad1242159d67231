"""Keys are masked in errors and logs as they are, escaped and encoded, and nothing else is."""

from __future__ import annotations

import json
import logging
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbcore.extras.servers.keys import (
    MASKED,
    check_answer,
    mask_logs,
    masked,
    short_key,
    told,
)
from pbcore.extras.servers.spec import ServerSpec
from pbcore.models.errors import ModelError

SPEC = ServerSpec("mine", "m", "http://h/v1", key="SOME_KEY")
WAYS: dict[str, Callable[[str], str]] = {
    "raw": str,
    "repr": lambda key: repr(key)[1:-1],
    "json": lambda key: json.dumps(key)[1:-1],
    "url": lambda key: quote(key, safe=""),
    "url in lower case": lambda key: (
        quote(key, safe="").replace("%2F", "%2f").replace("%22", "%22")
    ),
    "hex": lambda key: key.encode().hex(),
    "hex in capitals": lambda key: key.encode().hex().upper(),
    "base64": lambda key: b64encode(key.encode()).decode(),
    "base64 in addresses": lambda key: urlsafe_b64encode(key.encode()).decode().rstrip("="),
    "base64 in a url": lambda key: quote(b64encode(key.encode()).decode(), safe=""),
    "base64 in json": lambda key: b64encode(key.encode()).decode().replace("/", "\\/"),
    "code points": lambda key: "".join(f"\\u{ord(sign):04x}" for sign in key),
}
KEYS = st.text(
    st.characters(codec="ascii", min_codepoint=33, max_codepoint=126), min_size=8, max_size=30
)


@pytest.mark.parametrize("way", WAYS)
class TestMasked:
    @given(key=KEYS)
    def test_any_key(self, way: str, key: str) -> None:
        """In any encoding, with text around it."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SOME_KEY", key)
            assert masked(f"<{WAYS[way](key)}>", SPEC) == f"<{MASKED}>"

    def test_a_quoted_one(self, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """With every sign that an encoding changes."""
        key = """sk-"a'b/c\\d+e&f <g>%h"""
        monkeypatch.setenv("SOME_KEY", key)
        assert (
            masked(f"no such key: Bearer {WAYS[way](key)}!", SPEC)
            == f"no such key: Bearer {MASKED}!"
        )


def test_short_keys_are_not_searched_for_in_hex(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their digits stand in any number."""
    monkeypatch.setenv("SOME_KEY", "a")
    assert masked("61 YQ==", SPEC) == "61 YQ=="


class TestShortKeys:
    def test_a_warning_names_the_variable(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Of those alone that are too short; the key isn't shown."""
        monkeypatch.setenv("SOME_KEY", "q7z")
        said = short_key(SPEC)
        assert said is not None
        assert "SOME_KEY has fewer than 8 characters" in said
        assert "q7z" not in said
        monkeypatch.setenv("SOME_KEY", "12345678")
        assert short_key(SPEC) is None
        monkeypatch.delenv("SOME_KEY")
        assert short_key(SPEC) is None

    def test_answers_and_facts_stay(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A key of one letter is masked in errors alone."""
        monkeypatch.setenv("SOME_KEY", "a")
        check_answer("Susan", SPEC)
        assert told("llama", SPEC) == "llama"
        assert masked("bad key a", SPEC) == "b[key]d key [key]"

    def test_longer_ones_are_found(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SOME_KEY", "12345678")
        with pytest.raises(ModelError, match="repeats the key in SOME_KEY"):
            check_answer("x 12345678", SPEC)
        assert told("m 12345678", SPEC) == "m [key]"


def test_logs_are_masked(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """What the HTTP client logs of a server that repeats the key in a header."""
    monkeypatch.setenv("SOME_KEY", "sk-canary-0123")
    mask_logs(SPEC)
    mask_logs(SPEC)
    with caplog.at_level(logging.DEBUG):
        logging.getLogger("httpcore2.http11").debug("headers %r", [(b"x-key", b"sk-canary-0123")])
        logging.getLogger("openai._base_client").debug("sent %s", "sk-canary-0123")
    assert [record.getMessage() for record in caplog.records] == [
        "headers [(b'x-key', b'[key]')]",
        "sent [key]",
    ]
    assert (
        len(
            [
                one
                for one in logging.getLogger("httpx2").filters
                if getattr(one, "spec", None) == SPEC
            ]
        )
        == 1
    )
