"""Bits lost by recorded steps, against the general bound and closed forms; mutual information
against enumeration.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pbcore.base.errors import InputError
from pbcore.ceilings.table import listed_rows
from pbcore.tasks.base import Sample
from pbcore.tasks.registry import load_task
from pbcore.theory import answer_distribution, answers_entropy, partition_bound, step_bound
from pbcore.theory.answers import answer_table
from pbcore.theory.canvas import MASKED, ProductDistribution
from pbcore.theory.lost import bits_lost, mutual_information, rows_lost

TASKS = [
    "waiting_line/shuffle",
    "waiting_line/insert_random",
    "list_ops/shuffle",
    "list_ops/replace_random",
]


def grouped(when: list[int]) -> list[list[int]]:
    return [[i for i, step in enumerate(when) if step == t] for t in sorted(set(when))]


def own(answers: list[str], length: int, canvas: str | None = None) -> Sample:
    return Sample(
        "own/task",
        0,
        ({"role": "user", "content": "?"},),
        {},
        {"answers": answers},
        length,
        canvas=canvas,
    )


class TestRows:
    @given(
        st.data(),
        st.sampled_from(
            ["insert_random", "remove_random", "replace_random", "shuffle", "shuffle_changed"]
        ),
    )
    def test_equals_the_partition_bound(self, data: st.DataObject, op: str) -> None:
        rows = answer_table(op, 4)
        when = data.draw(
            st.lists(st.integers(0, 4), min_size=rows.shape[1], max_size=rows.shape[1])
        )
        expected = partition_bound(answers_entropy(rows), grouped(when))
        assert rows_lost(rows, np.array(when)) == pytest.approx(expected, abs=1e-9)

    def test_latin_squares(self) -> None:
        rows = answer_table("latin_square", 4)
        when = [0, 1, 2, 3] * 4
        expected = step_bound("latin_square", 4, steps=grouped(when))
        assert rows_lost(rows, np.array(when)) == pytest.approx(expected, abs=1e-9)


class TestSteps:
    def test_two_words_in_one_step(self) -> None:
        """The cities: one bit together, none one after the other."""
        distribution = answer_distribution(
            own(["New York", "New Orleans", "Mexico City", "Panama City"], 2)
        )
        assert bits_lost(distribution, [0, 0]) == pytest.approx(1)
        assert bits_lost(distribution, [0, 1]) == bits_lost(distribution, [1, 0]) == 0

    @pytest.mark.parametrize("n", [3, 6, 15])
    @pytest.mark.parametrize("task", ["waiting_line/shuffle", "list_ops/shuffle"])
    def test_shuffles_of_any_length_by_counting(self, task: str, n: int) -> None:
        """Whole slots step by step are `step_bound`, whatever stands around them."""
        sample = load_task(task, n=n, limit=1).samples[0]
        distribution = answer_distribution(sample)
        slots, width = distribution.slots, distribution.slots.shape[1]  # type: ignore[attr-defined]
        steps = np.full(distribution.length, 99)
        steps[slots[:, 0]] = np.arange(n) // 2
        steps[slots[:, 1:]] = 50  # last names follow from first names
        sizes = [2] * (n // 2) + [1] * (n % 2)
        op = "shuffle" if width == 1 else "shuffle_changed"
        assert bits_lost(distribution, steps.tolist()) == pytest.approx(
            step_bound(op, n, sizes), abs=1e-9
        )

    def test_counting_equals_listing(self) -> None:
        """First and last names at random steps, four people."""
        sample = load_task("waiting_line/shuffle", n=4, limit=1).samples[0]
        counted = answer_distribution(sample)
        people = [name.split() for name in sample.label["input"]]
        orders = answer_table("shuffle_changed", 4)
        rows = np.array(
            [[4 * part + person for person in order for part in (0, 1)] for order in orders]
        )
        assert len(people) == 4
        rng = np.random.default_rng(0)
        for _ in range(20):
            when = rng.integers(0, 4, 8)
            steps = np.full(counted.length, 7)
            steps[counted.slots.ravel()] = when  # type: ignore[attr-defined]
            assert bits_lost(counted, steps.tolist()) == pytest.approx(
                rows_lost(rows, when), abs=1e-9
            )

    def test_given_tokens_and_filled_ones_lose_nothing(self) -> None:
        """A given first word leaves one free position; EOS that no step revealed comes last."""
        answers = ["New York", "New Orleans", "Mexico City", "Panama City"]
        assert bits_lost(answer_distribution(own(answers, 2, "New[MASK]")), [-1, 0]) == 0
        longer = answer_distribution(own([*answers, "Rome"], 2))
        assert bits_lost(longer, [0, -1]) == pytest.approx(0)

    def test_steps_shorter_than_the_canvas_are_refused(self) -> None:
        with pytest.raises(ValueError, match="1 steps for a canvas of 2"):
            bits_lost(answer_distribution(own(["New York"], 2)), [0])


def entropy(rows: NDArray[np.int64], *columns: int) -> float:
    """Of the joint distribution of columns, each row as likely as any other, in nats."""
    _, counts = np.unique(rows[:, columns], axis=0, return_counts=True)
    shares = counts / len(rows)
    return float(-(shares * np.log(shares)).sum())


@settings(max_examples=12, derandomize=True)
@given(
    name=st.sampled_from(TASKS), n=st.integers(2, 5), seed=st.integers(0, 50), share=st.floats(0, 1)
)
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
        expected = entropy(agree, i) + entropy(agree, j) - entropy(agree, i, j) if i != j else 0.0
        assert got[i, j] == pytest.approx(expected, abs=1e-12)


def test_none_of_a_walk() -> None:
    """A walk's answers are neither listed nor orders: refused by name, not taken for independent,
    alone and as a part of several answers.
    """
    walk = answer_distribution(load_task("walk/graph", n=8, limit=1).samples[0])
    several = ProductDistribution((walk, walk), "\n", 2 * walk.length + 4)
    for distribution in (walk, several):
        with pytest.raises(InputError, match="known for listed answers and shuffles, not Chain"):
            mutual_information(distribution, np.full(distribution.length, MASKED))
