"""The two rules of the confidence factor: the paper's formula, and that of the official runs."""

from __future__ import annotations

from collections import defaultdict

import pytest
import torch

from pbcore.decoding.samplers import resolve
from pbcore.decoding.step import Step
from tests.reference import reference_cases


def revealed(sampler: str, confidences: list[list[float]]) -> list[int]:
    """How many candidates a policy reveals in each of some rows, given their confidences."""
    widest = max(map(len, confidences))
    inside = torch.tensor([[i < len(row) for i in range(widest)] for row in confidences])  # (R, C)
    sure = torch.tensor([[*row, *[0.0] * (widest - len(row))] for row in confidences])
    place = torch.arange(widest).expand_as(inside)
    zeros = torch.zeros(len(confidences), dtype=torch.long)
    slots = inside.sum(-1)
    step = Step(
        inside=inside,
        position=place,
        column=place,
        masked=inside,
        key=zeros,
        index=zeros,
        nfe=zeros,
        slots=slots,
        size=slots,
        requested=slots,
        targets=slots,
        left=slots,
        stale=zeros.bool(),
        asked=widest,
        token=torch.zeros_like(place),
        confidence=sure,
    )
    reveal = resolve(sampler).policy.select(step)
    assert isinstance(reveal, torch.Tensor)
    return reveal.sum(-1).tolist()


class TestFactor:
    @pytest.mark.parametrize(
        ("confidences", "paper", "official"),
        [
            ([0.99, 0.98, 0.1], 2, 3),  # the last one fails alone
            ([0.99, 0.1], 1, 2),
            ([0.1, 0.2], 1, 2),  # two always go together
            ([0.1, 0.1, 0.1], 1, 1),
            ([0.99, 0.98, 0.1, 0.1], 2, 2),
            ([0.99, 0.98, 0.97], 3, 3),
            ([0.1], 1, 1),
        ],
    )
    def test_by_hand(self, confidences: list[float], paper: int, official: int) -> None:
        """f = 1."""
        assert revealed("factor-1.0", [confidences]) == [paper]
        assert revealed("factor-1.0-ref", [confidences]) == [official]

    def test_every_official_case(self) -> None:
        """`-ref` reveals as many as the official code, for blocks of 1 to 32 masks, several to a
        batch.
        """
        cases = defaultdict(list)
        for case in reference_cases("factor_cases"):
            cases[case["factor"]].append(case)
        for f, group in cases.items():
            counts = revealed(f"factor-{f}-ref", [case["confidence"] for case in group])
            assert counts == [case["revealed"] for case in group], f
