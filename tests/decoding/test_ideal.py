"""On the ideal model samplers are as accurate as theory says."""

from __future__ import annotations

from dataclasses import replace
from math import floor, log, sqrt

import pytest

import pbcore
from pbcore.decoding import decode
from pbcore.models import load_model
from pbcore.theory import accuracy

ROWS = 240


def measured(op: str, n: int, sampler: str) -> float:
    """The share of right answers over rows that differ in their tie-breaking noise alone."""
    task = pbcore.load_task(f"list_ops/{op}", limit=1, n=n)
    samples = [replace(task.samples[0], index=i) for i in range(ROWS)]
    runs = decode(load_model("ideal"), samples, sampler, batch_size=ROWS)
    return (
        sum(
            task.score(run.text, sample)["accuracy"]
            for run, sample in zip(runs, samples, strict=True)
        )
        / ROWS
    )


def agrees(share: float, expected: float) -> bool:
    """Within four standard errors, exact at 0 and 1."""
    return abs(share - expected) <= 4 * sqrt(expected * (1 - expected) / ROWS) + 1e-9


class TestAccuracy:
    @pytest.mark.parametrize(
        ("op", "sampler"),
        [
            ("copy", "random-k4"),
            ("shuffle", "random-k2"),
            ("shuffle", "confidence-k4"),
            ("shuffle", "margin-k3+t1.0"),
            ("shuffle", "left_to_right-k2+b2"),
            ("shuffle", "threshold-0.2"),
            ("shuffle", "factor-1.9"),
            ("replace_random", "confidence-k2"),
            ("replace_random", "entropy+s3_1"),
            ("replace_random", "threshold-0.7"),
            ("replace_random", "threshold-0.8"),
            ("replace_random", "factor-0.7"),
        ],
    )
    def test_as_derived(self, op: str, sampler: str) -> None:
        """Static schedules, thresholds and factors against the closed forms, n = 4."""
        assert agrees(measured(op, 4, sampler), accuracy(op, 4, sampler))

    @pytest.mark.parametrize("gamma", [0.5, 1.2, 1.5, 3.0])
    def test_entropy_bound_on_shuffles(self, gamma: float) -> None:
        """With m items left every entropy is ln m, so `eb` reveals ⌊γ / ln m⌋ + 1: a schedule whose
        accuracy is known.
        """
        counts = []
        left = 4
        while left:
            counts.append(min(left, floor(gamma / log(left)) + 1 if left > 1 else 1))
            left -= counts[-1]
        expected = accuracy("shuffle", 4, "confidence+s" + "_".join(map(str, counts)))
        assert agrees(measured("shuffle", 4, f"eb-{gamma}"), expected)
