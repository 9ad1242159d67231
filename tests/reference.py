"""Where the reference data lies: $PBCORE_REFERENCE, or ../shared beside the project."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(os.environ.get("PBCORE_REFERENCE") or Path(__file__).resolve().parents[2] / "shared")


def reference(*parts: str) -> Path:
    """The path of a reference file or folder; skips the test where it is absent."""
    path = ROOT.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"reference data not here: {'/'.join(parts)} (set PBCORE_REFERENCE to the folder that holds it)")
    return path
