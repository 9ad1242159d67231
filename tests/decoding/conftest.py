"""Fixtures of the decoding tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pbcore.decoding.policies.registry import POLICIES


@pytest.fixture
def own_policies() -> Iterator[None]:
    """Policies registered by a test are gone after it."""
    with POLICIES.restored():
        yield
