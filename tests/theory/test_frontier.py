from itertools import pairwise, permutations
from math import ceil, log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pbcore.base.errors import InputError
from pbcore.theory import accuracy, optimal_bound, total_correlation
from pbcore.theory.answers import answer_table, positions
from pbcore.theory.enumerated import Enumerated
from pbcore.theory.frontier import (
    ALIKE,
    accuracy_hull,
    best_accuracy,
    frontier_of,
    least_bits,
    states,
    steps_for,
    value_at,
)
from pbcore.theory.knowledge import PlaceAmongNeighbours, Replace, Shuffle, States
from tests.theory import strategies, twins

SMALL = [
    ("shuffle", 2),
    ("shuffle", 3),
    ("shuffle", 4),
    ("shuffle_changed", 3),
    ("replace_random", 2),
    ("replace_random", 3),
    ("replace_random", 4),
    ("insert_random", 1),
    ("insert_random", 2),
    ("insert_random", 3),
    ("remove_random", 3),
    ("remove_random", 4),
    ("remove_random", 5),
    ("latin_square", 2),
]
KINDS = [(greedy, seen) for greedy in (False, True) for seen in (False, True)]


def fewest_bits(op: str, n: int, T: int, *, seen: bool = False) -> float:
    """The bits that every sampler of its kind loses in T steps, random orders included: by Jensen
    KL = −E log₂(q(y) A) ≥ −log₂ Σ q(y) over the A valid answers y. Equality needs the same q for
    all, which a random exchange of positions and names brings about for the operations in `ALIKE`.
    """
    return max(0.0, -log2(best_accuracy(op, n, T, seen=seen)))


def listed(op: str, n: int) -> list[tuple[int, ...]]:
    return [tuple(row) for row in answer_table(op, n).tolist()]


class TestAgainstExhaustiveSearch:
    @pytest.mark.parametrize(("op", "n"), SMALL)
    @pytest.mark.parametrize(("greedy", "seen"), KINDS)
    def test_accuracy_in_T_steps(self, op: str, n: int, greedy: bool, seen: bool) -> None:
        """Equal to trying everything on every canvas, for each number of steps."""
        answers = listed(op, n)
        for T in range(1, positions(op, n) + 1):
            assert best_accuracy(op, n, T, greedy=greedy, seen=seen) == pytest.approx(
                strategies.best(answers, greedy, seen, 0.0, T), abs=1e-12
            )

    @pytest.mark.parametrize(("op", "n"), SMALL)
    @pytest.mark.parametrize(("greedy", "seen"), KINDS)
    @given(price=st.floats(0.001, 0.9))
    @settings(max_examples=6)
    def test_accuracy_over_mean_steps(
        self, op: str, n: int, greedy: bool, seen: bool, price: float
    ) -> None:
        """At any price per step the hull's best corner is worth what the search finds."""
        hull = accuracy_hull(op, n, greedy=greedy, seen=seen)
        worth = max(value - price * steps for steps, value in hull)
        assert worth == pytest.approx(strategies.best(listed(op, n), greedy, seen, price), abs=1e-9)

    @pytest.mark.parametrize(
        ("op", "n", "T"),
        [
            ("shuffle", 3, 2),
            ("replace_random", 3, 3),
            ("insert_random", 2, 3),
            ("remove_random", 4, 2),
            ("shuffle", 3, 3),
        ],
    )
    def test_bits_of_every_decision_tree(self, op: str, n: int, T: int) -> None:
        """None of them loses less than `least_bits`, and one loses as much."""
        answers = listed(op, n)
        lost = [strategies.divergence(answers, tree) for tree in strategies.trees(answers, T)]
        assert min(lost) == pytest.approx(least_bits(op, n, T), abs=1e-9)

    def test_latin_squares_in_two_steps(self) -> None:
        """Side 3: the best of all 511 first steps, after which the rest is revealed together."""
        answers = listed("latin_square", 3)
        found = []
        for first in strategies.subsets(range(9)):
            rest = [place for place in range(9) if place not in first]
            found.append(twins.sampled(answers, [first, rest] if rest else [first]))
        assert best_accuracy("latin_square", 3, 2) == pytest.approx(
            max(sum(tree.values()) for tree in found)
        )
        assert least_bits("latin_square", 3, 2) == pytest.approx(
            min(strategies.divergence(answers, t) for t in found)
        )

    @pytest.mark.parametrize(("op", "n", "T"), [("replace_random", 3, 2), ("shuffle", 3, 2)])
    def test_random_orders_reach_the_fewest_bits(self, op: str, n: int, T: int) -> None:
        """The best tree, its positions exchanged at random: the mixture is uniform and loses −log₂
        of its accuracy.
        """
        answers = listed(op, n)
        tree = max(strategies.trees(answers, T), key=lambda tree: sum(tree.values()))
        mixture = dict.fromkeys(answers, 0.0)
        for order in permutations(range(n)):
            for answer in answers:
                moved = _exchanged(op, answer, order)
                mixture[answer] += tree[moved] / len(list(permutations(range(n))))
        assert sum(mixture.values()) == pytest.approx(best_accuracy(op, n, T))
        assert strategies.divergence(answers, mixture) == pytest.approx(
            fewest_bits(op, n, T), abs=1e-9
        )


def _exchanged(op: str, answer: tuple[int, ...], order: tuple[int, ...]) -> tuple[int, ...]:
    """An answer with its positions exchanged; replaced lists keep each item at its own position's
    name.
    """
    if op == "shuffle":
        return tuple(answer[i] for i in order)
    new = order.index(answer.index(len(answer)))
    return tuple(len(answer) if i == new else i for i in range(len(answer)))


class TestCountedStates:
    @pytest.mark.parametrize(
        ("op", "n", "counted"),
        [
            ("shuffle", 4, Shuffle(4)),
            ("replace_random", 7, Replace(7)),
            ("insert_random", 5, PlaceAmongNeighbours(6, True)),
            ("remove_random", 7, PlaceAmongNeighbours(7, False)),
        ],
    )
    def test_numbers_stand_for_sets_of_answers(self, op: str, n: int, counted: States) -> None:
        """The frontiers are those of listed answers, where no two states are one."""
        table = Enumerated(answer_table(op, n))
        for greedy, seen in KINDS:
            expected = frontier_of(table, 5, greedy=greedy, seen=seen)
            found = frontier_of(counted, 5, greedy=greedy, seen=seen)
            assert np.allclose(found, expected)

    def test_draws_add_up(self) -> None:
        """The chances of all predictions are 1 together, in each state."""
        for known in (
            states("shuffle", 9),
            states("replace_random", 6),
            states("insert_random", 5),
            Enumerated(np.eye(3)),
        ):
            for greedy in (False, True):
                draws = known.draws(known.start, greedy)
                assert sum(draw.chance for draw in draws) == pytest.approx(1)


class TestShape:
    @pytest.mark.parametrize(
        ("op", "n"),
        [("shuffle", 12), ("replace_random", 12), ("insert_random", 6), ("latin_square", 3)],
    )
    def test_more_steps_never_hurt(self, op: str, n: int) -> None:
        """Accuracy rises to 1 and loss falls to 0 (Remark 2), from the total correlation."""
        count = positions(op, n)
        right = [best_accuracy(op, n, T) for T in range(1, count + 1)]
        lost = [least_bits(op, n, T) for T in range(1, count + 1)]
        assert all(a <= b + 1e-12 for a, b in pairwise(right))
        assert right[-1] == pytest.approx(1)
        assert all(a >= b - 1e-12 for a, b in pairwise(lost))
        assert lost[-1] == pytest.approx(0, abs=1e-9)
        assert lost[0] == pytest.approx(total_correlation(op, n))

    @pytest.mark.parametrize(
        ("op", "n"),
        [("shuffle", 9), ("replace_random", 9), ("insert_random", 4), ("remove_random", 6)],
    )
    def test_the_bounds_are_in_order(self, op: str, n: int) -> None:
        """Adapting the order can save bits over fixed partitions, drawing it at random more, seeing
        the tokens more.
        """
        for T in range(1, positions(op, n) + 1):
            fixed = optimal_bound(op, n, T)
            adapted = least_bits(op, n, T)
            assert fixed >= adapted - 1e-9
            assert adapted >= fewest_bits(op, n, T) - 1e-9
            assert fewest_bits(op, n, T) >= fewest_bits(op, n, T, seen=True) - 1e-9

    @pytest.mark.parametrize("greedy", [False, True])
    @given(
        n=st.integers(2, 16),
        k=st.integers(1, 16),
        op=st.sampled_from(["shuffle", "replace_random"]),
    )
    def test_no_sampler_is_above(self, greedy: bool, n: int, k: int, op: str) -> None:
        """Closed forms of random and confidence top-k stay below their frontiers at their number of
        steps.
        """
        steps = ceil(n / k)
        heat = "" if greedy else "+t1.0"
        assert (
            accuracy(op, n, f"random-k{k}{heat}")
            <= best_accuracy(op, n, steps, greedy=greedy) + 1e-9
        )
        assert (
            accuracy(op, n, f"confidence-k{k}{heat}")
            <= best_accuracy(op, n, steps, greedy=greedy, seen=True) + 1e-9
        )

    @pytest.mark.parametrize(
        ("op", "n"),
        [("shuffle", 8), ("replace_random", 8), ("insert_random", 4), ("remove_random", 7)],
    )
    def test_hulls_hold_every_number_of_steps(self, op: str, n: int) -> None:
        """A hull is concave and no lower than the best of T steps; its first corner is one step."""
        for greedy, seen in KINDS:
            hull = accuracy_hull(op, n, greedy=greedy, seen=seen)
            assert hull[0] == pytest.approx((1, best_accuracy(op, n, 1, greedy=greedy)))
            slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in pairwise(hull)]
            assert all(slope > 0 for slope in slopes)
            assert all(a > b for a, b in pairwise(slopes))
            for steps in (1.0, 1.3, hull[-1][0]):
                assert steps_for(hull, value_at(hull, steps)) == pytest.approx(
                    min(steps, hull[-1][0])
                )
            for T in range(1, positions(op, n) + 1):
                assert value_at(hull, T) >= best_accuracy(op, n, T, greedy=greedy, seen=seen) - 1e-9


class TestKnownValues:
    def test_shuffle_is_the_best_partition(self) -> None:
        """What was revealed tells nothing about where to go on, so partitions by size are as good
        as anything.
        """
        for T in range(1, 11):
            assert least_bits("shuffle", 10, T) == pytest.approx(optimal_bound("shuffle", 10, T))
            assert fewest_bits("shuffle", 10, T) == pytest.approx(optimal_bound("shuffle", 10, T))

    def test_greedy_lists_need_two_steps(self) -> None:
        """All but one token, then the last: greedy replace_random and insert_random are right; in
        one step never.
        """
        for op in ("replace_random", "insert_random"):
            assert best_accuracy(op, 10, 1, greedy=True) == 0
            assert best_accuracy(op, 10, 2, greedy=True) == 1

    def test_places_are_found_by_bisection(self) -> None:
        """log₂ of the number of places is enough to place one item without loss."""
        assert least_bits("insert_random", 6, 3) == pytest.approx(0, abs=1e-12)
        assert least_bits("insert_random", 6, 2) > 0.5
        assert least_bits("remove_random", 8, 3) == pytest.approx(0, abs=1e-12)

    def test_one_answer_takes_one_step(self) -> None:
        """Nothing is lost."""
        for op in ("copy", "sudoku"):
            assert accuracy_hull(op, 4) == ((1.0, 1.0),)
            assert best_accuracy(op, 4, 1) == 1
            assert least_bits(op, 4, 1) == 0

    def test_a_right_pair_of_words(self) -> None:
        """The docs' cities: New York, New Orleans, Mexico City, Panama City; half right in one
        step, a bit is lost.
        """
        cities = np.array([[0, 0], [0, 1], [1, 2], [2, 2]])
        one_step, two_steps = frontier_of(Enumerated(cities), 2)
        assert (one_step, two_steps) == pytest.approx((0.5, 1.0))
        assert -log2(one_step) == pytest.approx(1)


class TestRefusals:
    @pytest.mark.parametrize(
        ("op", "n", "said"),
        [
            ("shuffle", 41, "up to n = 40"),
            ("insert_random", 13, "up to n = 12"),
            ("latin_square", 4, "up to n = 3"),
            ("x", 2, "unknown"),
        ],
    )
    def test_too_many_items(self, op: str, n: int, said: str) -> None:
        """The error names the limit."""
        with pytest.raises(InputError, match=said):
            best_accuracy(op, n, 2)

    def test_bad_steps_and_tables(self) -> None:
        """Steps are whole numbers; listed answers fit a machine word."""
        with pytest.raises(InputError, match="at least 1, not 0"):
            best_accuracy("shuffle", 3, 0)
        with pytest.raises(InputError, match="at most 62"):
            Enumerated(np.arange(70)[:, None])
        with pytest.raises(ValueError, match="at least 1"):
            value_at(accuracy_hull("shuffle", 3), 0.5)

    def test_which_tasks_are_alike(self) -> None:
        """Every answer of these has the same probability under the best random order; the docs name
        them.
        """
        assert ALIKE == ("shuffle", "replace_random", "latin_square")
