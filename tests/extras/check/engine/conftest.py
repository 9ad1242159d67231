"""The made LLaDA checkpoint of tests/reference."""

from __future__ import annotations

from pathlib import Path

import pytest

from pbcore.extras.check.engine.material import Material, read_material
from tests.reference import bundled


@pytest.fixture(scope="session")
def folder() -> Path:
    """A checkpoint made with `pbcore check engine --make engines --family llada`."""
    return bundled("engines", "llada")


@pytest.fixture(scope="session")
def material(folder: Path) -> Material:
    """Its `expected.json`."""
    return read_material(folder)
