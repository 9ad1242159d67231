"""`server`: a server whose model copies as it should; models of a test's files stay with it."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.request import getproxies_environment

import pytest

from pbcore.extras.servers import http
from tests.extras.servers.fake import FakeServer, serving
from tests.extras.servers.served import right
from tests.extras.servers.wire import Wire


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers of tests are asked directly, whatever the environment has."""
    for name in getproxies_environment():
        monkeypatch.delenv(f"{name}_proxy", raising=False)
        monkeypatch.delenv(f"{name}_proxy".upper(), raising=False)


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with serving(right) as found:
        yield found


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Wire:
    """Clients that are made from now on are answered by it."""
    wire = Wire()
    monkeypatch.setattr(http, "http_client", wire.client)
    return wire
