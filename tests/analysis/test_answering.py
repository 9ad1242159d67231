"""pbcore.analysis.answering: whether a model answers enough for a verdict."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from pbcore.analysis.answering import answering, little_to_lose
from pbcore.base.errors import InputError


@given(st.integers(1, 60), st.data())
def test_one_task_of_right_and_wrong_answers(n: int, data: st.DataObject) -> None:
    """The bound is that of Clopper and Pearson."""
    right = data.draw(st.integers(0, n))
    exact = binomtest(right, n, alternative="greater").proportion_ci(0.95).low
    bound = answering([[1.0] * right + [0.0] * (n - right)])
    assert bound.least == pytest.approx(exact, abs=1e-5)
    assert bound.score == pytest.approx(right / n)


@pytest.mark.parametrize(
    ("right", "n", "max_loss", "enough"),
    [
        (0, 120, 5, False),
        (1, 8, 5, False),
        (4, 12, 5, True),  # p = .026 of 4 or more right by 10 %
        (3, 12, 5, False),
        (6, 30, 5, False),
        (4, 12, 50, False),  # 20 % is the most that is asked for
        (10, 30, 50, False),
        (12, 30, 50, True),
        (2, 100, 0.1, True),  # twice a small loss is little
    ],
)
def test_twice_the_loss_at_most_a_fifth(right: int, n: int, max_loss: float, enough: bool) -> None:
    """One-sided, at 95 %."""
    assert answering([[1.0] * right + [0.0] * (n - right)], max_loss).enough is enough


def test_tasks_count_alike() -> None:
    """The mean is over tasks: one that nobody can do halves it, however many questions it has."""
    some = answering([[1.0] * 10, [0.0] * 90])
    assert some.score == 0.5
    assert some.enough
    assert some.text == "scores 50.0 %, not shown to exceed 10 %"


def test_level() -> None:
    """Answers that are right as often as isn't enough pass in at most 5 % of runs, by the exact
    distribution.
    """
    n = 40
    passing = [k for k in range(n + 1) if answering([[1.0] * k + [0.0] * (n - k)]).enough]
    assert binomtest(min(passing), n, 0.1, alternative="greater").pvalue <= 0.05
    assert binomtest(min(passing) - 1, n, 0.1, alternative="greater").pvalue > 0.05


def test_nothing_to_judge() -> None:
    """Is refused."""
    with pytest.raises(InputError):
        answering([])


def test_little_to_lose() -> None:
    """Said of answers that are nearly all wrong; tasks without answers say nothing."""
    assert little_to_lose([[0.0] * 20, []]) == "scores 0.0 %, not shown to exceed 10 %"
    assert little_to_lose([[0.0] * 20], max_loss=1) == "scores 0.0 %, not shown to exceed 2 %"
    assert little_to_lose([[1.0] * 20]) == ""
    assert little_to_lose([[], []]) == ""
