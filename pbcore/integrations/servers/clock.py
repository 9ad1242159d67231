"""A time limit on a whole reply: an SDK's own limits each single read, which a server that drips never exceeds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx2

_BEGAN = "pbcore_began"


class _Bounded(httpx2.SyncByteStream):
    """A reply's bytes until the deadline."""

    def __init__(self, stream: Any, deadline: float, request: httpx2.Request) -> None:
        self._stream, self._deadline, self._request = stream, deadline, request

    def __iter__(self) -> Iterator[bytes]:
        for part in self._stream:
            if time.monotonic() > self._deadline:
                raise httpx2.ReadTimeout("the reply took too long", request=self._request)
            yield part

    def close(self) -> None:
        self._stream.close()


def time_limit(seconds: float) -> dict[str, list[Callable[..., Any]]]:
    """Event hooks of a client that end a reply with a timeout `seconds` after its request."""

    def began(request: httpx2.Request) -> None:
        request.extensions = {**request.extensions, _BEGAN: time.monotonic()}

    def bound(response: httpx2.Response) -> None:
        deadline = response.request.extensions.get(_BEGAN, time.monotonic()) + seconds
        response.stream = _Bounded(response.stream, deadline, response.request)

    return {"request": [began], "response": [bound]}
