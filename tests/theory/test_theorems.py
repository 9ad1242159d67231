"""Lemma 1 and Theorems 2 and 3 on random distributions, against enumeration."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbcore.theory.bounds import answers_entropy, partition_bound
from tests.theory import twins
from tests.theory.theorems import conditional_total_correlation, lemma1, one_partition, theorem3


@st.composite
def distributions(
    draw: st.DrawFn, positions: int = 4, tokens: int = 3
) -> tuple[np.ndarray, list[float]]:
    """Distinct answers of a few positions with random probabilities."""
    every = list(product(range(tokens), repeat=positions))
    rows = draw(st.lists(st.sampled_from(every), min_size=1, max_size=12, unique=True))
    weights = [draw(st.integers(1, 20)) for _ in rows]
    return np.array(rows), [weight / sum(weights) for weight in weights]


def divergence(rows: np.ndarray, chances: list[float], steps: list[list[int]]) -> float:
    """KL(data ‖ product of exact marginals) by definition, answer by answer."""
    total = 0.0
    for answer, chance in zip(rows, chances, strict=True):
        product_of_marginals = 1.0
        known = []
        for step in steps:
            alive = (rows[:, known] == answer[known]).all(-1)
            weights = np.array(chances)[alive]
            for position in step:
                same = rows[alive][:, position] == answer[position]
                product_of_marginals *= weights[same].sum() / weights.sum()
            known += step
        total += chance * np.log2(chance / product_of_marginals)
    return float(total)


class TestEntropy:
    @given(distributions())
    def test_equal_chances_are_the_uniform_case(
        self, given: tuple[np.ndarray, list[float]]
    ) -> None:
        rows, _ = given
        weighted = answers_entropy(rows, [1 / len(rows)] * len(rows))
        uniform = answers_entropy(rows)
        for subset in (frozenset(), frozenset({0}), frozenset({1, 3}), frozenset(range(4))):
            assert weighted(subset) == pytest.approx(uniform(subset), abs=1e-9)

    def test_probabilities_that_do_not_fit_are_refused(self) -> None:
        with pytest.raises(ValueError, match="add up to 1"):
            answers_entropy(np.array([[0], [1]]), [0.5, 0.6])


class TestTheorem1:
    @given(
        distributions(),
        st.sampled_from(
            [[[0, 1, 2, 3]], [[0, 2], [1, 3]], [[3], [0, 1], [2]], [[0], [1], [2], [3]]]
        ),
    )
    def test_the_bound_is_the_divergence_of_exact_marginals(
        self, given: tuple[np.ndarray, list[float]], steps: list[list[int]]
    ) -> None:
        """Equality, also where the answers are not equally likely."""
        rows, chances = given
        assert partition_bound(answers_entropy(rows, chances), steps) == pytest.approx(
            divergence(rows, chances, steps), abs=1e-9
        )


class TestLemma1:
    @given(
        distributions(positions=5, tokens=2),
        st.lists(st.sampled_from("ABZ-"), min_size=5, max_size=5),
    )
    def test_dividing_a_step_never_loses_more(
        self, given: tuple[np.ndarray, list[float]], place: list[str]
    ) -> None:
        rows, chances = given
        first, second, known = ([i for i, one in enumerate(place) if one == part] for part in "ABZ")
        whole, divided = lemma1(answers_entropy(rows, chances), first, second, known)
        assert whole >= divided - 1e-9

    @given(distributions())
    def test_correlation_given_known_positions(self, given: tuple[np.ndarray, list[float]]) -> None:
        """By listing what the known position can be."""
        rows, chances = given
        entropy = answers_entropy(rows, chances)
        expected = 0.0
        for value in np.unique(rows[:, 0]):
            mine = rows[:, 0] == value
            share = np.array(chances)[mine].sum()
            part = answers_entropy(rows[mine], (np.array(chances)[mine] / share).tolist())
            expected += share * (
                sum(part(frozenset({i})) for i in (1, 2, 3)) - part(frozenset({1, 2, 3}))
            )
        assert conditional_total_correlation(entropy, [1, 2, 3], [0]) == pytest.approx(
            expected, abs=1e-9
        )

    def test_equality_for_independent_halves_and_loss_for_twins(self) -> None:
        """Two pairs of equal tokens: dividing between the pairs saves nothing, dividing a pair
        saves its bit.
        """
        rows = np.array([[a, a, b, b] for a in (0, 1) for b in (0, 1)])
        entropy = answers_entropy(rows, [0.25] * 4)
        assert lemma1(entropy, [0, 1], [2, 3]) == (2.0, 2.0)
        assert lemma1(entropy, [0, 2], [1, 3]) == (2.0, 0.0)

    def test_a_position_twice_is_refused(self) -> None:
        with pytest.raises(ValueError, match="no position in common"):
            lemma1(answers_entropy(np.array([[0, 1]])), [0], [0])


class TestTheorem3:
    @given(st.lists(distributions(positions=3), min_size=1, max_size=3), st.data())
    def test_minimum_per_input(
        self, given: list[tuple[np.ndarray, list[float]]], data: st.DataObject
    ) -> None:
        """The mean of the least bounds by enumeration; at most that of one partition; falls with T
        to 0.
        """
        entropies = {x: answers_entropy(rows, chances) for x, (rows, chances) in enumerate(given)}
        weights = [data.draw(st.integers(1, 5)) for _ in given]
        shares = {x: weight / sum(weights) for x, weight in enumerate(weights)}
        values = []
        for T in (1, 2, 3):
            every = twins.ordered_partitions(3, T)
            least = sum(
                shares[x] * min(partition_bound(entropies[x], steps) for steps in every)
                for x in entropies
            )
            one = min(
                sum(shares[x] * partition_bound(entropies[x], steps) for x in entropies)
                for steps in every
            )
            assert theorem3(entropies, shares, 3, T) == pytest.approx(least, abs=1e-9)
            assert one_partition(entropies, shares, 3, T) == pytest.approx(one, abs=1e-9)
            assert least <= one + 1e-9
            values.append(least)
        assert values[0] >= values[1] - 1e-9 >= values[2] - 2e-9
        assert values[2] == pytest.approx(0, abs=1e-9)

    def test_choosing_per_input_is_worth_a_third_of_a_bit(self) -> None:
        """Two of three bits are equal, which two depends on the input: one partition in two steps
        meets them once.
        """
        free = [(0, 0), (0, 1), (1, 0), (1, 1)]
        inputs = {
            "left": [[a, a, b] for a, b in free],
            "right": [[a, b, b] for a, b in free],
            "ends": [[a, b, a] for a, b in free],
        }
        entropies = {x: answers_entropy(np.array(rows), [0.25] * 4) for x, rows in inputs.items()}
        shares = dict.fromkeys(inputs, 1 / 3)
        assert theorem3(entropies, shares, 3, 2) == pytest.approx(0)
        assert one_partition(entropies, shares, 3, 2) == pytest.approx(1 / 3)

    @pytest.mark.parametrize("T", [0, 4, 1.0])
    def test_step_counts_outside_are_refused(self, T: object) -> None:
        entropy = answers_entropy(np.array([[0, 1, 2]]))
        with pytest.raises(ValueError, match="T is the number of steps"):
            theorem3({0: entropy}, {0: 1.0}, 3, T)  # type: ignore[arg-type]
