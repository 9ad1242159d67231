"""The embedded checkpoints, for tests that look at what is shipped."""

from __future__ import annotations

from pathlib import Path

import pytest

import pbcore.models

FOLDER = Path(pbcore.models.__file__).parent


@pytest.fixture(scope="session")
def embedded() -> Path:
    """The folder of `tiny`; skips where this copy has none."""
    return _folder("tiny", "diffusion")


@pytest.fixture(scope="session")
def embedded_ar() -> Path:
    """The folder of `tiny-ar`; skips where this copy has none."""
    return _folder("tiny-ar", "causal")


@pytest.fixture(scope="session")
def embedded_block() -> Path:
    """The folder of `tiny-block`; skips where this copy has none."""
    return _folder("tiny-block", "block")


def _folder(name: str, objective: str) -> Path:
    if not (FOLDER / name / "model.safetensors").is_file():
        pytest.skip(
            f"no embedded checkpoint in this copy: python -m pbcore.train --objective {objective}"
        )
    return FOLDER / name
