"""A run reads each sampler's text once; what is decoded and recorded is the plan's own object."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from types import FrameType
from typing import Any

import pytest

from pbcore.names import parse
from tests.plugin.conftest import Run

TYPED = ("random-k2", "threshold-0.90")
AFTER = ("pbcore.report", "pbcore.analysis")  # they read the texts of records


def callers(frame: FrameType) -> Iterator[str]:
    """The modules that wait for a call, the nearest first."""
    while frame.f_back is not None:
        frame = frame.f_back
        yield str(frame.f_globals.get("__name__"))


@pytest.mark.parametrize("more", ["", "--share-forwards", "--blame"])
def test_from_the_plan_to_the_record(run: Run, monkeypatch: pytest.MonkeyPatch, more: str) -> None:
    """Two tasks, two samplers and four cells: two texts, each read by the plan alone."""
    read = Counter[str]()

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        if event != "call" or frame.f_code is not parse.__code__:
            return
        if not any(module.startswith(AFTER) for module in callers(frame)):
            read[frame.f_locals["name"]] += 1

    # While it times, pytest-benchmark would turn the profiler off.
    monkeypatch.setattr("pytest_benchmark.fixture.PauseInstrumentation", nullcontext)
    samplers = " ".join(f"--sampler {text}" for text in TYPED)
    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        run(
            f"--model tiny --limit 1 --task copy --task shuffle {samplers} --out out {more}"
        ).assert_outcomes(passed=4)
    finally:
        sys.setprofile(before)
    assert {text: number for text, number in read.items() if text.startswith(("r", "t"))} == (
        dict.fromkeys(TYPED, 1)
    )
