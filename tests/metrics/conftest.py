"""A grammar server with a few rules."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pbcore.metrics import grammar
from tests.metrics import fake_java


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """A server that the environment names, as `--languagetool-url` does."""
    http = fake_java.ThreadingHTTPServer(("127.0.0.1", 0), fake_java.Handler)
    threading.Thread(target=http.serve_forever, daemon=True).start()
    monkeypatch.setenv("PBCORE_LANGUAGETOOL_URL", f"http://127.0.0.1:{http.server_port}")
    monkeypatch.setenv("PBCORE_CACHE", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    yield f"http://127.0.0.1:{http.server_port}"
    grammar.stop()
    http.shutdown()
    http.server_close()
