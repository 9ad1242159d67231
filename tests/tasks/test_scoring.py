"""Scorers of users: what they give is a score for each answer, or an error that names scorer and
sample.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from pbcore.tasks import load_task
from pbcore.tasks.base import Sample
from pbcore.tasks.scoring import SCORERS, Scored, ScorerError, register_scorer


class Odd:
    """Gives what it is told to."""

    metrics = ("accuracy",)

    def __init__(self, given: Any) -> None:
        self.given = given

    def score(
        self, predictions: Sequence[str], samples: Sequence[Sample], metrics: frozenset[str]
    ) -> Any:
        return self.given


def scored(given: Any, monkeypatch: pytest.MonkeyPatch) -> list[Scored]:
    monkeypatch.setattr(SCORERS, "_registered", dict(SCORERS.all()))
    register_scorer("odd", Odd(given))
    task = replace(load_task("waiting_line/copy", limit=2), scorer="odd")
    return task.score_many(["a", "b"], task.samples)


@pytest.mark.parametrize(
    "value",
    [math.nan, math.inf, -math.inf, 2, -0.01, None, "1", [1.0], 1j, torch.tensor(0.5)],
    ids=repr,
)
def test_what_is_no_score(value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Named with scorer, sample, metric and what is allowed, before it can reach a record or a
    mean.
    """
    with pytest.raises(
        ScorerError,
        match=r"scorer 'odd', sample 1 of waiting_line/copy: 'accuracy' is .* from 0 to 1",
    ):
        scored([Scored({"accuracy": 1.0}), Scored({"accuracy": value})], monkeypatch)


@pytest.mark.parametrize("value", [0, 1, True, 0.5, np.float32(0.25)], ids=repr)
def test_numbers_of_any_kind(value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    given = [Scored({"accuracy": value}), Scored({}, {"absent": {"accuracy": "no server"}})]
    assert scored(given, monkeypatch) == given


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (None, "gave None for 2 answers"),
        ([], "gave 0 results for 2 answers"),
        ([Scored({})] * 3, "gave 3 results for 2 answers"),
        (
            [{"accuracy": 1.0}] * 2,
            r"sample 0 of waiting_line/copy: it gave \{'accuracy': 1.0\}; give a .*Scored",
        ),
    ],
)
def test_one_each(given: Any, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ScorerError, match=said):
        scored(given, monkeypatch)
