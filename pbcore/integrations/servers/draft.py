"""Shared by the clients of both SDKs: the connection, requests as they are sent, and an answer as it comes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import ModuleType
from typing import Any

from pbcore.integrations.servers.failures import imported
from pbcore.integrations.servers.keys import key_of
from pbcore.integrations.servers.spec import ServerSpec
from pbcore.models.errors import ModelError


@dataclass(frozen=True, slots=True)
class Connection:
    """An SDK's client. Retries with back-off, and waiting as long as the server says, are the SDK's."""

    spec: ServerSpec
    sdk: ModuleType
    client: Any

    @classmethod
    def through(cls, package: str, name: str, spec: ServerSpec, header: str, scheme: str = "") -> Connection:
        """Through class `name` of an SDK, with the key in this header. Raises ModelError without package or key."""
        sdk = imported(package, spec)
        from pbcore.integrations.servers.http import http_client, limits_of

        key = key_of(spec)
        client = getattr(sdk, name)(
            api_key=key,
            base_url=spec.base_url,
            timeout=spec.timeout,
            max_retries=spec.retries,
            http_client=http_client(spec, limits_of(spec), {header: f"{scheme}{key}"}),
        )
        return cls(spec, sdk, client)

    def get(self, path: str) -> Any:
        return self.client.get(path, cast_to=object)

    def post(self, path: str, body: Mapping[str, Any], stream: bool) -> Iterator[Any]:
        """The events of a streamed reply, or the one body of a whole reply."""
        if not stream:
            yield self.client.post(path, body=body, cast_to=object)
            return
        yield from self.client.post(path, body=body, cast_to=object, stream=True, stream_cls=self.sdk.Stream[object])


@dataclass(slots=True)
class Draft:
    """An answer put together as it comes: its text so far, and when its first text came."""

    spec: ServerSpec
    text: str = ""
    first: float | None = None
    asked: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    _start: float = field(default_factory=time.perf_counter)

    @property
    def done(self) -> str:
        """What has come, for an error."""
        return f" after {len(self.text)} characters of the answer" if self.text else ""

    @property
    def seconds(self) -> float:
        """The time since the request."""
        return time.perf_counter() - self._start

    def began(self) -> None:
        """Notes the time of the first text."""
        if self.first is None:
            self.first = self.seconds

    def check_end(self, reason: str | None, named: str, known: bool) -> None:
        """Raises ModelError for an answer without an end (`reason`, in the server's word for it), ValueError where
        nothing of an answer is known."""
        if reason is None and not known:
            raise ValueError("nothing of an answer in it")
        if reason is None:
            where = f"model {self.spec.name} at {self.spec.base_url}"
            raise ModelError(f"{where}: the answer broke off{self.done}, without a {named} reason")
