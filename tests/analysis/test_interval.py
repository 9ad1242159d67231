"""pbcore.analysis.paired: intervals of paired differences hold what they promise."""

from __future__ import annotations

from functools import cache
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbcore.analysis.paired import interval, tango

Z2 = 3.841458820694124  # the square of the normal distribution's 97.5 % point
tango = cache(tango)


def binary(wrong: int, right: int, n: int) -> list[float]:
    return [-1.0] * wrong + [1.0] * right + [0.0] * (n - wrong - right)


def coverage(n: int, wrong: float, right: float) -> float:
    """The exact probability that the interval holds right − wrong, over all outcomes of n
    samples.
    """
    total = 0.0
    for b in range(n + 1):
        for c in range(n + 1 - b):
            low, high = tango(c, b, n)
            if low <= right - wrong <= high:
                chance = comb(n, b) * comb(n - b, c) * right**b * wrong**c
                total += chance * (1 - wrong - right) ** (n - b - c)
    return total


class TestTango:
    @pytest.mark.parametrize("n", [10, 16, 40])
    def test_its_coverage_is_what_it_promises(self, n: int) -> None:
        """Enumerated exactly: about 95 % on average, and not far below it for any rates of
        flips.
        """
        rates = [0.01, 0.05, 0.1, 0.2, 0.3, 0.45]
        covered = [coverage(n, wrong, right) for wrong in rates for right in rates]
        assert 0.95 <= np.mean(covered) <= 0.98
        assert min(covered) >= 0.94

    @given(st.integers(0, 20), st.integers(0, 20), st.integers(0, 60))
    def test_it_is_what_the_score_test_keeps(self, wrong: int, right: int, same: int) -> None:
        """It holds 0 exactly where McNemar's statistic (b − c)² / (b + c) is below z²; swapped runs
        mirror it.
        """
        n = wrong + right + same
        if n == 0:
            return
        low, high = tango(wrong, right, n)
        assert -1 <= low <= (right - wrong) / n <= high <= 1
        if abs((right - wrong) ** 2 - Z2 * (wrong + right)) > 1e-6:
            assert (low < 0 < high) == (
                (right - wrong) ** 2 < Z2 * (wrong + right)
            ) or not wrong + right
        mirrored = tango(right, wrong, n)
        assert mirrored == pytest.approx((-high, -low), abs=1e-9)

    def test_no_flips(self) -> None:
        """Nothing seen to change in n samples still leaves room for z²/(n + z²)."""
        assert tango(0, 0, 20) == pytest.approx((-Z2 / (20 + Z2), Z2 / (20 + Z2)))
        with pytest.raises(ValueError, match="whose sum is at most n"):
            tango(3, 2, 4)


class TestInterval:
    def test_graded_differences_are_covered(self) -> None:
        """Skewed differences with many zeros, 600 draws of 20 samples each: near 95 % hold the true
        mean.
        """
        rng = np.random.default_rng(1)

        def draw() -> list[float]:
            changed = rng.random(20) < 0.6
            return list(np.where(changed, rng.beta(1, 4, 20) - 0.1, 0.0))

        mean = 0.6 * (1 / 5 - 0.1)
        intervals = [interval(draw(), binary=False) for _ in range(600)]
        held = np.mean([low <= mean <= high for low, high in intervals])
        assert 0.92 <= held <= 0.98

    def test_without_any_difference_it_is_not_a_point(self) -> None:
        """Equal graded scores bound the share of samples that differ, and with it the mean; one
        sample says nothing.
        """
        assert interval([0.0] * 30, binary=False) == pytest.approx(tango(0, 0, 30))
        assert interval([0.4], binary=False) == (-1.0, 1.0)
        with pytest.raises(ValueError, match="at least one sample"):
            interval([], binary=True)

    def test_binary_ones_are_tangos(self) -> None:
        """Order doesn't matter: wrong ones are the negative differences."""
        assert interval([0.0, 1.0, -1.0, 1.0, 0.0], binary=True) == tango(1, 2, 5)
