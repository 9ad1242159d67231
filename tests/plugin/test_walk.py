"""CONTRIBUTING.md's way of a cell is the one that a cell takes, seen by a profiler."""

from __future__ import annotations

import os
import re
import sys
import threading
from contextlib import nullcontext
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import pbcore
from pbcore.grid.profiles import profiles
from tests.plugin.conftest import ROOT, Run

PACKAGE = f"{Path(pbcore.__file__).parent}{os.sep}"


WALKS = (
    "A cell's way from the command line to its record:",
    "Its way from the record to report.md and report.html:",
)


def told(walk: str) -> list[str]:
    """`file.py: function` of each place that CONTRIBUTING.md names on a way, in its order."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    text = page[page.index(walk) :].partition("\n\n")[0]
    return [
        f"{file}: {function}" for file, function in re.findall(r"`([\w/]+\.py)` \(`(\w+)`\)", text)
    ]


def test_the_way_of_a_cell(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every place of both ways is entered, and first in the order in which they are named."""
    entered: dict[str, None] = {}

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(PACKAGE):
            file = code.co_filename.removeprefix(PACKAGE).replace(os.sep, "/")
            entered.setdefault(f"{file}: {code.co_name}")

    profiles.cache_clear()
    # While it times, pytest-benchmark would turn the profiler off.
    monkeypatch.setattr("pytest_benchmark.fixture.PauseInstrumentation", nullcontext)
    before = sys.getprofile()
    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        run("--model ideal --limit 1 --task shuffle --sampler random-k2 --out out").assert_outcomes(
            passed=1
        )
    finally:
        sys.setprofile(before)
        threading.setprofile(None)  # type: ignore[arg-type]
    places = [place for walk in WALKS for place in told(walk)]
    assert all(len(told(walk)) >= 12 for walk in WALKS)
    assert [place for place in entered if place in places] == places
