"""Servers without a network: replies that are handed to the HTTP client of the SDKs."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx2

from pbcore.extras.servers.spec import ServerSpec

Page = tuple[int, dict[str, str], bytes]  # status, headers, body


class Wire:
    """In place of a server: `pages` says what each path holds."""

    def __init__(self) -> None:
        self.pages: Callable[[str], Page] = lambda path: (404, {}, b"")

    def client(self, *_: Any, **__: Any) -> httpx2.Client:
        return httpx2.Client(transport=httpx2.MockTransport(self._answer))

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        status, headers, body = self.pages(request.url.raw_path.decode())
        encoded = {name: text.encode("latin-1") for name, text in headers.items()}
        return httpx2.Response(status, headers=encoded, content=body)


def spec_of(kind: str, stream: bool, **keys: Any) -> ServerSpec:
    return ServerSpec("mine", "m", "http://h/v1", kind=kind, stream=stream, retries=0, **keys)


def sse(events: list[Any], kind: str) -> bytes:
    """A stream's bytes."""
    lines = []
    for event in events:
        name = event.get("type") if isinstance(event, dict) else None
        head = f"event: {name}\n" if kind == "anthropic" else ""
        lines.append(f"{head}data: {json.dumps(event)}\n\n")
    return "".join([*lines, "" if kind == "anthropic" else "data: [DONE]\n\n"]).encode(
        "utf-8", "surrogatepass"
    )
