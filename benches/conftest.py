"""Benchmarks of the engine import torch and transformers; a run that deselects them needn't."""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves out files whose tests the mark expression deselects, unless the command line names the file."""
    if collection_path.suffix != ".py" or "not speed" not in config.option.markexpr:
        return None
    return True if "pytest.mark.speed" in collection_path.read_text(encoding="utf-8") else None
