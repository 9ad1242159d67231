"""Settings that differ in what can't be varied here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from pbcore.analysis.differences import CellSetting
from pbcore.analysis.explanation import Explanation
from pbcore.base.errors import InputError
from pbcore.explain import measuring
from pbcore.explain.sides import Side
from pbcore.grid.levels import FACTORS
from pbcore.results.rundir import StoredCell
from tests.results import factory

TASK = "waiting_line/shuffle"
OFFICIAL = {"data_seed": "", "data_dir": "official", "tasks": ""}


def side(sampler: str, right: list[float], **facts: str) -> Side:
    """A measured side; its facts are those that no factor covers."""
    levels = dict.fromkeys(FACTORS, "default")
    setting = CellSetting("tiny", sampler, levels, facts, OFFICIAL)
    scores = {TASK: dict(enumerate(right))}
    return Side(sampler, setting, {"n": [15], "seed": [0]}, [TASK], scores)


def explained(
    first: Side, second: Side, here: Mapping[str, list[float]], monkeypatch: pytest.MonkeyPatch
) -> tuple[Explanation, list[list[str]]]:
    """The explanation where runs on this machine give these scores by sampler, and the words of
    the runs.
    """
    runs: list[list[str]] = []
    stored = []
    for sampler, right in here.items():
        cell, samples = factory.cell(task=TASK, sampler=sampler, right=right)
        stored.append(StoredCell(cell, tuple(samples)))
    monkeypatch.setattr(measuring, "run_into", lambda folder, words, done: runs.append(list(words)))
    monkeypatch.setattr(measuring, "load_stored", lambda folder: stored)
    plan = measuring.make_plan(first, second, [])
    return measuring.measure(plan, Path("nowhere"), lambda cell: None), runs


def test_other_weights_leave_a_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both settings are measured here; what that doesn't reach is not explained, and named."""
    first = side("confidence-k2", [1, 1, 1, 1], weights="aa")
    second = side("random-k2", [0, 0, 0, 1], weights="bb")
    here = {"confidence-k2": [1.0, 1, 1, 0], "random-k2": [0.0, 0, 1, 0]}
    found, runs = explained(first, second, here, monkeypatch)
    assert found.gap.points == pytest.approx(-75)
    (share,) = found.shares
    assert share.part.points == pytest.approx(-50)
    assert found.unexplained is not None
    assert found.unexplained.points == pytest.approx(-25)
    assert found.unmeasured == ["weights aa → bb"]
    assert len(runs) == 1


def test_two_runs_need_a_common_question() -> None:
    """Else nothing is paired."""
    first = side("confidence-k2", [1, 0])
    second = replace(side("random-k2", [1]), scores={TASK: {7: 1.0}})
    with pytest.raises(InputError, match="no question in common"):
        measuring.make_plan(first, second, [])
