"""The HTTP client of both SDKs: limits on a whole reply, no redirects, and no header of others.

An SDK's own timeouts each limit a single read, which a server that drips never exceeds; it follows
redirects, unpacks a reply of any size, and adds what the environment holds for its maker's own
server.
"""

import ssl
import threading
import time
from collections.abc import Mapping
from functools import cache
from typing import Any

import httpcore2
import httpx2

from pbcore.extras.servers.keys import ReplyError
from pbcore.extras.servers.spec import ServerSpec

OPENAI = "api.openai.com"
# Of OPENAI_ORG_ID and OPENAI_PROJECT_ID: sent to OpenAI's own server alone.
ACCOUNT = ("openai-organization", "openai-project")
_SENT = frozenset(
    (
        "host",
        "accept",
        "accept-encoding",
        "connection",
        "user-agent",
        "content-type",
        "content-length",
        "anthropic-version",
        "anthropic-beta",
    )
)
_SDK = "x-stainless-"  # an SDK's version and the number of the try
# The limit of a reply: a streamed piece of an answer is a few hundred bytes a token.
BASE_BYTES = 16 << 20
TOKEN_BYTES = 1 << 10
CANVAS_BYTES = 1 << 5  # of a place of a canvas, of which one comes after each forward


def http_client(
    spec: ServerSpec,
    headers: Mapping[str, str],
    seconds: float | None = None,
    size: int | None = None,
) -> httpx2.Client:
    """A client that follows no redirect and takes plain replies of bounded size alone.

    While reading, a slow reply raises httpx2.ReadTimeout, and one that is too large or packed
    raises ReplyError.

    Args:
        spec: the server.
        headers: sent with each request, the key among them.
        seconds: limit of a whole reply; None: as declared.
        size: limit of a reply in bytes; None: by the tokens of the longest answer.
    """
    seconds = seconds or spec.timeout
    most = max(spec.max_tokens, *spec.task_max_tokens.values(), 0)
    room = BASE_BYTES + TOKEN_BYTES * most
    if spec.canvases:
        room += CANVAS_BYTES * most**2
    request_of_thread = _Request(seconds, size or room)
    account = ACCOUNT if spec.key is not None and httpx2.URL(spec.base_url).host == OPENAI else ()

    def begin(request: httpx2.Request) -> None:
        for name in list(request.headers):
            if name not in _SENT and name not in account and not name.startswith(_SDK):
                del request.headers[name]
        request.headers.update({**headers, "accept-encoding": "identity"})
        request_of_thread.begin()

    def head(response: httpx2.Response) -> None:
        coding = response.headers.get("content-encoding", "identity")
        if coding != "identity":
            raise ReplyError(
                f"it is packed ({coding[:20]}), although only plain replies are accepted"
            )

    client = httpx2.Client(
        event_hooks={"request": [begin], "response": [head]},
        timeout=seconds,
        limits=httpx2.Limits(),
        follow_redirects=False,
        verify=_certificates(),
    )
    for transport in (client._transport, *client._mounts.values()):
        if isinstance(transport, httpx2.HTTPTransport):
            pool: Any = transport._pool
            pool._network_backend = _Limited(pool._network_backend, request_of_thread)
    return client


@cache
def _certificates() -> ssl.SSLContext:
    """The authorities that are trusted, read once."""
    return httpx2.create_ssl_context()


class _Request(threading.local):
    """The request that a thread has under way: when it must end, and how much may still come."""

    def __init__(self, seconds: float, size: int) -> None:
        self._seconds = seconds
        self._size = size
        self.begin()

    def begin(self) -> None:
        self._deadline = time.monotonic() + self._seconds
        self._left = self._size

    def seconds(self, timeout: float | None) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise httpcore2.ReadTimeout("the reply took too long")
        return left if timeout is None else min(timeout, left)

    def came(self, data: bytes) -> bytes:
        self._left -= len(data)
        if self._left < 0:
            raise ReplyError(f"it is larger than {self._size >> 20} MiB")
        return data


class _Limited:
    """A network backend of httpcore's, or a connection that it made, whose every wait ends with the
    request's time.
    """

    def __init__(self, inner: Any, request: _Request) -> None:
        self._inner = inner
        self._request = request

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def connect_tcp(self, *, timeout: float | None, **options: Any) -> "_Limited":
        return _Limited(
            self._inner.connect_tcp(timeout=self._request.seconds(timeout), **options),
            self._request,
        )

    def start_tls(self, *, timeout: float | None, **options: Any) -> "_Limited":
        return _Limited(
            self._inner.start_tls(timeout=self._request.seconds(timeout), **options), self._request
        )

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._request.came(self._inner.read(max_bytes, self._request.seconds(timeout)))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, self._request.seconds(timeout))
