"""Mutual information of two positions against enumeration of the answers."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pbcore.decoding.table import listed_rows
from pbcore.tasks import load_task
from pbcore.theory.canvas import MASKED
from pbcore.theory.distributions import answer_distribution
from pbcore.theory.lost import mutual_information

TASKS = ["waiting_line/shuffle", "waiting_line/insert_random", "list_ops/shuffle", "list_ops/replace_random"]


def entropy(columns: list[tuple[int, ...]]) -> float:
    counts = np.array([columns.count(one) for one in set(columns)]) / len(columns)
    return float(-(counts * np.log(counts)).sum())


@settings(max_examples=12, deadline=None, derandomize=True)
@given(name=st.sampled_from(TASKS), n=st.integers(2, 5), seed=st.integers(0, 50), share=st.floats(0, 1))
def test_equals_enumeration(name: str, n: int, seed: int, share: float) -> None:
    """H(a) + H(b) − H(a, b) over the answers that agree with what is revealed of one of them."""
    sample = load_task(name, n=n, limit=1, seed=seed).samples[0]
    distribution = answer_distribution(sample)
    rows, _ = listed_rows(distribution)
    generator = np.random.default_rng(seed)
    reveal = generator.random(distribution.length) < share
    canvas = np.where(reveal, rows[generator.integers(len(rows))], distribution.canvas)
    agree = rows[(rows[:, canvas != MASKED] == canvas[canvas != MASKED]).all(-1)]
    got = mutual_information(distribution, canvas)
    for i, j in product(range(distribution.length), repeat=2):
        one, two = [(int(x),) for x in agree[:, i]], [(int(x),) for x in agree[:, j]]
        both = [(*x, *y) for x, y in zip(one, two, strict=True)]
        expected = entropy(one) + entropy(two) - entropy(both) if i != j else 0.0
        assert got[i, j] == pytest.approx(expected, abs=1e-12)
