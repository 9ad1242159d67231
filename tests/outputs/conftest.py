"""What compares a text with its kept one."""

from __future__ import annotations

import re

import pytest
from pytest_regressions.file_regression import FileRegressionFixture

from tests.outputs.entries import Check


@pytest.fixture(autouse=True)
def _no_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kept texts name pages as a project without an address does, whatever is installed."""
    monkeypatch.setattr("pbcore.base.links.project", lambda: "")


@pytest.fixture
def same(file_regression: FileRegressionFixture, request: pytest.FixtureRequest) -> Check:
    """Compares a text with the test's file."""
    name = (
        re.sub(r"\W+", "_", f"{request.cls.__name__}_{request.node.name}")
        .replace("_test_", "_")
        .strip("_")
    )
    return lambda text: file_regression.check(text.rstrip() + "\n", encoding="utf-8", basename=name)
