"""Figures of runs with a sampler that this version no longer has."""

from __future__ import annotations

from pbcore.extras.paper.curves import oracle_mean
from pbcore.extras.paper.sweeps import figure5
from pbcore.results import RunDir
from pbcore.results.load import load_stored
from tests.results.test_old_names import run

__all__ = ["run"]  # a fixture


def test_they_are_left_out(run: RunDir) -> None:
    """Other samplers are drawn."""
    cells = load_stored(run.path)
    assert {row["sampler"] for row in figure5(cells).rows} == {"random-k2+b8", "random-k2+b16"}
    assert oracle_mean(cells) is None
