"""How many questions rounds and proof have, and which."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbcore.analysis.noninferiority import questions_to_settle
from pbcore.extras.tune.questions import (
    discordance_of,
    kept,
    proof_questions,
    round_sizes,
    split,
)
from pbcore.extras.tune.race import FINALISTS

NUMBERS = st.lists(st.integers(0, 5000), unique=True, max_size=400).map(sorted)


@given(st.integers(1, 400), st.integers(1, 20))
def test_rounds(candidates: int, tasks: int) -> None:
    """Rounds grow while those that race become fewer, down to the four of the proof; who stays to
    the end answers about as many questions whatever the numbers are.
    """
    left = kept(candidates)
    sizes = round_sizes(candidates, tasks, 958)
    assert len(left) == len(sizes) == 0 or (left[-1], len(left)) == (FINALISTS, len(sizes))
    assert left == sorted(left, reverse=True)
    assert sizes == sorted(sizes)
    assert not sizes or 958 <= sum(sizes) * tasks <= 958 + len(sizes) * tasks
    assert bool(sizes) == (candidates > FINALISTS)


@given(
    st.lists(st.integers(1, 60), max_size=5),
    st.integers(1, 300),
    st.dictionaries(st.sampled_from("abcd"), st.none() | NUMBERS, min_size=1),
)
def test_no_question_twice(
    sizes: list[int], proof: int, known: dict[str, list[int] | None]
) -> None:
    """No question of a task is in two rounds, or in a round and the proof; all are questions of the
    task, rising; endless ones are as many as wanted, and of others at most a third race.
    """
    parts = split(sizes, proof, known)
    assert len(parts.rounds) == len(sizes)
    for task, numbers in known.items():
        rounds = [part[task] for part in parts.rounds]
        every = [number for part in (*rounds, parts.proof[task]) for number in part]
        assert len(every) == len(set(every))
        assert all(list(part) == sorted(part) for part in (*rounds, parts.proof[task]))
        if numbers is None:
            assert [len(part) for part in rounds] == sizes
            assert len(parts.proof[task]) == proof
            continue
        assert set(every) <= set(numbers)
        raced = sum(map(len, rounds))
        if int(len(numbers) / 3) >= len(sizes):
            assert all(rounds)
        assert raced <= len(numbers) / 3
        assert len(parts.proof[task]) == min(proof, len(numbers) - raced)


def test_a_split_of_data_is_a_draw() -> None:
    """The questions of a task whose data end are drawn, the same each time, and not the first ones:
    files are often sorted.
    """
    known: dict[str, list[int] | None] = {"a": list(range(300))}
    one = split([20, 40], 100, known)
    assert one == split([20, 40], 100, known)
    assert one.rounds[0]["a"] != tuple(range(20))
    assert one.rounds[0]["a"] != split([20, 40], 100, {"b": list(range(300))}).rounds[0]["b"]


class TestNeed:
    def test_is_that_of_the_test(self) -> None:
        """What the proof needs is what the test needs at Holm's first step of four."""
        wanted = questions_to_settle(0.05, 0.03, level=0.0125, power=0.95)
        assert proof_questions(0.05, 0.03) == wanted
        assert proof_questions(0.1, 0.03) > 1.5 * proof_questions(0.05, 0.03)

    @pytest.mark.parametrize("share", [0.02, 0.05, 0.1, 0.3])
    def test_and_back(self, share: float) -> None:
        """The discordance that so many questions hold is that which needs them."""
        assert discordance_of(proof_questions(share, 0.03), 0.03) == pytest.approx(share, abs=2e-3)

    def test_too_few(self) -> None:
        """Ten questions show nothing, whatever the answers are."""
        assert discordance_of(10, 0.03) == 0.0
