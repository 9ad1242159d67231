"""Shapley shares, groups of options that are switched together, and their intervals."""

from __future__ import annotations

from itertools import permutations
from math import isnan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbcore.analysis.shares import combination_of, merged, needed, part_of, shapley


@given(st.integers(1, 4), st.integers(0, 10_000))
def test_shares_sum_to_the_difference_and_are_means_over_orders(options: int, seed: int) -> None:
    """For each question, whatever the scores."""
    generator = np.random.default_rng(seed)
    scores = {number: generator.random(3) for number in range(1 << options)}
    shares = shapley(scores, options)
    assert np.allclose(sum(shares), scores[(1 << options) - 1] - scores[0])
    orders = list(permutations(range(options)))
    for option in range(options):
        changes = []
        for order in orders:
            before = sum(1 << other for other in order[: order.index(option)])
            changes.append(scores[before | 1 << option] - scores[before])
        assert np.allclose(shares[option], np.mean(changes, axis=0))


def test_many_options_need_few_combinations() -> None:
    """Up to four all 2^m; beyond those that differ from either setting in one."""
    assert needed(4) == list(range(16))
    assert len(needed(5)) == 12
    assert {0, 31, 1, 30} <= set(needed(5))


@pytest.mark.parametrize(
    ("refused", "options", "groups"),
    [
        ([], 3, [[0], [1], [2]]),
        ([0b01], 2, [[0, 1]]),
        ([0b001, 0b101], 3, [[0, 1], [2]]),  # the first on, the second off
        ([0b010, 0b011], 3, [[0], [1, 2]]),
        ([0b001], 3, [[0, 1, 2]]),
    ],
)
def test_options_that_clash_are_switched_together(
    refused: list[int], options: int, groups: list[list[int]]
) -> None:
    """The smallest sets, so that no refused combination is needed."""
    found = merged(refused, options)
    assert found == groups
    used = {combination_of(found, number) for number in range(1 << len(found))}
    assert not used & set(refused)


def test_intervals_of_nothing_and_of_little() -> None:
    """Equal differences have no width, one question has no interval."""
    assert part_of([np.zeros(5)]) == part_of([np.zeros(9)])
    assert isnan(part_of([np.array([0.5])]).low)


def test_an_option_that_does_nothing_is_seldom_found() -> None:
    """About 5 % of intervals exclude 0; benches/check_statistics.py has more shapes."""
    generator = np.random.default_rng(0)
    wrong = 0
    for _ in range(400):
        part = part_of([generator.integers(-1, 2, 24) / 1.0], 999)
        wrong += part.low > 0 or part.high < 0
    assert wrong <= 32
