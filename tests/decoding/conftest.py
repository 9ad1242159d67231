"""Fixtures of the decoding tests."""

from __future__ import annotations

import pytest

from pbcore.decoding.policies import registry


@pytest.fixture
def own_policies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Policies registered by a test are gone after it."""
    monkeypatch.setattr(registry.POLICIES, "_registered", dict(registry.POLICIES._registered))
