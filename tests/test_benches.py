"""The files of benches/ import: most of them run on demand only."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

BENCHES = Path(__file__).resolve().parents[1] / "benches"


@pytest.mark.parametrize("name", sorted(file.stem for file in BENCHES.glob("test_*.py")))
def test_a_benchmark_imports(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it takes from the package is there, and it holds at least one test."""
    monkeypatch.syspath_prepend(str(BENCHES))
    monkeypatch.syspath_prepend(str(BENCHES.parent))
    module = import_module(f"benches.{name}")
    assert any(attribute.startswith("test_") for attribute in vars(module))
