"""pass@k by enumeration, flip-flops by hand."""

from __future__ import annotations

from itertools import combinations

import pytest

from pbcore.analysis.decoding import exploration, pass_at, returns
from pbcore.base.errors import InputError
from pbcore.results.record import FormerToken, SampleRecord


@pytest.mark.parametrize("right", range(6))
@pytest.mark.parametrize("k", range(1, 6))
def test_pass_at_k_is_the_share_of_subsets_with_a_right_answer(right: int, k: int) -> None:
    """All subsets of 5 answers."""
    subsets = list(combinations([True] * right + [False] * (5 - right), k))
    assert pass_at(right, 5, k) == pytest.approx(sum(map(any, subsets)) / len(subsets))


def test_k_beyond_the_answers_is_refused() -> None:
    """There is no unbiased estimate of it."""
    with pytest.raises(InputError, match="pass@6"):
        pass_at(1, 5, 6)


def sample(index: int, seed: int, score: float, text: str = "", **more: object) -> SampleRecord:
    return SampleRecord(index, text or f"{score}", {"accuracy": score}, 1, 4, 4, seed=seed, **more)  # type: ignore[arg-type]


def test_a_cell_of_several_seeds() -> None:
    """Sample 0: 1 of 3 right; sample 1: always the same wrong text."""
    samples = [sample(0, seed, float(seed == 0), str(seed)) for seed in range(3)]
    samples += [sample(1, seed, 0.0, "same") for seed in range(3)]
    found = exploration(samples, "accuracy")
    assert found["pass_at"] == pytest.approx({"1": 1 / 6, "2": 1 / 3, "3": 1 / 2})
    assert found["distinct"] == pytest.approx((1 + 1 / 3) / 2)


def test_one_seed_and_graded_scores_have_no_pass_at_k() -> None:
    """It counts right answers."""
    assert exploration([sample(0, 0, 1.0)], "accuracy") == {}
    assert "pass_at" not in exploration([sample(0, 0, 0.5), sample(0, 1, 1.0)], "accuracy")


def test_flip_flops() -> None:
    """At position 1 A went and came back, then went for B; at 5 the last token, written once, came
    back.
    """
    former = [
        FormerToken(1, "A", 0, 2, 0.5),
        FormerToken(1, "A", 3, 4, 0.5),
        FormerToken(5, "E", 1, 2, 0.5),
    ]
    one = sample(0, 0, 1.0, tokens=["x", "B", "E"], former=former)
    assert returns(one) == [True, False, True]
    found = exploration([one, sample(1, 0, 1.0)], "accuracy")
    assert found == pytest.approx({"remasks": 1.5, "flip_flops": 2 / 3})
