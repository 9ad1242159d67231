"""Order statistics of a cell."""

from __future__ import annotations

import pytest

from pbcore.analysis.decoding_order import order_statistics
from pbcore.results import SampleRecord


def sample(steps: list[int], confidences: list[float]) -> SampleRecord:
    decoded = sum(step >= 0 for step in steps)
    return SampleRecord(0, "", {}, max(steps) + 1, decoded, decoded, steps=steps, confidences=confidences)


class TestOrderStatistics:
    def test_by_hand(self) -> None:
        """Tokens revealed per step and their confidence, given positions aside; means over samples."""
        found = order_statistics(
            [sample([0, 0, -1, 1], [0.9, 0.7, 0.0, 0.5]), sample([2, 1, 0, 0], [0.2, 0.4, 0.6, 0.8])]
        )
        assert found["tokens_by_step"] == [2.0, 1.0, 0.5]
        assert found["confidence_mean"] == pytest.approx((0.7 + 0.5) / 2)
        assert found["confidence_min"] == pytest.approx((0.5 + 0.2) / 2)
        assert found["max_tokens_in_step"] == 2
        assert found["kendall"] < found["leftmost_share"]

    def test_one_step(self) -> None:
        """All at once has no order, and says nothing of it."""
        found = order_statistics([sample([0, 0, 0], [1.0, 1.0, 1.0])])
        assert "kendall" not in found
        assert found["tokens_by_step"] == [3.0]
