"""The expected accuracy by recursion, against trying every prediction and every order."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest

from pbcore.theory import problems
from pbcore.theory.accuracy import accuracy
from pbcore.theory.answers import answer_table
from pbcore.theory.canvas import EOS
from pbcore.theory.distributions import Listed, Shuffled
from pbcore.theory.problems import (
    ExchangeablePositions,
    NotExact,
    Problem,
    StepOutcome,
    at_random,
    everything,
    expected_accuracy,
    structure,
)
from pbcore.theory.shuffles import problem
from tests.theory import twins


def listed(op: str, n: int) -> Listed:
    rows = answer_table(op, n)
    return Listed((*map(str, range(int(rows.max()) + 1)), EOS), rows)


def blocks(count: int, size: int | None) -> np.ndarray:
    return np.arange(count) // (size or count)


def top_k(
    k: int, groups: Sequence[ExchangeablePositions], settled: int, step: int, size: int
) -> list[StepOutcome]:
    """Confidence top-k: settled positions first, then groups by their best chance."""
    known = min(k, settled)
    left = k - known
    counts = []
    for group in sorted(groups, reverse=True):
        counts.append(min(left, group.positions))
        left -= counts[-1]
    return [(1.0, tuple(counts), known)]


def threshold(
    gamma: float, groups: Sequence[ExchangeablePositions], settled: int, step: int, size: int
) -> list[StepOutcome]:
    passing = tuple(group.positions if group.chances[0] >= gamma else 0 for group in groups)
    if not settled and not any(passing):
        passing = (1, *[0] * (len(groups) - 1))
    return [(1.0, passing, settled)]


CASES = [
    ("shuffle", 3),
    ("shuffle", 4),
    ("shuffle_changed", 3),
    ("shuffle_changed", 4),
    ("replace_random", 4),
    ("insert_random", 3),
    ("remove_random", 4),
]
BLOCKED = [
    (*case, block)
    for case in CASES
    for block in (None, 2)
    if not listed(*case).length % (block or 1)
]


@pytest.mark.parametrize(
    ("op", "n", "heat"),
    [("replace_random", 8, 1.0), ("insert_random", 7, 0.5), ("shuffle", 4, 1.0)],
)
def test_outcomes_that_are_alike(
    op: str, n: int, heat: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Following them as one changes no value, whether it is done always or never."""

    def value(many: int) -> float:
        monkeypatch.setattr(problems, "MANY", many)
        rows = listed(op, n)
        return expected_accuracy(
            problem(rows, blocks(rows.length, None)),
            lambda groups, settled, step, size: at_random(
                min(4, settled + sum(group.positions for group in groups)), groups, settled
            ),
            heat,
        )

    assert 0 < value(0) == pytest.approx(value(10**9), abs=1e-12)


class TestAgainstTryingEverything:
    @pytest.mark.parametrize(("op", "n", "block"), BLOCKED)
    @pytest.mark.parametrize("heat", [0.0, 1.0])
    @pytest.mark.parametrize("k", [2, 3])
    def test_random(self, op: str, n: int, heat: float, block: int | None, k: int) -> None:
        """Any positions, each choice equally likely."""
        rows = listed(op, n)
        exact = expected_accuracy(
            problem(rows, blocks(rows.length, block)),
            lambda groups, settled, step, size: at_random(
                min(k, settled + sum(group.positions for group in groups)), groups, settled
            ),
            heat,
        )
        answers = [tuple(row) for row in rows.rows.tolist()]
        slow = twins.accuracy(
            answers, not heat, lambda place, conf, column: Fraction(0), lambda conf: k, block
        )
        assert exact == pytest.approx(slow, abs=1e-12)

    @pytest.mark.parametrize(("op", "n", "block"), BLOCKED)
    def test_greedy_confidence(self, op: str, n: int, block: int | None) -> None:
        """Top-k and threshold; only positions with equal probabilities are ever tied here."""
        rows = listed(op, n)
        answers = [tuple(row) for row in rows.rows.tolist()]

        def exact(counts: object) -> float:
            return expected_accuracy(problem(rows, blocks(rows.length, block)), counts, 0.0)  # type: ignore[arg-type]

        def slow(take: twins.Take) -> float:
            return twins.accuracy(answers, True, lambda place, conf, column: conf, take, block)

        for k in (1, 2, 3):
            expected = slow(lambda conf, k=k: k)  # type: ignore[misc]
            assert exact(lambda *seen, k=k: top_k(k, *seen)) == pytest.approx(expected, abs=1e-12)
        for gamma in (0.3, 0.45, 0.7):
            expected = slow(lambda conf, gamma=gamma: sum(c >= gamma for c in conf))  # type: ignore[misc]
            assert exact(lambda *seen, gamma=gamma: threshold(gamma, *seen)) == pytest.approx(
                expected, abs=1e-12
            )

    @pytest.mark.parametrize(
        "steps", [[[0, 1, 2, 3]], [[0, 3], [1, 2]], [[2], [0, 1, 3]], [[0], [1], [2], [3]]]
    )
    @pytest.mark.parametrize("op", ["shuffle", "shuffle_changed", "replace_random"])
    def test_fixed_partitions_are_sums_over_answers(self, op: str, steps: list[list[int]]) -> None:
        rows = listed(op, 4)
        parts = np.array([next(t for t, step in enumerate(steps) if i in step) for i in range(4)])
        exact = expected_accuracy(problem(rows, parts), lambda *seen: list(everything(*seen)), 1.0)
        sampled = twins.sampled([tuple(row) for row in rows.rows.tolist()], steps)
        assert exact == pytest.approx(sum(sampled.values()), abs=1e-12)


class TestShuffles:
    """Counting people equals listing their orders."""

    @staticmethod
    def counted(n: int, width: int, identity: bool, length: int) -> Shuffled:
        people = [tuple(f"{part}{i}" for part in "abc"[:width]) for i in range(n)]
        return Shuffled(people, length, identity=identity)

    @staticmethod
    def listed(counted: Shuffled) -> Listed:
        from pbcore.ceilings.table import listed_rows

        rows, words = listed_rows(counted)
        return Listed(tuple(words), rows)

    @pytest.mark.parametrize("identity", [True, False])
    @pytest.mark.parametrize(("n", "width"), [(2, 1), (3, 1), (3, 2), (4, 2), (3, 3)])
    @pytest.mark.parametrize("heat", [0.0, 0.7, 1.0])
    def test_random_positions(self, n: int, width: int, identity: bool, heat: float) -> None:
        counted = self.counted(n, width, identity, 16)
        for k in (2, 4, 8):
            for block in (16, 8, 4):
                parts = blocks(16, block)
                values = [
                    expected_accuracy(
                        problem(one, parts),
                        lambda groups, settled, step, size, k=k: at_random(  # type: ignore[misc]
                            min(k, settled + sum(group.positions for group in groups)),
                            groups,
                            settled,
                        ),
                        heat,
                    )
                    for one in (counted, self.listed(counted))
                ]
                assert values[0] == pytest.approx(values[1], abs=1e-12)

    @pytest.mark.parametrize("n", [4, 10, 40])
    def test_single_names_are_the_closed_form(self, n: int) -> None:
        """With the punctuation given, a shuffle of symbols is Eq. 5."""
        canvas = ['["', *[token for _ in range(n - 1) for token in (None, '", "')], None, '"]']
        one = Shuffled([(str(i),) for i in range(n)], len(canvas), canvas, identity=True)
        parts = np.zeros(len(canvas), dtype=np.int64)
        for k in (2, 3):
            value = expected_accuracy(problem(one, parts), lambda *seen, k=k: top_k(k, *seen), 0.0)  # type: ignore[misc]
            assert value == pytest.approx(accuracy("shuffle", n, f"confidence-k{k}"), rel=1e-12)

    def test_people_in_their_place_are_refused(self) -> None:
        given = ['["', "a0", '", "', None, '", "', None, '"]']
        one = Shuffled([("a0",), ("a1",), ("a2",)], 7, given, identity=True)
        with pytest.raises(NotExact, match="have their place"):
            problem(one, np.zeros(7, dtype=np.int64))


class TestStructure:
    def test_names_do_not_matter(self) -> None:
        """Other tokens, same answers; another number of answers differs."""
        one = listed("insert_random", 3)
        two = listed("insert_random", 3)
        other = Listed(
            (*reversed(two.vocabulary[:-1]), EOS),
            np.where(two.rows == 0, 1, np.where(two.rows == 1, 0, two.rows)),
        )
        assert structure(one) == structure(other)
        assert structure(one) != structure(listed("insert_random", 4))

    def test_where_eos_stands_matters(self) -> None:
        rows = np.array([[0, 1], [1, 0]])
        assert structure(Listed(("a", "b", EOS), rows)) != structure(Listed(("a", EOS), rows))


def test_settled_positions_slow_random_order_down() -> None:
    """Two equal tokens and one settled: k = 2 takes both open ones with probability 1/3, and is
    then half right.
    """
    rows = Listed(("a", "b", "c", EOS), np.array([[0, 0, 2], [1, 1, 2]]))
    one: Problem = problem(rows, np.zeros(3, dtype=np.int64))

    def two(
        groups: Sequence[ExchangeablePositions], settled: int, step: int, size: int
    ) -> list[StepOutcome]:
        return at_random(
            min(2, settled + sum(group.positions for group in groups)), groups, settled
        )

    assert expected_accuracy(one, two, 1.0) == pytest.approx(2 / 3 + 1 / 3 / 2)
