"""Order statistics of a cell."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbcore.analysis.decoding import kendall, order_statistics, v1_correlations
from pbcore.results import SampleRecord


def sample(steps: list[int], confidences: list[float]) -> SampleRecord:
    decoded = sum(step >= 0 for step in steps)
    return SampleRecord(
        0, "", {}, max(steps) + 1, decoded, decoded, steps=steps, confidences=confidences
    )


class TestV1Correlations:
    def test_steps_in_order_have_one(self) -> None:
        """However many tokens a step: unlike τ-b against positions, ties in place cost nothing."""
        assert v1_correlations([0, 0, 1, 1]) == pytest.approx(
            {"dec_order_kendall": 1, "dec_order_spearman": 1}
        )
        assert kendall([0, 0, 1, 1]) == pytest.approx((4 / 6) ** 0.5)

    def test_reversed(self) -> None:
        """One token a step from the right has −1; given positions don't count."""
        assert v1_correlations([2, -1, 1, 0]) == pytest.approx(
            {"dec_order_kendall": -1, "dec_order_spearman": -1}
        )

    def test_undefined(self) -> None:
        """All in one step has no order."""
        assert v1_correlations([0, 0, -1]) == {}

    @given(st.lists(st.integers(-1, 6), min_size=2, max_size=20))
    def test_by_pairs(self, steps: list[int]) -> None:
        """τ-b counted pair by pair, between the steps and the same steps sorted, whose ties are as
        many.
        """
        decoded = [step for step in steps if step >= 0]
        pairs = list(combinations(zip(decoded, sorted(decoded), strict=True), 2))
        signs = [
            ((a[0] > b[0]) - (a[0] < b[0])) * ((a[1] > b[1]) - (a[1] < b[1])) for a, b in pairs
        ]
        untied = sum(a[0] != b[0] for a, b in pairs)
        found = v1_correlations(steps).get("dec_order_kendall")
        assert found == (pytest.approx(sum(signs) / untied) if untied else None)


class TestOrderStatistics:
    def test_by_hand(self) -> None:
        """Tokens revealed per step and their confidence, given positions aside; means over
        samples.
        """
        found = order_statistics(
            [
                sample([0, 0, -1, 1], [0.9, 0.7, 0.0, 0.5]),
                sample([2, 1, 0, 0], [0.2, 0.4, 0.6, 0.8]),
            ]
        )
        assert found["tokens_by_step"] == [2.0, 1.0, 0.5]
        assert found["confidence_mean"] == pytest.approx((0.7 + 0.5) / 2)
        assert found["confidence_min"] == pytest.approx((0.5 + 0.2) / 2)
        assert found["max_tokens_in_step"] == 2
        assert found["kendall"] < found["leftmost_share"]
        first = 1.0
        second = v1_correlations([2, 1, 0, 0])["dec_order_kendall"]
        assert found["dec_order_kendall"] == pytest.approx((first + second) / 2)

    def test_answers_without_steps_are_left_out(self) -> None:
        """Wherever they stand, the others' statistics are the same."""
        bare = SampleRecord(0, "", {}, 1, 4, 4)
        recorded = [sample([0, 1, 1], [0.9, 0.8, 0.7]), sample([1, 0, 2], [0.6, 0.5, 0.4])]
        expected = order_statistics(recorded)
        assert (
            order_statistics([bare, *recorded])
            == order_statistics([recorded[0], bare, recorded[1]])
            == expected
        )

    def test_one_step(self) -> None:
        """All at once has no order, and says nothing of it."""
        found = order_statistics([sample([0, 0, 0], [1.0, 1.0, 1.0])])
        assert "kendall" not in found
        assert found["tokens_by_step"] == [3.0]
