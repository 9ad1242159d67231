"""Benchmarks of the engine import torch and transformers; a run that deselects them needn't. None
uses hypothesis.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves out files whose tests the mark expression deselects, unless the command line names the
    file.
    """
    if collection_path.suffix != ".py" or "not speed" not in config.option.markexpr:
        return None
    return True if "pytest.mark.speed" in collection_path.read_text(encoding="utf-8") else None


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Where only tests of this folder were asked for, hypothesis has nothing to sum up, for which
    its plugin would import it: half a second.
    """
    config = session.config
    places = [
        config.invocation_params.dir / argument.partition("::")[0] for argument in config.args
    ]
    alone = "hypothesis" not in sys.modules and all(
        place.resolve().is_relative_to(HERE) for place in places
    )
    if alone and config.pluginmanager.hasplugin("hypothesispytest"):
        config.pluginmanager.unregister(name="hypothesispytest")
