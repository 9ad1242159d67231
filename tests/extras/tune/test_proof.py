"""Samplers beside the reference on the same questions, and what the proof says of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from pbcore.analysis.beside import Beside, CellAnswers, beside
from pbcore.extras.tune.answers import Round, beside_reference, standing_of
from pbcore.extras.tune.proof import recommended, trials
from tests.results import factory


def answers(scores: Sequence[float], cost: float, first: int = 0, task: str = "t") -> CellAnswers:
    numbered = {first + number: score for number, score in enumerate(scores)}
    record, _ = factory.cell(task=f"made/{task}")
    return CellAnswers(
        replace(record, task=task), numbered, {"calls": dict.fromkeys(numbered, cost)}
    )


def lost(count: int, n: int = 300, cost: float = 0.5, name: str = "a") -> Beside:
    """One that lost so many answers on the first of two tasks."""
    right = [0.0] * count + [1.0] * (n - count)
    cells = [(answers(right, cost, task="one"), answers([1.0] * n, 1, task="one"))]
    cells.append((answers([1.0] * n, cost, task="two"), answers([1.0] * n, 1, task="two")))
    own = beside(name, cells, "calls")
    assert own is not None
    return own


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
        one = beside_reference("a", "base", rounds, "calls")
        assert one is not None
        assert list(one.by_task) == ["t"]
        assert one.differences == ((0.0, -1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0),)
        assert one.cost_share == pytest.approx((2 * 2 + 6 * 6) / (2 * 10 + 6 * 30))
        assert one.questions == 8

    def test_mean_over_tasks(self) -> None:
        """Each task counts the same, however many questions it has."""
        cells = [(answers([0, 1], 1), answers([1, 1], 2))]
        cells.append((answers([1] * 8, 1, task="u"), answers([1] * 8, 2, task="u")))
        one = beside("a", cells)
        assert one is not None
        assert one.change == -0.25
        assert one.discordance == 0.25
        assert one.bound < one.change

    def test_without_common_questions(self) -> None:
        alone = Round({"base": {"t": answers([1], 1)}}, {})
        assert beside_reference("a", "base", [alone], "calls") is None

    def test_standing_tells_both_sides(self) -> None:
        """Few flips show that it is good, many that it is bad; neither shows both."""
        good = standing_of(lost(0), "base", [], 0.03)
        bad = standing_of(lost(100), "base", [], 0.03)
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
        assert near.needed > inside.questions
        assert far.needed is None
