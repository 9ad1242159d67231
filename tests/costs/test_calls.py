"""Sizes of calls: what they add up to, and how those of many answers are kept."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pbcore.costs.calls import CallShape, summed, tokens_forwarded, tokens_prefilled

SHAPES = st.builds(
    CallShape,
    st.integers(1, 9),
    st.integers(1, 300),
    st.integers(0, 2000),
    st.integers(0, 32),
    st.booleans(),
)
CALLS = st.dictionaries(SHAPES, st.integers(1, 50), max_size=40)


class TestSums:
    def test_by_hand(self) -> None:
        """Rows × tokens × how often; prefill is part of it."""
        calls = {CallShape(1, 8, prefill=True): 1, CallShape(3, 5, 8, 2): 4}
        assert (tokens_forwarded(calls), tokens_prefilled(calls)) == (68, 8)

    @given(answers=st.lists(CALLS, max_size=4))
    def test_few_shapes_are_kept_as_they_are(self, answers: list[dict[CallShape, int]]) -> None:
        """Answers' calls are added, shape by shape."""
        total = Counter[CallShape]()
        for calls in answers:
            for shape, times in calls.items():
                total[shape] += times
        assert summed(answers, most=200) == total

    @settings(deadline=None)
    @given(calls=st.dictionaries(SHAPES, st.integers(1, 50), min_size=20, max_size=90))
    def test_many_shapes_are_merged(self, calls: dict[CallShape, int]) -> None:
        """At most so many are left; no call is lost, none moves between prefill and the others."""
        merged = summed([calls], most=8)
        assert len(merged) <= 8
        for prefill in (False, True):
            before, after = (
                sum(times for shape, times in one.items() if shape.prefill is prefill)
                for one in (calls, merged)
            )
            assert before == after

    def test_merged_sizes_stay_close(self) -> None:
        """A growing context, one shape a token, keeps its sums within a percent."""
        calls = {CallShape(1, 1, context, 1): 1 for context in range(100, 1100)}
        merged = summed([calls])
        assert len(merged) == 64
        context = sum(shape.context * times for shape, times in merged.items())
        assert context == pytest.approx(sum(range(100, 1100)), rel=0.01)
        assert max(merged.values()) < 100
        assert tokens_forwarded(merged) == 1000
