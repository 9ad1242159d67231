from itertools import combinations, pairwise
from math import factorial, log2, prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pbcore.theory.answers import DETERMINISTIC, answer_table, positions
from pbcore.theory.bounds import (
    EXCHANGEABLE,
    answers_entropy,
    optimal_bound,
    partition_bound,
    step_bound,
    total_correlation,
)
from tests.theory import twins

SMALL = [
    *[
        (op, n)
        for op in ("shuffle", "shuffle_changed", "insert_random", "remove_random", "replace_random")
        for n in (2, 3, 4)
    ],
    ("latin_square", 2),
    ("latin_square", 3),
    ("copy", 4),
    ("insert_index", 3),
]


def listed(op: str, n: int) -> list[tuple[int, ...]]:
    return [tuple(row) for row in answer_table(op, n).tolist()]


def odd_even(n: int) -> float:
    """n!! / (n−1)!!"""
    return prod(range(n, 0, -2)) / prod(range(n - 1, 0, -2))


class TestTotalCorrelation:
    @pytest.mark.parametrize("n", [2, 3, 4, 10, 50, 1000])
    def test_replace_random_is_equation_3(self, n: int) -> None:
        """(n − 1)[log₂ n − log₂(n − 1)], below log₂ e."""
        assert total_correlation("replace_random", n) == pytest.approx(
            (n - 1) * (log2(n) - log2(n - 1)), abs=1e-9
        )
        assert total_correlation("replace_random", n) < log2(np.e)

    @pytest.mark.parametrize("n", [1, 2, 4, 10, 50])
    def test_shuffle_is_equation_4(self, n: int) -> None:
        """n log₂ n − log₂ n!"""
        assert total_correlation("shuffle", n) == pytest.approx(
            n * log2(n) - log2(factorial(n)), abs=1e-9
        )

    @pytest.mark.parametrize("op", DETERMINISTIC)
    def test_one_answer_has_none(self, op: str) -> None:
        """Nothing is lost where the input says all."""
        assert total_correlation(op, 4) == 0

    @pytest.mark.parametrize(("op", "n"), [*SMALL, ("latin_square", 4)])
    def test_is_the_definition(self, op: str, n: int) -> None:
        """Sum of the marginal entropies less the joint one, by listing."""
        assert total_correlation(op, n) == pytest.approx(
            twins.total_correlation(listed(op, n), range(positions(op, n))), abs=1e-9
        )


class TestStepBound:
    @pytest.mark.parametrize("sizes", [[4], [2, 2], [1, 3], [3, 1], [1, 1, 2], [1, 1, 1, 1]])
    def test_shuffle_formula(self, sizes: list[int]) -> None:
        """Σ |S| log₂ k − log₂ n!, with k items left before each step."""
        left = [4 - sum(sizes[:t]) for t in range(len(sizes))]
        expected = sum(s * log2(k) for s, k in zip(sizes, left, strict=True)) - log2(24)
        assert step_bound("shuffle", 4, sizes) == pytest.approx(expected, abs=1e-12)

    @pytest.mark.parametrize("n", [2, 4, 10, 20])
    def test_shuffle_in_pairs(self, n: int) -> None:
        """log₂(n!! / (n − 1)!!), which grows without bound."""
        assert step_bound("shuffle", n, [2] * (n // 2)) == pytest.approx(log2(odd_even(n)))

    @pytest.mark.parametrize(("op", "n"), SMALL)
    @given(data=st.data())
    @settings(max_examples=8)
    def test_is_the_definition_for_any_partition(
        self, op: str, n: int, data: st.DataObject
    ) -> None:
        """Expected conditional total correlations, and the KL divergence that the exact marginals
        reach (Theorem 1).
        """
        count = positions(op, n)
        order = data.draw(st.permutations(range(count)))
        cuts = (
            sorted(data.draw(st.sets(st.integers(1, count - 1), max_size=count - 1)))
            if count > 1
            else []
        )
        steps = [order[a:b] for a, b in zip([0, *cuts], [*cuts, count], strict=True)]
        bits = step_bound(op, n, steps=steps)
        answers = listed(op, n)
        assert bits == pytest.approx(twins.step_bound(answers, steps), abs=1e-9)
        drawn = twins.sampled(answers, steps)
        assert bits == pytest.approx(
            -sum(log2(len(answers) * q) for q in drawn.values()) / len(answers), abs=1e-9
        )
        if op in EXCHANGEABLE:
            assert bits == pytest.approx(
                step_bound(op, n, [len(step) for step in steps]), abs=1e-12
            )

    def test_the_ends(self) -> None:
        """One step loses the total correlation, one by one nothing (Remark 1)."""
        for op in ("shuffle", "replace_random", "shuffle_changed"):
            assert step_bound(op, 6, [6]) == pytest.approx(total_correlation(op, 6))
            assert step_bound(op, 6, [1] * 6) == pytest.approx(0, abs=1e-12)

    def test_which_positions_matters_for_insert(self) -> None:
        """Neighbours depend on each other more than the two ends do."""
        near = step_bound("insert_random", 4, steps=[[0, 1], [2, 3, 4]])
        assert near != pytest.approx(step_bound("insert_random", 4, steps=[[0, 4], [1, 2, 3]]))

    def test_a_random_order_does_no_worse(self) -> None:
        """replace_random, n = 4, two a step: the mixture over partitions has .6077 bits, the bound
        of each is .6226.
        """
        answers = listed("replace_random", 4)
        orders = [
            [list(first), [i for i in range(4) if i not in first]]
            for first in combinations(range(4), 2)
        ]
        mixture = {
            a: sum(twins.sampled(answers, steps)[a] for steps in orders) / len(orders)
            for a in answers
        }
        assert -sum(log2(4 * q) for q in mixture.values()) / 4 == pytest.approx(0.6077, abs=5e-5)
        assert step_bound("replace_random", 4, [2, 2]) == pytest.approx(0.6226, abs=5e-5)

    @pytest.mark.parametrize(
        ("op", "sizes", "steps", "said"),
        [
            ("shuffle", None, None, "either sizes"),
            ("shuffle", [4], [[0, 1, 2, 3]], "either sizes"),
            ("shuffle", [2, 1], None, "add up to the 4"),
            ("shuffle", [4, 0], None, "at least 1"),
            ("shuffle", [2.0, 2], None, "integers"),
            ("shuffle", None, [[0, 1], [1, 2, 3]], "once"),
            ("shuffle", None, [[0, 1], [2]], "once"),
            ("shuffle", None, [[0, 1, 2, 3], []], "no empty step"),
            ("insert_random", [5], None, "give steps="),
            ("latin_square", [16], None, "give steps="),
            ("shuffle", 4, None, "list of tokens per step"),
            ("shuffle", None, [0, 1, 2, 3], "list of lists"),
            ("sort_of", [4], None, "unknown operation"),
        ],
    )
    def test_bad_partitions_are_refused(
        self, op: str, sizes: object, steps: object, said: str
    ) -> None:
        """The error says what is wrong with them."""
        with pytest.raises(ValueError, match=said):
            step_bound(op, 4, sizes, steps=steps)  # type: ignore[arg-type]


class TestOptimalBound:
    @pytest.mark.parametrize(
        ("op", "n"),
        [
            ("shuffle", 4),
            ("shuffle_changed", 4),
            ("replace_random", 5),
            ("insert_random", 4),
            ("remove_random", 5),
        ],
    )
    def test_is_the_least_over_all_partitions(self, op: str, n: int) -> None:
        """Compared with trying every ordered partition; it falls from C(Y|X) to 0 (Theorem 2)."""
        count = positions(op, n)
        answers = listed(op, n)
        entropy = answers_entropy(np.array(answers))
        bounds = [optimal_bound(op, n, T) for T in range(1, count + 1)]
        assert bounds == pytest.approx(
            [
                min(partition_bound(entropy, steps) for steps in twins.ordered_partitions(count, T))
                for T in range(1, count + 1)
            ],
            abs=1e-9,
        )
        assert bounds[0] == pytest.approx(total_correlation(op, n))
        assert bounds[-1] == pytest.approx(0, abs=1e-9)
        assert all(a >= b - 1e-12 for a, b in pairwise(bounds))

    @pytest.mark.parametrize(
        ("op", "n", "T", "said"),
        [
            ("shuffle", 4, 0, "shuffle, n = 4: T .* 1 to 4"),
            ("shuffle", 4, 5, "1 to 4"),
            ("latin_square", 4, 2, "latin_square, n = 4: .* at most 10"),
        ],
    )
    def test_bad_steps_are_refused(self, op: str, n: int, T: int, said: str) -> None:
        """T outside its range, or too many partitions."""
        with pytest.raises(ValueError, match=said):
            optimal_bound(op, n, T)
