"""Samplers beside the reference on the same questions, and what the proof says of them."""

from __future__ import annotations

import pytest

from pbcore.extras.tune.answers import BesideReference, CellAnswers, Round, beside_reference
from pbcore.extras.tune.proof import recommended, trials


def answers(scores: list[float], cost: float, first: int = 0) -> CellAnswers:
    numbered = {first + number: score for number, score in enumerate(scores)}
    return CellAnswers(numbered, cost, cost, 2 * cost)


def lost(count: int, n: int = 300, cost: float = 0.5, name: str = "a") -> BesideReference:
    """One that lost so many answers on the first of two tasks."""
    first = (-1.0,) * count + (0.0,) * (n - count)
    return BesideReference(name, {"one": first, "two": (0.0,) * n}, cost, cost, cost, None)


class TestPaired:
    def test_over_rounds(self) -> None:
        """Differences of all rounds that both ran, by task; costs are weighed by questions, task by
        task, and divided by the reference's on the same questions.
        """
        rounds = [
            Round({"base": {"t": answers([1, 1], 10)}, "a": {"t": answers([1, 0], 2)}}, {}),
            Round({"base": {"t": answers([0] * 6, 30, 2)}, "a": {"t": answers([1] * 6, 6, 2)}}, {}),
            Round({"base": {"t": answers([1], 99, 8)}}, {}),
        ]
        one = beside_reference("a", "base", rounds)
        assert one is not None
        assert one.differences == {"t": (0.0, -1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0)}
        assert one.cost == pytest.approx((2 * 2 + 6 * 6) / (2 * 10 + 6 * 30))
        assert one.n == 8

    def test_mean_over_tasks(self) -> None:
        """Each task counts the same, however many questions it has."""
        one = BesideReference("a", {"t": (-1.0, 0.0), "u": (0.0,) * 8}, 0.5, None, None, None)
        assert one.change == -0.25
        assert one.discordance == 0.25
        assert one.lower < one.change

    def test_without_common_questions(self) -> None:
        assert beside_reference("a", "base", [Round({"base": {"t": answers([1], 1)}}, {})]) is None

    def test_standing_tells_both_sides(self) -> None:
        """Few flips show that it is good, many that it is bad; neither shows both."""
        good = lost(0).standing(0.03)
        bad = lost(100).standing(0.03)
        assert good.p_loss < 0.001 < 0.9 < good.p_good
        assert bad.p_good < 0.001 < 0.9 < bad.p_loss


class TestProof:
    def test_the_fastest_confirmed(self) -> None:
        """The fastest that is confirmed, not the fastest, nor the best."""
        tried = trials(
            [lost(60, cost=0.1, name="fast"), lost(2, cost=0.3, name="good"), lost(0, cost=0.6)],
            0.03,
        )
        assert [trial.confirmed for trial in tried] == [False, True, True]
        best = recommended(tried)
        assert best is not None
        assert best.sampler == "good"

    def test_slower_than_the_reference_is_no_gain(self) -> None:
        """One that is confirmed and costs more isn't recommended."""
        assert recommended(trials([lost(0, cost=1.2)], 0.03)) is None

    def test_holm(self) -> None:
        """The same sampler is confirmed alone, and not beside three that fail."""
        count = next(c for c in range(60) if trials([lost(c)], 0.03)[0].p > 0.0125)
        alone = trials([lost(count)], 0.03)
        four = trials([lost(count), *(lost(90, name=name) for name in "bcd")], 0.03)
        assert alone[0].confirmed
        assert not four[0].confirmed
        assert four[0].p == pytest.approx(4 * alone[0].p)

    def test_names_the_tasks(self) -> None:
        """The task with the loss limits it, and is named as worse once that is shown."""
        [some] = trials([lost(3)], 0.03)
        [many] = trials([lost(12)], 0.03)
        assert (some.limits, many.limits) == ("one", "one")
        assert (some.worse, many.worse) == ((), ("one",))

    def test_how_many_would_do(self) -> None:
        """A loss inside the margin needs more questions, one outside never gets there."""
        inside = lost(4, n=100)
        outside = lost(20, n=100)
        [near] = trials([inside], 0.03)
        [far] = trials([outside], 0.03)
        assert not near.confirmed
        assert near.needed is not None
        assert near.needed > inside.n
        assert far.needed is None
