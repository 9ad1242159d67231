"""Samplers on walks with exact marginals: the findings of arXiv 2606.22976."""

from __future__ import annotations

from statistics import fmean

import pytest

from pbcore.decoding import decode
from pbcore.metrics.answer_law import answer_law
from pbcore.models import load_model
from pbcore.tasks import load_task


def measured(sampler: str, n: int = 16, limit: int = 100) -> tuple[float, float, dict[str, float]]:
    """Valid share, forwards and law of ideal's walks."""
    task = load_task("walk/graph", n=n, limit=limit)
    answers = decode(load_model("ideal"), task.samples, sampler)
    valid = fmean(
        task.score(one.text, sample)["accuracy"]
        for one, sample in zip(answers, task.samples, strict=True)
    )
    law = answer_law(
        task, [(sample, one.text) for one, sample in zip(answers, task.samples, strict=True)]
    )["law"]
    return valid, fmean(one.nfe for one in answers), law


@pytest.mark.parametrize(("n", "steps"), [(2, 1), (4, 2), (16, 4), (100, 7)])
def test_bisection_is_exact_in_log_steps(n: int, steps: int) -> None:
    """⌈log₂ L⌉ steps for a walk of L nodes whose first is given, always valid."""
    valid, nfe, _ = measured("bisection+t1.0", n, 20)
    assert (valid, nfe) == (1, steps)


def test_drawn_walks_have_the_right_law_only_where_nothing_is_lost() -> None:
    """Bisection and one at a time draw the kernel itself; greedy decoding is always valid and draws
    another one.
    """
    for sampler in ("bisection+t1.0", "left_to_right-k1+t1.0"):
        valid, _, law = measured(sampler)
        assert valid == 1
        assert law["kernel"] < 1.6 * law["kernel_by_chance"]
    valid, _, law = measured("confidence-k1")
    assert valid == 1
    assert law["kernel"] > 5 * law["kernel_by_chance"]
    assert law["entropy"] < law["entropy_exact"] - 0.5


def test_the_order_by_entropy_can_be_worse_than_a_random_one() -> None:
    """Four nodes a step: the surest nodes are neighbours of known ones, and of each other."""
    (by_entropy, four, _), (at_random, same, _) = (
        measured("entropy-k4+t1.0"),
        measured("random-k4+t1.0"),
    )
    assert four == same == 4
    assert by_entropy < at_random - 0.1
