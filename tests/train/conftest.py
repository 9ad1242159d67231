"""The embedded checkpoint, for tests that look at what is shipped."""

from __future__ import annotations

from pathlib import Path

import pytest

import pbcore.models

FOLDER = Path(pbcore.models.__file__).parent / "tiny"


@pytest.fixture(scope="session")
def embedded() -> Path:
    """The folder of the shipped checkpoint; skips where this copy has none."""
    if not (FOLDER / "model.safetensors").is_file():
        pytest.skip("no embedded checkpoint in this copy: python -m pbcore.train")
    return FOLDER
