"""pbcore.analysis.oracle and decoding."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbcore.analysis import block_slope, oracle, parallelizability
from pbcore.analysis.decoding import kendall, leftmost_share, order_statistics
from pbcore.results import SampleRecord


def sample(index: int, right: float, nfe: int, steps: list[int] | None = None) -> SampleRecord:
    return SampleRecord(
        index, "", {"accuracy": right}, nfe, 32, len(steps or []), steps=steps or []
    )


class TestOracle:
    def test_by_hand(self) -> None:
        """Best score first, then fewest steps: sample 0 takes the fast threshold, sample 1 the one
        that is right, sample 2 the fastest.
        """
        runs = {
            "threshold-0.9": [sample(0, 1, 8), sample(1, 1, 16), sample(2, 0, 16)],
            "threshold-0.5": [sample(0, 1, 4), sample(1, 0, 4), sample(2, 0, 2)],
        }
        found = oracle(runs, "accuracy")
        assert found.choices == {0: "threshold-0.5", 1: "threshold-0.9", 2: "threshold-0.5"}
        assert (found.score, found.nfe) == (pytest.approx(200 / 3), pytest.approx(22 / 3))
        assert found.tokens_per_step == pytest.approx((8 + 2 + 16) / 3)

    @given(
        st.lists(
            st.lists(st.tuples(st.integers(0, 1), st.integers(1, 32)), min_size=4, max_size=4),
            min_size=1,
            max_size=5,
        )
    )
    def test_no_sampler_beats_it(self, table: list[list[tuple[int, int]]]) -> None:
        """The oracle's score is at least every sampler's, and of those with its score on every
        sample none is faster.
        """
        runs = {
            f"threshold-{i}": [sample(j, right, nfe) for j, (right, nfe) in enumerate(row)]
            for i, row in enumerate(table)
        }
        found = oracle(runs, "accuracy")
        best = [max(row[j][0] for row in table) for j in range(4)]
        assert found.score == pytest.approx(100 * sum(best) / 4)
        assert found.nfe == pytest.approx(
            sum(min(row[j][1] for row in table if row[j][0] == best[j]) for j in range(4)) / 4
        )

    def test_unlike_samples(self) -> None:
        """Samplers run on other samples can't be compared."""
        with pytest.raises(ValueError, match="other samples"):
            oracle({"a": [sample(0, 1, 1)], "b": [sample(1, 1, 1)]}, "accuracy")
        with pytest.raises(ValueError, match="no score 'grammar'"):
            oracle({"a": [sample(0, 1, 1)]}, "grammar")
        with pytest.raises(ValueError, match="no score 'accuracy' for some samples"):
            oracle({"a": [sample(0, 1, 1), replace(sample(1, 1, 1), scores={})]}, "accuracy")
        with pytest.raises(ValueError, match="at least one"):
            oracle({}, "accuracy")


class TestParallelizability:
    def test_by_hand(self) -> None:
        """A task solved only one token at a time has 1; one that never suffers over k = 1, 2, 4 has
        7/3; one never solved none.
        """
        assert parallelizability({1: 1.0, 2: 0.0, 4: 0.0}) == 1
        assert parallelizability({1: 0.9, 2: 0.9, 4: 0.9}) == pytest.approx(7 / 3)
        assert parallelizability({1: 0.0}) is None
        with pytest.raises(ValueError, match="k >= 1"):
            parallelizability({0: 1.0})

    def test_slope(self) -> None:
        """10 points better per halving of the block is a slope of +10."""
        assert block_slope({2: 80, 4: 70, 8: 60}) == pytest.approx(10)
        with pytest.raises(ValueError, match="two block lengths"):
            block_slope({2: 80})


class TestOrder:
    def test_kendall_by_hand(self) -> None:
        """Left to right 1, right to left −1, one step undefined; given positions don't count."""
        assert kendall([0, 1, 2]) == pytest.approx(1)
        assert kendall([2, 1, 0]) == pytest.approx(-1)
        assert kendall([0, 0, 0]) is None
        assert kendall([-1, 3]) is None
        assert kendall([0, -1, 1, -1, 2]) == pytest.approx(1)

    @given(st.lists(st.integers(0, 6), min_size=2, max_size=20))
    def test_kendall_by_pairs(self, steps: list[int]) -> None:
        """τ-b counted pair by pair."""
        pairs = [
            (steps[j] > steps[i]) - (steps[j] < steps[i])
            for i in range(len(steps))
            for j in range(i + 1, len(steps))
        ]
        untied = sum(pair != 0 for pair in pairs)
        expected = sum(pairs) / (untied * len(pairs)) ** 0.5 if untied else None
        assert kendall(steps) == (None if expected is None else pytest.approx(expected))

    def test_leftmost_share(self) -> None:
        """1 from left to right, also in blocks of several a step; from the right only the last
        token is the leftmost.
        """
        assert leftmost_share([0, 0, 1, 1]) == 1
        assert leftmost_share([3, 2, 1, 0]) == 0.25
        assert leftmost_share([-1, -1]) is None

    def test_statistics(self) -> None:
        """Means over the samples for which each is defined; the answer part ends at the first EOS;
        nothing recorded, nothing said.
        """
        records = [
            SampleRecord(0, "", {}, 3, 4, 2, steps=[0, 1, 2, 2]),
            SampleRecord(1, "", {}, 1, 2, 2, steps=[0, 0]),
        ]
        found = order_statistics(records)
        assert found["kendall_answer"] == pytest.approx(1)
        assert found["max_tokens_in_step"] == 2
        assert order_statistics([sample(0, 1, 1)]) == {}
