"""Published numbers, and settings that differ in what can't be varied here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pbcore.analysis.differences import CellSetting
from pbcore.analysis.explanation import Explanation
from pbcore.base.errors import InputError
from pbcore.explain import measuring
from pbcore.explain.sides import Side, of_published
from pbcore.grid.levels import FACTORS
from pbcore.results.published import figures
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


def test_a_published_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own setting is measured here; the rest between that and the number is not explained."""
    pytest.importorskip("pbcore.extras.paper")
    first = replace(side("confidence-k1", [1, 1, 1, 0]), name="mine")
    theirs = of_published(first, "LLaDA", "confidence-k2")
    table = figures()
    row = table[(table["model"] == "LLaDA") & (table["task"] == TASK)]
    assert theirs.published == {TASK: pytest.approx(float(row["score"].iloc[0]))}
    here = {"confidence-k1": [1.0, 1, 1, 0], "confidence-k2": [1.0, 0, 0, 0]}
    found, _ = explained(first, theirs, here, monkeypatch)
    assert found.gap.points == pytest.approx(100 * (theirs.published[TASK] - 0.75))
    assert found.shares[0].part.points == pytest.approx(-50)
    assert found.unexplained is not None
    parts = found.shares[0].part.points + found.unexplained.points
    assert parts == pytest.approx(found.gap.points)
    assert np.isnan(found.gap.low)  # the number has no answers to resample
    assert any("published" in note for note in found.unmeasured)


@pytest.mark.parametrize(
    ("model", "sampler", "said"),
    [
        ("LLaDA", "random-k2", "no random-k2 for these tasks; name one of confidence-k2"),
        ("Llama 3.1 8B", "confidence-k2", "its sampler isn't stated"),
        ("nobody", None, "there are"),
    ],
)
def test_published_numbers_that_are_not_there(model: str, sampler: str | None, said: str) -> None:
    """What there is, is named."""
    pytest.importorskip("pbcore.extras.paper")
    with pytest.raises(InputError, match=said):
        of_published(side("confidence-k2", [1, 0]), model, sampler)


def test_two_runs_need_a_common_question() -> None:
    """Else nothing is paired."""
    first = side("confidence-k2", [1, 0])
    second = replace(side("random-k2", [1]), scores={TASK: {7: 1.0}})
    with pytest.raises(InputError, match="no question in common"):
        measuring.make_plan(first, second, [])
