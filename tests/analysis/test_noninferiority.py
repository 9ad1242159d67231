"""pbcore.analysis.noninferiority: exact tails, restricted likelihoods by brute force, rates by
simulation.
"""

from __future__ import annotations

import math
from itertools import product
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats

from benches.check_statistics import (
    BY_DRAWS,
    CHURNS,
    GRADED_LOSSES,
    LOSS,
    SAME,
    Table,
    flips,
    passed,
    passed_of_four,
    settled,
    tables,
    wrong_by_draws,
)
from pbcore.analysis.noninferiority import (
    lower_bound,
    p_worse,
    questions_to_settle,
)
from pbcore.analysis.paired import holm, holm_levels
from pbcore.base.errors import InputError

FLIPS = st.lists(st.sampled_from([-1.0, 0.0, 0.0, 0.0, 1.0]), min_size=1, max_size=40)
GRADED = st.lists(st.integers(-10, 10).map(lambda tenth: tenth / 10), min_size=1, max_size=15)
TASKS = st.lists(st.one_of(FLIPS, GRADED), min_size=1, max_size=4)
MARGINS = st.sampled_from([0.01, 0.03, 0.05, 0.2])


def binary(n: int, fell: int, rose: int = 0) -> list[float]:
    return [-1.0] * fell + [1.0] * rose + [0.0] * (n - fell - rose)


def slow_p(tasks: list[list[float]], margin: float) -> float:
    """The same p by a general optimiser for the constrained likelihood and by counting every
    outcome of every question.
    """
    supports = [sorted({-1.0, 1.0, *task}) for task in tasks]
    counts = [
        [task.count(value) for value in values]
        for task, values in zip(tasks, supports, strict=True)
    ]
    cuts = np.cumsum([len(values) for values in supports])[:-1]
    flat_counts = np.concatenate([np.array(row, dtype=float) for row in counts])
    start = np.concatenate([np.full(len(values), 1 / len(values)) for values in supports])

    def loss(shares: np.ndarray) -> float:
        seen = flat_counts > 0
        return float(-(flat_counts[seen] @ np.log(shares[seen])))

    def mean(shares: np.ndarray) -> float:
        rows = np.split(shares, cuts)
        return fmean(float(row @ values) for row, values in zip(rows, supports, strict=True))

    bounds = [(1e-12 if seen else 0.0, 1.0) for seen in flat_counts > 0]
    constraints = [{"type": "eq", "fun": lambda shares: mean(shares) + margin}]
    constraints += [
        {"type": "eq", "fun": lambda shares, k=k: np.split(shares, cuts)[k].sum() - 1}
        for k in range(len(tasks))
    ]
    best = optimize.minimize(
        loss,
        start,
        bounds=bounds,
        constraints=constraints,
        method="SLSQP",
        options={"ftol": 1e-10, "maxiter": 500},
    )
    assert best.success, best.message
    laws = np.split(best.x, cuts)
    estimate = fmean(fmean(task) for task in tasks)
    totals = {0.0: 1.0}
    for task, values, shares in zip(tasks, supports, laws, strict=True):
        for _ in task:
            grown: dict[float, float] = {}
            for (total, chance), (value, share) in product(
                totals.items(), zip(values, shares, strict=True)
            ):
                place = round(total + value / len(task) / len(tasks), 9)
                grown[place] = grown.get(place, 0.0) + chance * share
            totals = grown
    return sum(chance for total, chance in totals.items() if total >= estimate - 1e-7)


class TestClosedCases:
    @pytest.mark.parametrize("n", [1, 20, 59, 98, 1000])
    def test_nothing_flips(self, n: int) -> None:
        """Without a flip p is (1 − m)ⁿ and the bound −(1 − .05^(1/n)), about −3/n and never 0."""
        assert p_worse([binary(n, 0)], 0.03) == pytest.approx(0.97**n, abs=1e-9)
        assert lower_bound([binary(n, 0)]) == pytest.approx(0.05 ** (1 / n) - 1, abs=1e-6)
        assert p_worse([binary(n, 0)], 0.0) > 0.05

    @pytest.mark.parametrize(("n", "fell"), [(100, 1), (200, 2), (600, 9)])
    def test_losses_alone(self, n: int, fell: int) -> None:
        """With losses and no gains the test is the exact binomial one."""
        p = p_worse([binary(n, fell)], 0.03)
        assert p == pytest.approx(float(stats.binom.cdf(fell, n, 0.03)), abs=1e-8)
        exact = stats.binomtest(fell, n).proportion_ci(0.9, "exact").high
        assert lower_bound([binary(n, fell)]) == pytest.approx(-exact, abs=1e-5)

    def test_several_tasks_without_flips(self) -> None:
        """Without a flip the task of fewest questions says least: the loss may be all its own."""
        tasks = [binary(1000, 0), binary(20, 0)]
        assert p_worse(tasks, 0.03) == pytest.approx(0.94**20, abs=1e-8)
        assert lower_bound(tasks) == pytest.approx((0.05 ** (1 / 20) - 1) / 2, abs=1e-6)

    def test_equal_tasks_without_flips_are_one(self) -> None:
        """Four tasks of 25 questions say what one of 100 says."""
        assert lower_bound([binary(25, 0)] * 4) == pytest.approx(0.05**0.01 - 1, abs=1e-6)

    def test_all_wrong_and_all_right(self) -> None:
        """A sampler that loses all has the bound −1; one that wins all is better."""
        assert lower_bound([[-1.0] * 20]) == -1
        assert 0.7 < lower_bound([[1.0] * 20]) < 1

    def test_churn(self) -> None:
        """630 questions, 15 flips each way: the figures of Tango's score test lie close by."""
        p = p_worse([binary(630, 15, 15)], 0.03)
        assert p == pytest.approx(float(stats.norm.sf(3.09)), abs=3e-4)

    def test_better(self) -> None:
        """Twenty gains and no loss of 400 are better, with a bound above 0; two are not yet."""
        assert p_worse([binary(400, 0, 20)], 0.0) <= 0.05
        assert lower_bound([binary(400, 0, 20)]) > 0
        assert p_worse([binary(400, 0, 2)], 0.0) > 0.05
        assert lower_bound([binary(400, 0, 2)]) < 0


class TestBruteForce:
    @pytest.mark.parametrize(
        "tasks",
        [
            [binary(12, 1, 2)],
            [binary(10, 0, 3)],
            [binary(12, 2)],
            [[-0.4, 0.0, 0.1, 0.1, 0.3]],
            [binary(8, 1, 1), binary(5, 0, 1)],
            [binary(6, 0), binary(9, 1)],
            [[0.2, -0.1, 0.0, 0.5], binary(7, 1, 1)],
            [[1 / 3, 2 / 3, 0.0, -1 / 3], [0.25, 0.0, 0.0]],
        ],
    )
    @pytest.mark.parametrize("margin", [0.03, 0.3])
    def test_every_outcome(self, tasks: list[list[float]], margin: float) -> None:
        """p equals that of a general optimiser and a count of every outcome."""
        assert p_worse(tasks, margin) == pytest.approx(slow_p(tasks, margin), abs=2e-4)

    def test_values_without_a_common_lattice(self) -> None:
        """Scores that are no simple fractions have nearly the p of nearby ones that are, which is
        exact, and not a smaller one.
        """
        rng = np.random.default_rng(5)
        exact = [round(value, 2) for value in rng.normal(0.01, 0.1, 40)]
        moved = [value + math.pi * 1e-6 for value in exact]
        assert p_worse([moved], 0.03) == pytest.approx(p_worse([exact], 0.03), abs=0.008)
        assert p_worse([moved], 0.03) >= p_worse([exact], 0.03) - 1e-3


class TestProperties:
    @given(TASKS, st.sampled_from([0.01, 0.05, 0.3]))
    def test_symmetric(self, tasks: list[list[float]], margin: float) -> None:
        """With all signs turned "worse by m" becomes "better by m": the two p share the probability
        of the estimate itself, so that their sum is at least 1.
        """
        turned = [[-value for value in task] for task in tasks]
        both = p_worse(tasks, margin) + p_worse(turned, -margin)
        assert 1 - 1e-6 <= both <= 2

    @given(FLIPS, st.integers(2, 4))
    def test_repeated_task(self, task: list[float], times: int) -> None:
        """Tasks with the same answers are one task with all of them."""
        together = [task * times]
        apart = [task] * times
        assert lower_bound(apart) == pytest.approx(lower_bound(together), abs=1e-5)
        assert p_worse(apart, 0.05) == pytest.approx(p_worse(together, 0.05), abs=1e-6)

    @given(TASKS)
    def test_order_does_not_count(self, tasks: list[list[float]]) -> None:
        """Neither the order of tasks nor that of questions changes anything."""
        back = [task[::-1] for task in tasks[::-1]]
        assert lower_bound(back) == pytest.approx(lower_bound(tasks), abs=1e-6)
        assert p_worse(back, 0.05) == pytest.approx(p_worse(tasks, 0.05), abs=1e-7)

    @given(st.lists(FLIPS, min_size=1, max_size=3), MARGINS, st.data())
    def test_monotone_in_flips(
        self, tasks: list[list[float]], margin: float, data: st.DataObject
    ) -> None:
        """An answer that turns wrong never helps: the bound doesn't rise, and p doesn't fall while
        it is below .3 (p of data that are worse than the margin vary between about .4 and 1).
        """
        k = data.draw(st.integers(0, len(tasks) - 1))
        i = data.draw(st.integers(0, len(tasks[k]) - 1))
        worse = [list(task) for task in tasks]
        worse[k][i] = max(-1.0, worse[k][i] - 1)
        assert p_worse(worse, margin) >= min(0.3, p_worse(tasks, margin)) - 1e-6
        assert lower_bound(worse) <= lower_bound(tasks) + 1e-5

    @given(TASKS, MARGINS)
    def test_bound_and_p_agree(self, tasks: list[list[float]], margin: float) -> None:
        """The bound lies above −margin exactly where p is below the level; a larger margin has a
        smaller p; the bound never exceeds the estimate.
        """
        lower = lower_bound(tasks)
        p = p_worse(tasks, margin)
        if abs(lower + margin) > 1e-5:
            assert (p <= 0.05) == (lower > -margin)
        assert p_worse(tasks, margin + 0.02) <= p + 1e-9
        assert -1 <= lower <= fmean(map(fmean, tasks)) + 1e-9

    @given(TASKS, MARGINS)
    def test_more_questions_with_the_same_shares(
        self, tasks: list[list[float]], margin: float
    ) -> None:
        """`questions` of each task: as if every answer had come as often."""
        n = len(tasks[0])
        equal = [task * n for task in tasks if len(task) == n]
        assert p_worse([task[:n] for task in equal], margin, questions=n * n) == pytest.approx(
            p_worse(equal, margin), abs=1e-6
        )

    @given(TASKS)
    def test_never_certain(self, tasks: list[list[float]]) -> None:
        """Without gains the bound is at least as far off as without any flip."""
        tasks = [[min(0.0, value) for value in task] for task in tasks]
        without = lower_bound([[0.0] * len(task) for task in tasks])
        assert lower_bound(tasks) <= without + 1e-6


class TestHolm:
    def test_four(self) -> None:
        """The third of four needs p ≤ .025; one that fails stops those behind it, and its level is
        theirs.
        """
        shown = holm_levels([0.03, 0.012, 0.001, 0.016], 0.05)
        assert [rejects for rejects, _ in shown] == [True, True, True, True]
        assert [level for _, level in shown] == pytest.approx([0.05, 0.05 / 3, 0.0125, 0.025])
        shown = holm_levels([0.06, 0.02, 0.001, 0.026], 0.05)
        assert [rejects for rejects, _ in shown] == [False, False, True, False]
        assert [level for _, level in shown] == pytest.approx([0.05 / 3] * 2 + [0.0125, 0.05 / 3])
        assert holm_levels([], 0.05) == []

    @given(st.lists(st.floats(0, 1), max_size=8))
    def test_as_the_adjusted_p(self, ps: list[float]) -> None:
        """What is rejected is what has an adjusted p of at most the level."""
        near = [abs(p - 0.05) < 1e-9 for p in holm(ps)]
        decided = zip(holm_levels(ps, 0.05), holm(ps), near, strict=True)
        assert all(rejects == (p <= 0.05) for (rejects, _), p, close in decided if not close)


class TestQuestions:
    def test_figures(self) -> None:
        """5 % discordant, margin 3 points, a quarter of 5 %: about 620; without a flip 3/m."""
        assert 600 <= (questions_to_settle(0.05, 0.03, level=0.05 / 4) or 0) <= 700
        assert questions_to_settle(0, 0.05) == math.ceil(math.log(0.05) / math.log(0.95))
        assert questions_to_settle(0.1, 0.05, change=-0.05) is None

    def test_more_for_less(self) -> None:
        """More discordance, a smaller margin, a loss, a lower level or more power need more."""
        usual = questions_to_settle(0.1, 0.05) or 0
        for changed in (
            questions_to_settle(0.2, 0.05),
            questions_to_settle(0.1, 0.03),
            questions_to_settle(0.1, 0.05, change=-0.02),
            questions_to_settle(0.1, 0.05, level=0.01),
            questions_to_settle(0.1, 0.05, power=0.9),
        ):
            assert changed is not None
            assert changed > usual

    @pytest.mark.parametrize(("fell", "rose"), [(0.01, 0.01), (0.02, 0.01), (0.05, 0.05)])
    def test_by_simulation(self, fell: float, rose: float) -> None:
        """That many questions settle it in about 80 % of draws (150 draws: ± 10)."""
        row = settled(fell, rose, level=0.05, draws=150)
        assert 70 <= float(str(row[-1])) <= 92


class TestRates:
    @pytest.mark.parametrize(
        "table",
        [
            Table("all loss", (98,), (LOSS,)),
            Table("churn", (150,), (CHURNS[1],)),
            Table("one of four", (50,) * 4, (flips(0.12, 0), SAME, SAME, SAME)),
            Table("graded", (100,), (GRADED_LOSSES[0],)),
        ],
        ids=lambda table: table.name,
    )
    def test_at_the_margin(self, table: Table) -> None:
        """Samplers that are worse by the margin pass at most about one time in twenty (200 tables:
        at most 10 %).
        """
        assert table.change == pytest.approx(-0.03)
        assert passed(table, 200) <= 0.1

    def test_equal_sampler(self) -> None:
        """An equal sampler with 5 % discordant answers is confirmed among four in more than 80 % of
        tables with 650 questions.
        """
        equal = Table("equal", (650,), (flips(0.025, 0.025),))
        assert passed_of_four(equal, 100, all_equal=True) >= 0.8

    @pytest.mark.parametrize("test", BY_DRAWS)
    def test_tasks_are_independent(self, test: str) -> None:
        """Answers that are lost by the draws of a decoding's rows keep the 5 % of the headline,
        tune and compare over four tasks; a test of tasks that share their draws is wrong in 28 %.
        """
        runs = 40
        error = (0.05 * 0.95 / runs) ** 0.5
        assert wrong_by_draws(BY_DRAWS[test], 50, runs) <= 0.05 + 3 * error

    @pytest.mark.nightly
    @pytest.mark.parametrize("table", tables(), ids=lambda table: f"{table.name} {table.sizes}")
    def test_all_shapes(self, table: Table) -> None:
        """Type I error over 1,000 tables of every shape of the benchmark is at most 6.7 %."""
        assert table.change == pytest.approx(-0.03)
        assert passed(table, 1000) <= 0.067


class TestRefusals:
    @pytest.mark.parametrize(
        ("tasks", "words"),
        [
            ([], "no tasks"),
            ([[0.0], []], "task 1 has no paired differences"),
            ([[0.0, 1.5]], "task 0 has the difference 1.5"),
            ([[math.nan]], "task 0 has the difference nan"),
        ],
    )
    def test_data(self, tasks: list[list[float]], words: str) -> None:
        """Data that can't be tested is named."""
        with pytest.raises(InputError, match=words):
            p_worse(tasks, 0.05)

    def test_settings(self) -> None:
        """Margins and confidences outside their ranges are named with what is allowed."""
        with pytest.raises(InputError, match=r"confidence 95: must lie between \.5 and 1"):
            lower_bound([[0.0]], 95)
        with pytest.raises(InputError, match="margin 1: must lie between -1 and 1"):
            p_worse([[0.0]], 1)
        with pytest.raises(InputError, match=r"discordance 0\.1, change -0\.2"):
            questions_to_settle(0.1, 0.05, change=-0.2)
        with pytest.raises(InputError, match=r"level 5, power 0\.8"):
            questions_to_settle(0.1, 0.05, level=5)
