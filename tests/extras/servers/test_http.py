"""Limits on a whole reply, no redirects, and headers: against a server of raw bytes."""

from __future__ import annotations

import gzip
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from pbcore.extras.servers import http
from pbcore.extras.servers.clients import client_of
from pbcore.extras.servers.engines import version
from pbcore.extras.servers.http import http_client
from pbcore.extras.servers.spec import ServerSpec
from pbcore.models.errors import ModelError
from tests.extras.servers.fake import CANARY, Act, serving
from tests.extras.servers.test_clients import ASK, SDKS, STREAMS, spec_of


@contextmanager
def talking(talk: Callable[[socket.socket], None]) -> Iterator[str]:
    """The address of a server that reads each request and then lets `talk` have the connection."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            request = connection.recv(65_536)
            while not _whole(request):
                request += connection.recv(65_536)
            talk(connection)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.close()


def _whole(request: bytes) -> bool:
    head, _, body = request.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: (\d+)", head)
    return b"\r\n\r\n" in request and len(body) >= int(length[1] if length else 0)


def drip(text: bytes, pause: float = 0.05) -> Callable[[socket.socket], None]:
    def talk(connection: socket.socket) -> None:
        for byte in text:
            connection.sendall(bytes([byte]))
            time.sleep(pause)

    return talk


def spec_at(url: str, kind: str = "openai", **changes: Any) -> ServerSpec:
    values: dict[str, Any] = {"retries": 0, "timeout": 0.5, **changes}
    return ServerSpec(
        "mine", "the-model", url + ("" if kind == "anthropic" else "/v1"), kind, **values
    )


BODY = json.dumps(
    {"choices": [{"message": {"content": "x" * 400}, "finish_reason": "stop"}], "content": []}
).encode()


def head(body: bytes, *lines: str) -> bytes:
    more = "".join(f"{line}\r\n" for line in lines)
    return (
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length:"
        f" {len(body)}\r\n{more}\r\n".encode()
    )


class TestTime:
    @SDKS
    @STREAMS
    @pytest.mark.parametrize("text", [head(BODY), head(BODY) + BODY], ids=["head", "body"])
    def test_a_reply_that_drips(self, kind: str, stream: bool, text: bytes) -> None:
        """Head and body alike end with the declared time: each byte alone comes early enough."""
        quick = b"" if text == head(BODY) else head(BODY)

        def talk(connection: socket.socket) -> None:
            connection.sendall(quick)
            drip(text[len(quick) :])(connection)

        with talking(talk) as url:
            client = client_of(spec_at(url, kind, stream=stream))
            with pytest.raises(ModelError, match=r"no whole answer within 0\.5 s"):
                client.ask(ASK)

    def test_a_page_that_drips(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A server's own pages are read within a limit, too; without one the version is unknown."""
        monkeypatch.setattr("pbcore.extras.servers.engines.SECONDS", 0.3)
        with talking(drip(head(BODY))) as url:
            assert version(spec_at(url, "vllm")) is None

    def test_a_second_request_has_its_own_time(self) -> None:
        """On the same connection, after the first one's limit."""
        with serving() as server, http_client(spec_of(server), {}, 0.5, 1 << 20) as client:
            for _ in range(2):
                assert client.get(f"{server.url}/version").status_code == 200
                time.sleep(0.6)


class TestSize:
    @SDKS
    @STREAMS
    def test_packed_replies_are_refused(self, kind: str, stream: bool) -> None:
        """Nothing packed was asked for, and 400 MB can hide in 400 kB."""
        body = gzip.compress(b" " * (1 << 24))

        def talk(connection: socket.socket) -> None:
            connection.sendall(head(body, "content-encoding: gzip") + body)

        with talking(talk) as url:
            client = client_of(spec_at(url, kind, stream=stream, timeout=20.0))
            with pytest.raises(ModelError, match=r"reply can't be read \(it is packed \(gzip\)"):
                client.ask(ASK)

    @SDKS
    @STREAMS
    def test_large_replies_are_refused(
        self, kind: str, stream: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What comes is counted, whatever the head says; the limit grows with the answer's."""
        monkeypatch.setattr(http, "BASE_BYTES", 1 << 20)
        body = (b": ping\n\n" if stream else b" ") * (3 << 20)

        def talk(connection: socket.socket) -> None:
            connection.sendall(head(body, "x-kind: event-stream") + body)

        with talking(talk) as url:
            client = client_of(spec_at(url, kind, stream=stream, timeout=20.0, retries=2))
            with pytest.raises(ModelError, match=r"reply can't be read.*\(it is larger than 2 MiB"):
                client.ask(ASK)

    def test_plain_replies_are_asked_for(self) -> None:
        with serving() as server:
            client_of(spec_of(server)).ask(ASK)
        assert server.asked[0].headers["accept-encoding"] == "identity"


class TestHeaders:
    @SDKS
    def test_what_the_environment_holds_for_others(
        self, kind: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Account, project and custom headers go to no declared server, with a key or without."""
        for name in (
            "OPENAI_ORG_ID",
            "OPENAI_PROJECT_ID",
            "OPENAI_ADMIN_KEY",
            "OPENAI_API_KEY",
            "ANTHROPIC_API_KEY",
        ):
            monkeypatch.setenv(name, CANARY)
        for name in ("OPENAI_CUSTOM_HEADERS", "ANTHROPIC_CUSTOM_HEADERS"):
            monkeypatch.setenv(
                name, f"Authorization: {CANARY}\nX-Api-Key: {CANARY}\nX-More: {CANARY}"
            )
        monkeypatch.setenv("MY_KEY", "sk-mine-0123")
        with serving() as server:
            client_of(spec_of(server, kind)).ask(ASK)
            client_of(spec_of(server, kind, key="MY_KEY")).ask(ASK)
        sent = [value for one in server.asked for value in one.headers.values()]
        assert not [value for value in sent if CANARY in value]
        assert [value for value in sent if "sk-mine-0123" in value] == [
            "sk-mine-0123" if kind == "anthropic" else "Bearer sk-mine-0123"
        ]

    def test_openai_itself_gets_account_and_project(self) -> None:
        """With a declared key alone, and no other host does."""
        for base_url, key, expected in (
            ("https://api.openai.com/v1", "MY_KEY", "org"),
            ("https://api.openai.com/v1", None, None),
            ("https://api.openai.com.evil.example/v1", "MY_KEY", None),
        ):
            with http_client(ServerSpec("mine", "m", base_url, key=key), {}, 1.0, 1) as client:
                request = client.build_request(
                    "GET", base_url, headers={"OpenAI-Organization": "org", "X-More": "x"}
                )
                client.event_hooks["request"][0](request)
            assert request.headers.get("openai-organization") == expected
            assert "x-more" not in request.headers

    @SDKS
    @pytest.mark.parametrize("status", [301, 302, 307, 308])
    def test_redirects_are_not_followed(
        self, kind: str, status: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Neither key nor prompt goes where a server points to."""
        monkeypatch.setenv("CANARY_KEY", CANARY)
        with serving() as other:
            act = Act(
                status=status, body={}, headers={"location": f"{other.url}/v1/chat/completions"}
            )
            with serving(lambda number, body: act) as server:
                client = client_of(spec_of(server, kind, key="CANARY_KEY"))
                with pytest.raises(ModelError, match=f"it redirects elsewhere.*{status}"):
                    client.ask(ASK)
        assert other.asked == []
        assert other.other == []
