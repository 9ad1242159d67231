"""Compares two runs sample by sample: exact McNemar test, tests for graded scores, intervals of the
difference, Holm's correction, power.
"""

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import nan
from operator import sub
from statistics import fmean

import numpy as np
from scipy import stats

from pbcore.base.errors import InputError
from pbcore.costs.kinds import Cost
from pbcore.results.stats import graded_interval, skewness

RESOLUTION = 1e-4
GRID = 400_000
Costs = Mapping[Cost, Mapping[int, float | None]]  # by question, None where not counted


@dataclass(frozen=True, slots=True)
class Paired:
    """Two sets of answers to the same questions: the means `base` and `head` of a score, and the
    differences head − base of the questions `indices`. `costs` has what each question cost (head,
    base), of the kinds that both counted for all of them.
    """

    base: float = nan
    head: float = nan
    binary: bool = True
    indices: tuple[int, ...] = ()
    differences: tuple[float, ...] = ()
    costs: Mapping[Cost, tuple[Sequence[float], Sequence[float]]] = field(default_factory=dict)

    @property
    def n(self) -> int:
        return len(self.differences)

    @property
    def worse(self) -> tuple[int, ...]:
        """The questions whose score fell by more than `RESOLUTION` (newly wrong, if binary)."""
        changes = zip(self.indices, self.differences, strict=True)
        return tuple(i for i, change in changes if fell(change))

    @property
    def better(self) -> tuple[int, ...]:
        """Those whose score rose so (newly right)."""
        changes = zip(self.indices, self.differences, strict=True)
        return tuple(i for i, change in changes if fell(-change))

    @property
    def change(self) -> float:
        return self.head - self.base

    @property
    def limits(self) -> tuple[float, float]:
        """The 95 % interval of the change; NaN without a question."""
        return interval(self.differences, self.binary) if self.n else (nan, nan)

    @property
    def spread(self) -> float:
        """The standard deviation of the differences."""
        return float(np.std(self.differences))

    @property
    def p(self) -> float:
        """One-sided: the probability of such a drop by chance."""
        return drop(self.differences, self.binary)


@dataclass(frozen=True, slots=True)
class CostChange:
    """Costs of one kind in the mean (`base`, `head`), and the questions that cost more or fewer."""

    base: float
    head: float
    more: tuple[int, ...]
    fewer: tuple[int, ...]


def cost_changes(paired: Paired) -> dict[Cost, CostChange]:
    """The kinds of costs that differ in a question."""
    changes: dict[Cost, CostChange] = {}
    for kind, (ours, theirs) in paired.costs.items():
        triples = list(zip(paired.indices, ours, theirs, strict=True))
        more = tuple(index for index, new, old in triples if new > old)
        fewer = tuple(index for index, new, old in triples if new < old)
        if more or fewer:
            changes[kind] = CostChange(fmean(theirs), fmean(ours), more, fewer)
    return changes


def compare(
    head: Mapping[int, float],
    base: Mapping[int, float],
    costs: tuple[Costs, Costs] = ({}, {}),
) -> Paired:
    """Scores by question, of the same questions, with their `costs` (head's, base's); for several
    seeds give each question its mean over seeds. Raises InputError if the questions differ or there
    are none.
    """
    if not base or head.keys() != base.keys():
        unshared = sorted(head.keys() ^ base.keys())[:5]
        raise InputError(
            f"runs hold different samples (e.g. {unshared}); compare runs of the same samples, at"
            " least one"
        )
    return on_common(head, base, costs)


def on_common(
    head: Mapping[int, float],
    base: Mapping[int, float],
    costs: tuple[Costs, Costs] = ({}, {}),
) -> Paired:
    """`compare` on the questions that both answered, with their `costs` (head's, base's); `n` is 0
    without one.
    """
    indices = tuple(sorted(head.keys() & base.keys()))
    if not indices:
        return Paired()
    after = [head[i] for i in indices]
    before = [base[i] for i in indices]
    return Paired(
        base=fmean(before),
        head=fmean(after),
        binary=all(score in (0, 1) for score in (*after, *before)),
        indices=indices,
        differences=tuple(map(sub, after, before)),
        costs=_common_costs(*costs, indices),
    )


def _common_costs(
    head: Costs, base: Costs, indices: Sequence[int]
) -> dict[Cost, tuple[Sequence[float], Sequence[float]]]:
    """The costs of these questions, of the kinds that both sides counted for all of them."""
    known: dict[Cost, tuple[Sequence[float], Sequence[float]]] = {}
    for kind in head:
        if kind in base:
            sides = [[side[kind][i] for i in indices] for side in (head, base)]
            ours, theirs = [[cost for cost in side if cost is not None] for side in sides]
            if len(ours) == len(theirs) == len(indices):
                known[kind] = ours, theirs
    return known


def total_costs(parts: Iterable[Paired], kind: Cost) -> tuple[float, float] | None:
    """What an answer costs in the mean over each part's questions, added up over parts (head,
    base); None where a part lacks it.
    """
    head = 0.0
    base = 0.0
    for part in parts:
        if kind not in part.costs:
            return None
        ours, theirs = part.costs[kind]
        head += fmean(ours)
        base += fmean(theirs)
    return head, base


def fell(change: float) -> bool:
    """Whether a score that changed so counts as lower: by more than `RESOLUTION`, floating-point
    errors apart.
    """
    return change < -(RESOLUTION + 1e-9)


def mcnemar(newly_wrong: int, newly_right: int) -> float:
    """Exact one-sided McNemar p (McNemar 1947): P(X ≥ newly_wrong) for X ~ Binomial(newly_wrong +
    newly_right, ½).
    """
    if newly_wrong < 0 or newly_right < 0:
        raise InputError(
            f"counts of flips must be at least 0, not {newly_wrong} newly wrong, {newly_right}"
            " newly right"
        )
    return float(stats.binom.sf(newly_wrong - 1, newly_wrong + newly_right, 0.5))


def graded_drop(differences: Sequence[float]) -> float:
    """One-sided p for a drop of the mean of paired differences (head − base): the greater of
    `permutation_p`, exact where only chance decides which run got which of a sample's two scores,
    but with little to say of means where differences are skewed (a studentized one is no better: it
    has the same order), and `skewed_t`, about right for a mean of 0 with skewed differences. Raises
    InputError unless all differences are finite.
    """
    return max(permutation_p(differences), skewed_t(differences))


def skewed_t(differences: Sequence[float]) -> float:
    """One-sided p for a drop of the mean by Student's t, with the skewness γ taken out by Hall's
    transformation (Hall 1992): g(T) = T + γT²/(3√n) + γ²T³/(27n) + γ/(6√n), compared with t of n −
    1 degrees of freedom.

    As in McNemar's test, the n samples that differ decide. Differences that are all alike have p =
    0 for a drop, else 1.
    """
    data = np.asarray(differences, dtype=np.float64)
    data = data[data != 0]
    n = len(data)
    if n == 0:
        return 1.0
    spread = float(data.std(ddof=1)) if n > 1 else 0.0
    if spread < RESOLUTION**2:
        return 0.0 if data.mean() < 0 else 1.0
    t = math.sqrt(n) * float(data.mean()) / spread
    skew = skewness(data) / math.sqrt(n)
    return float(stats.t.cdf(t + skew * t**2 / 3 + skew**2 * t**3 / 27 + skew / 6, n - 1))


def permutation_p(differences: Sequence[float]) -> float:
    """Exact one-sided paired permutation p for a drop: the share of all 2ⁿ sign patterns whose
    total loss is at least the observed one. Differences (head − base) are rounded to 1e-4, or
    coarser if their sum would need more than 400,000 units; for these values p is exact. For 0/1
    scores it equals `mcnemar`. Raises InputError unless all are finite.
    """
    sizes = np.abs(np.asarray(differences, dtype=np.float64))
    if not np.all(np.isfinite(sizes)):
        raise InputError("differences must be finite")
    weights = np.rint(sizes / RESOLUTION).astype(np.int64)
    weights //= max(1, int(np.gcd.reduce(weights)))
    if weights.sum() > GRID:
        weights = np.rint(weights * (GRID / weights.sum())).astype(np.int64)
    loss = int(weights[np.asarray(differences) < 0].sum())
    probabilities = np.zeros(int(weights.sum()) + 1)  # of each total loss under random signs
    probabilities[0] = 1.0
    for weight in weights[weights > 0]:
        lost = probabilities.copy()
        lost[weight:] += probabilities[:-weight]
        probabilities = lost / 2
    return float(min(1.0, probabilities[loss:].sum()))


def drop(differences: Sequence[float], binary: bool) -> float:
    """One-sided p for a drop of paired differences (head − base): McNemar's for 0/1 scores
    (`binary`), else `graded_drop`'s.
    """
    return mcnemar(*flips(differences)) if binary else graded_drop(differences)


def flips(differences: Sequence[float]) -> tuple[int, int]:
    """How many scores fell and how many rose."""
    return sum(d < 0 for d in differences), sum(d > 0 for d in differences)


def interval(differences: Sequence[float], binary: bool) -> tuple[float, float]:
    """The 95 % interval of a mean paired difference (head − base), scores in [0, 1]: `tango` for
    0/1 scores, else `results.stats.graded_interval` between −1 and 1. Raises InputError without
    differences.
    """
    if not differences:
        raise InputError("no paired differences; compare at least one sample")
    if not binary:
        return graded_interval(differences, -1.0, 1.0)
    return tango(*flips(differences), len(differences))


def tango(newly_wrong: int, newly_right: int, n: int) -> tuple[float, float]:
    """Tango's 95 % score interval (Tango 1998) of the difference of two paired proportions, head −
    base: all that the score test with the constrained maximum-likelihood variance doesn't reject.
    At 0 it is McNemar's test without continuity correction; without flips it is ± z²/(n + z²).

    Args:
        newly_wrong: samples that only base has right.
        newly_right: samples that only head has right.
        n: all samples, those without a flip among them.

    Returns:
        The interval's two ends, in [−1, 1].

    Raises:
        InputError: for impossible counts.
    """
    b = newly_right
    c = newly_wrong
    if n < 1 or b < 0 or c < 0 or b + c > n:
        raise InputError(
            f"{c} newly wrong and {b} newly right of {n}: need counts of at least 0 whose sum is at"
            " most n"
        )
    z = float(stats.norm.isf(0.025))

    def distance(delta: float) -> float:
        """How far the observed difference lies above `delta`, in standard errors under it."""
        risen, fallen = tango_rates(c / n, b / n, delta)
        variance = n * (risen + fallen - delta**2)
        above = b - c - n * delta
        if variance <= 0:
            return 0.0 if above == 0 else math.copysign(math.inf, above)
        return above / math.sqrt(variance)

    def edge(inside: float, outside: float, sign: float) -> float:
        for _ in range(60):
            middle = (inside + outside) / 2
            inside, outside = (middle, outside) if sign * distance(middle) < z else (inside, middle)
        return inside

    change = (b - c) / n
    return edge(change, -1.0, 1.0), edge(change, 1.0, -1.0)


def tango_rates(newly_wrong: float, newly_right: float, delta: float) -> tuple[float, float]:
    """The flips of greatest likelihood whose difference is given (Tango 1998).

    Args:
        newly_wrong: the observed share of samples that only base has right.
        newly_right: the observed share of samples that only head has right.
        delta: the difference, right − wrong.

    Returns:
        The shares of newly right and of newly wrong samples.
    """
    linear = (2 + newly_wrong - newly_right) * delta - newly_right - newly_wrong
    square = linear**2 + 8 * newly_wrong * delta * (1 - delta)
    fallen = (math.sqrt(max(0.0, square)) - linear) / 4
    return fallen + delta, fallen


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values (Holm 1979), in the given order: rejecting those ≤ level keeps the
    chance of any false alarm ≤ level.
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(np.arange(len(p), 0, -1) * p[order]))
    values: list[float] = adjusted.tolist()
    return values


def holm_levels(p_values: Sequence[float], level: float) -> list[tuple[bool, float]]:
    """Whether Holm's procedure rejects each hypothesis, and the level that its p-value is held
    against: level / m for the smallest of m, level / (m − 1) for the next …; once one is not
    rejected, its level decides all that follow.
    """
    decisions = [(False, level)] * len(p_values)
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    rejects = True
    step = level
    for place, number in enumerate(order):
        if rejects:
            step = level / (len(p_values) - place)
            rejects = p_values[number] <= step
        decisions[number] = (rejects, step)
    return decisions


def power(n: int, drop: float, *, churn: float = 0.0, level: float = 0.05) -> float:
    """The power of the exact McNemar test: the probability that it detects a true drop.

    Each sample becomes wrong with probability `drop + churn` and right with probability `churn`.

    Args:
        n: the number of samples.
        drop: the true drop, a share.
        churn: 0 if no answer improves, about p(1 − p) for independent draws.
        level: the test's significance level, one-sided.

    Raises:
        InputError: for n < 1 or invalid shares.
    """
    wrong = drop + churn
    right = churn
    if n < 1 or not (0 <= drop <= 1 and churn >= 0 and wrong + right <= 1 + 1e-12):
        raise InputError(
            f"n={n}, drop={drop}, churn={churn}: need n >= 1 and shares whose sum drop + 2 churn is"
            " at most 1"
        )
    if wrong + right == 0:
        return 0.0
    flips = np.arange(n + 1)
    probabilities = stats.binom.pmf(flips, n, min(1.0, wrong + right))
    return float(
        np.sum(
            probabilities * stats.binom.sf(_critical(n, level) - 1, flips, wrong / (wrong + right))
        )
    )


def detectable_drop(
    n: int, power_wanted: float = 0.8, *, churn: float = 0.0, level: float = 0.05
) -> float | None:
    """The smallest true drop that the exact McNemar test detects.

    Args:
        n: the number of samples.
        power_wanted: the probability with which it is to be detected.
        churn: as of `power`.
        level: the test's significance level, one-sided.

    Returns:
        A share, in steps of 0.1 point; None if there is none.
    """
    most = int((1 - 2 * churn) * 1000)
    drop = 1 + bisect_left(
        range(1, most + 1),
        power_wanted,
        key=lambda drop: power(n, drop / 1000, churn=churn, level=level),
    )
    return None if drop > most else drop / 1000


def detectable_shift(
    n: int, spread: float, power_wanted: float = 0.8, *, level: float = 0.05
) -> float | None:
    """The smallest true drop d of a mean that the test for graded scores detects.

    By the normal approximation d − z_power·spread/√n = z_level·√(spread² + d²)/√n: random signs
    vary the total by each whole difference, its mean included.

    Args:
        n: the number of samples.
        spread: the standard deviation of the n differences, in score units.
        power_wanted: the probability with which it is to be detected.
        level: the test's significance level, one-sided.

    Returns:
        d in score units; None if there is none.

    Raises:
        InputError: for n < 1 or spread < 0.
    """
    if n < 1 or spread < 0:
        raise InputError(
            f"n={n}, spread={spread}: need n >= 1 and a standard deviation, at least 0"
        )
    a = float(stats.norm.isf(level)) / np.sqrt(n)
    b = float(stats.norm.ppf(power_wanted)) * spread / np.sqrt(n)
    if a >= 1:
        return None
    rest = 1 - a**2
    return float((b + np.sqrt(b**2 - rest * (b**2 - a**2 * spread**2))) / rest)


def questions_to_show(
    paired: Paired, power_wanted: float = 0.8, *, level: float = 0.05, most: int = 20_000
) -> int | None:
    """About how many questions would show a drop like the observed one.

    Args:
        paired: the observed differences, with a loss.
        power_wanted: the probability with which it is to be detected.
        level: the test's significance level, one-sided.
        most: questions beyond which there is no answer.

    Returns:
        A number of two digits and zeros; None if more than `most` are needed.
    """
    loss = -paired.change
    if loss <= 0:
        return None
    if paired.binary:
        churn = len(paired.better) / paired.n
        numbers = range(1, most + 1)
        needed = 1 + bisect_left(
            numbers, power_wanted, key=lambda n: power(n, loss, churn=churn, level=level)
        )
    else:
        z_level = float(stats.norm.isf(level))
        z_power = float(stats.norm.ppf(power_wanted))
        spread = paired.spread
        root = (z_level * math.hypot(spread, loss) + z_power * spread) / loss
        needed = math.ceil(root**2)
    if needed > most:
        return None
    step = int(10 ** max(0, len(str(needed)) - 2))
    return math.ceil(needed / step) * step


@lru_cache(maxsize=64)
def _critical(n: int, level: float) -> np.ndarray:
    """For each number of flips 0 … n, the fewest newly wrong ones that are significant (flips + 1
    if none are).
    """
    flips = np.arange(n + 1)
    least: np.ndarray = stats.binom.isf(level, flips, 0.5).astype(np.int64) + 1
    return least
