"""What asks servers is imported before the clock starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.extras.servers.fake import FakeServer
from tests.plugin.test_clock import imported


@pytest.mark.slow
def test_nothing_is_imported_under_the_clock(
    tmp_path: Path, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the clients of both kinds, each with its own package."""
    monkeypatch.setenv("A_KEY", "0123456789")
    one = f"one: {{kind: openai, base_url: '{server.url}/v1', model: the-model}}\n"
    two = f"two: {{kind: anthropic, base_url: '{server.url}', model: the-model, key: A_KEY}}\n"
    (tmp_path / "models.yaml").write_text(one + two)
    models = ("--models", "models.yaml", "--model", "one", "--model", "two")
    under, everything = imported(tmp_path, *models, "--task", "copy", "--limit", "2")
    assert {"openai", "anthropic"} <= everything
    assert not under
