"""pbcore.analysis.paired: exact tests against obvious ones, and what they can see."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from math import comb
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from benches.check_statistics import DROP, NULLS, Source, found
from pbcore.analysis.paired import (
    compare,
    detectable_drop,
    detectable_shift,
    graded_drop,
    holm,
    mcnemar,
    permutation_p,
    power,
    skewed_t,
)


class TestMcnemar:
    def test_figures(self) -> None:
        """One-sided p < .05 needs b ≥ 5 at c = 0, ≥ 7 at c = 1, ≥ 9 at c = 2."""
        for c, least in ((0, 5), (1, 7), (2, 9)):
            assert mcnemar(least, c) < 0.05 <= mcnemar(least - 1, c)

    @given(st.integers(0, 40), st.integers(0, 40))
    def test_by_fractions(self, b: int, c: int) -> None:
        """The binomial tail in exact fractions."""
        exact = sum(Fraction(comb(b + c, k), 2 ** (b + c)) for k in range(b, b + c + 1))
        assert mcnemar(b, c) == pytest.approx(float(exact))


class TestPermutation:
    @given(st.lists(st.integers(-9, 9), max_size=7), st.sampled_from([0.1, 1e-4]))
    def test_by_all_sign_patterns(self, values: list[int], unit: float) -> None:
        """Equal to counting every pattern of signs, down to differences of the resolution
        itself.
        """
        losses = [abs(value) for value in values]
        seen = sum(-value for value in values if value < 0)
        patterns = [
            sum(loss for loss, sign in zip(losses, signs, strict=True) if sign)
            for signs in product((0, 1), repeat=len(losses))
        ]
        expected = sum(total >= seen for total in patterns) / len(patterns)
        assert permutation_p([value * unit for value in values]) == pytest.approx(expected)

    @given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 30))
    def test_is_mcnemar_on_binary_scores(self, b: int, c: int, same: int) -> None:
        """On 0/1 scores both tests are one."""
        assert permutation_p([-1] * b + [1] * c + [0] * same) == pytest.approx(
            mcnemar(b, c), abs=1e-12
        )

    def test_compare(self) -> None:
        """Flips are listed by sample id; unlike samples are refused."""
        found = compare({3: 0.0, 7: 1.0, 9: 1.0}, {3: 1.0, 7: 0.0, 9: 1.0})
        assert (found.worse, found.better, found.p, found.change) == ((3,), (7,), 0.75, 0.0)
        with pytest.raises(ValueError, match="different samples"):
            compare({1: 1.0}, {2: 1.0})


class TestGradedDrop:
    @pytest.mark.parametrize(
        "source",
        [
            pytest.param(one, id=one.name, marks=[pytest.mark.slow] if number else [])
            for number, one in enumerate(NULLS)
        ],
    )
    def test_skewed_differences_without_a_drop(self, source: Source) -> None:
        """At n = 20 and a nominal 5 % a drop is found in about 5 % where the mean is 0, however
        skewed.
        """
        assert found(source, 20, 1500, graded_drop) <= 0.075

    def test_the_permutation_alone_finds_too_many(self) -> None:
        """The same draws: twice the nominal 5 %."""
        assert found(NULLS[1], 20, 1500, permutation_p) >= 0.085

    def test_a_drop_is_still_found(self) -> None:
        """Of normal differences it sees nearly as many drops as the permutation test."""
        assert found(DROP, 20, 500, graded_drop) >= found(DROP, 20, 500, permutation_p) - 0.05

    def test_hall_by_hand(self) -> None:
        """−3, −1, 1: mean −1, s = 2, no skewness: Student's t. With it: the formula written out."""
        assert skewed_t([-3, -1, 1]) == pytest.approx(stats.t.cdf(-math.sqrt(3) / 2, 2))
        data = [-0.4, -0.1, -0.1, 0.1, -0.2]
        t = stats.ttest_1samp(data, 0).statistic
        a = stats.skew(data, bias=False) / math.sqrt(5)
        assert skewed_t(data) == pytest.approx(
            stats.t.cdf(((1 + a * t / 3) ** 3 - 1) / a + a / 6, 4)
        )
        assert skewed_t([*data, 0.0, 0.0]) == skewed_t(data)

    def test_differences_all_alike(self) -> None:
        """Without spread the signs alone speak."""
        assert graded_drop([-0.1] * 5) == pytest.approx(1 / 32)
        assert graded_drop([0.1] * 5) == graded_drop([0.0] * 5) == graded_drop([0.2]) == 1
        assert graded_drop([-0.2]) == 0.5

    @given(st.lists(st.floats(-1, 1), min_size=1, max_size=30))
    def test_never_less_than_the_exact_one(self, values: list[float]) -> None:
        """So false alarms stay at the level where a rerun changes answers by chance alone."""
        assert permutation_p(values) <= graded_drop(values) <= 1


class TestHolm:
    @given(st.lists(st.floats(0, 1), max_size=12), st.floats(0.001, 0.3))
    def test_by_steps(self, p_values: list[float], level: float) -> None:
        """Rejects what Holm's step-down procedure rejects."""
        rejected = set()
        order = sorted(range(len(p_values)), key=lambda i: p_values[i])
        for rank, i in enumerate(order):
            if min(1.0, (len(p_values) - rank) * p_values[i]) > level:
                break
            rejected.add(i)
        assert {i for i, p in enumerate(holm(p_values)) if p <= level} == rejected


class TestPower:
    def test_field_figures(self) -> None:
        """With a tenth of the answers flipping both ways a 5-point drop is seen about 1 time in 4
        to 5 at n = 100, .6 at n = 400.
        """
        assert power(100, 0.05, churn=0.07) == pytest.approx(0.25, abs=0.03)
        assert power(400, 0.05, churn=0.10) == pytest.approx(0.60, abs=0.01)

    def test_where_nothing_flips_nothing_is_detected(self) -> None:
        """No drop and no churn: the power is 0, not the level."""
        assert power(100, 0.0) == 0.0

    def test_by_simulation(self) -> None:
        """The formula agrees with drawn flips."""
        draws = np.random.default_rng(1).multinomial(100, [0.15, 0.05, 0.80], size=20_000)
        table = {(b, c): mcnemar(b, c) <= 0.05 for b, c in {(int(b), int(c)) for b, c, _ in draws}}
        caught = np.mean([table[int(b), int(c)] for b, c, _ in draws])
        assert power(100, 0.10, churn=0.05) == pytest.approx(caught, abs=0.01)

    def test_detectable_drop_is_the_smallest(self) -> None:
        """At the drop named the power is reached, a tenth of a point below it isn't; 4 samples can
        show nothing.
        """
        for churn in (0.0, 0.03):
            drop = detectable_drop(100, churn=churn)
            assert drop is not None
            assert power(100, drop, churn=churn) >= 0.8 > power(100, drop - 0.001, churn=churn)
        assert detectable_drop(4) is None

    def test_detectable_shift(self) -> None:
        """More samples see less, no scatter hides nothing; where every sign pattern is likely
        enough nothing can be seen.
        """
        few, many = (detectable_shift(n, 0.3) for n in (25, 400))
        assert few is not None
        assert many is not None
        assert few > many > 0
        assert detectable_shift(100, 0.0) == 0
        assert detectable_shift(2, 0.3, level=0.01) is None
        with pytest.raises(ValueError, match="spread=-1"):
            detectable_shift(10, -1)

    @pytest.mark.parametrize(
        ("n", "spread", "power_wanted", "level"), [(25, 0.3, 0.8, 0.05), (400, 2.0, 0.9, 0.01)]
    )
    def test_detectable_shift_solves_its_equation(
        self, n: int, spread: float, power_wanted: float, level: float
    ) -> None:
        """d − z_power·spread/√n = z_level·√(spread² + d²)/√n."""
        shift = detectable_shift(n, spread, power_wanted, level=level)
        assert shift is not None
        for_power, for_level = (
            NormalDist().inv_cdf(share) / math.sqrt(n) for share in (power_wanted, 1 - level)
        )
        assert shift - for_power * spread == pytest.approx(for_level * math.hypot(spread, shift))
