"""pbcore.results.stats: the interval of a graded mean covers, is not much wider than Student's, and
repeats.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from benches.check_statistics import PROMISED, SIZES, SOURCES, Source, coverage
from pbcore.results.stats import graded_interval, score_of, wilson

values = st.lists(st.floats(0, 1), min_size=1, max_size=40)


def check(source: Source, n: int, draws: int) -> None:
    """93 % are held, in at most 1.25 times Student's width where Student's t holds 93 % itself."""
    found = coverage(source, n, draws)
    assert found.held >= 0.93
    assert found.students < 0.93 or found.width <= 1.25


class TestCoverage:
    @pytest.mark.parametrize("n", SIZES)
    @pytest.mark.parametrize("source", PROMISED, ids=lambda source: source.name)
    def test_promised(self, source: Source, n: int) -> None:
        """2,000 draws each, seeded: a standard error is half a point."""
        check(source, n, 2000)

    @pytest.mark.nightly
    @pytest.mark.parametrize("n", SIZES)
    @pytest.mark.parametrize("source", PROMISED, ids=lambda source: source.name)
    def test_promised_with_many_draws(self, source: Source, n: int) -> None:
        """As many as `benches/check_statistics.py` draws."""
        check(source, n, 20_000)

    @pytest.mark.parametrize("source", SOURCES[len(PROMISED) :], ids=lambda source: source.name)
    def test_others(self, source: Source) -> None:
        """At 16 samples 93 % also of rarer mistakes, skewed scores and differences."""
        assert coverage(source, 16, 2000).held >= 0.93


class TestGradedInterval:
    @given(values)
    def test_holds_the_mean_within_the_bounds(self, values: list[float]) -> None:
        """In [0, 1], around the mean, never a point, the same again and for any order."""
        low, high = graded_interval(values)
        mean = float(np.mean(values))
        assert 0 <= low <= mean + 1e-9
        assert mean - 1e-9 <= high <= 1
        assert low < high
        assert graded_interval(values) == (low, high)
        assert graded_interval(values[::-1]) == pytest.approx((low, high))

    @given(values)
    def test_mirrored_values_have_the_mirrored_interval(self, values: list[float]) -> None:
        """1 − x has the interval from 1 − high to 1 − low, and −x that of differences."""
        mirrored = [1 - round(value, 3) for value in values]
        low, high = graded_interval([1 - value for value in mirrored])
        assert graded_interval(mirrored) == pytest.approx((1 - high, 1 - low), abs=1e-6)
        assert graded_interval([-value for value in mirrored], -1.0, 0.0) == pytest.approx(
            (low - 1, high - 1), abs=1e-6
        )

    @pytest.mark.parametrize("n", [2, 8, 40])
    def test_all_right_is_wilsons(self, n: int) -> None:
        """A graded score that is 1 everywhere is as sure as a binary one, no surer."""
        assert graded_interval([1.0] * n) == pytest.approx(wilson(n, n))
        assert score_of("rouge_l", [1.0] * n).low == pytest.approx(wilson(n, n)[0])

    def test_symmetric_values_have_students(self) -> None:
        """Without skewness it is Student's t interval."""
        data = [0.3, 0.4, 0.5, 0.6, 0.7]
        known = stats.t.interval(0.95, 4, loc=0.5, scale=np.std(data, ddof=1) / math.sqrt(5))
        assert graded_interval(data) == pytest.approx(known)

    def test_the_longer_tail_has_the_longer_side(self) -> None:
        """Scores with rare low ones may well have a lower mean than they show."""
        low, high = graded_interval([0.9, 0.91, 0.92, 0.93, 0.94, 0.95, 0.6])
        mean = np.mean([0.9, 0.91, 0.92, 0.93, 0.94, 0.95, 0.6])
        assert mean - low > 1.2 * (high - mean)

    def test_a_single_value_says_nothing(self) -> None:
        """One sample has no spread: all of the range."""
        assert graded_interval([0.25]) == (0, 1)
        with pytest.raises(ValueError, match="at least one value"):
            graded_interval([])
