"""Is a sampler at most so much worse? A one-sided test of paired scores, stratified by task, with
the bound that it implies, and how many questions settle it.

The paired differences new − reference of task k have the mean d_k; the estimate is the mean of the
K means d_k. Under "worse by exactly the margin m" the differences' unknown distribution is the one
of greatest likelihood among all on the values observed, −1 and +1 whose mean over tasks is −m: for
0/1 scores that is Tango's constrained estimate (Tango 1998), for graded ones empirical likelihood
(Owen 1988) with the two ends added. p is the exact probability, under this distribution, of a mean
of at least the estimate (an estimated, or E, p-value: Lloyd 2008). No normal approximation is made,
so nothing breaks where nothing flips: p is then (1 − m)ⁿ, and the bound −(1 − .05^(1/n)), about
−3/n. As m grows, the distributions fall in the likelihood-ratio order, so that p falls, too, and
the bound is where it crosses the level.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from statistics import fmean

import numpy as np
from scipy import fft, optimize, stats

from pbcore.analysis.paired import tango_rates
from pbcore.base.errors import InputError
from pbcore.base.speed import MAX_LOSS

MARGIN = MAX_LOSS / 100
CONFIDENCE = 0.95
POINTS = 2**14  # of the lattice for values that have no common one
MOST_POINTS = 2**16
SPREADS = 9.0  # standard deviations to each side that a lattice holds
DENOMINATOR = 1000  # values that are fractions up to this one lie on a common lattice

Tasks = Sequence[Sequence[float]]  # a task's paired differences, new − reference


def p_worse(
    differences: Tasks, margin: float, questions: int | Sequence[int] | None = None
) -> float:
    """The one-sided p of "worse by `margin` or more".

    Args:
        differences: per task the differences new − reference of the questions that both answered,
            each in [−1, 1]; for several seeds a question's mean over seeds.
        margin: the loss that is allowed, in score units (.03 for 3 points), in (−1, 1); 0 for "not
            better".
        questions: how many each task would have, with the same shares of differences: one number,
            or one for each; None: as many as are given.

    Raises:
        InputError: no tasks, a task without differences, a difference outside [−1, 1], or a margin
            outside its range.
    """
    if not -1 < margin < 1:
        raise InputError(f"margin {margin}: must lie between -1 and 1")
    tables = _tables(differences)
    if questions is not None:
        numbers = [questions] * len(tables) if isinstance(questions, int) else questions
        tables = [
            _Table(table.values, table.counts * (number / table.n), number)
            for table, number in zip(tables, numbers, strict=True)
        ]
    return _p_value(tables, -margin)


def lower_bound(differences: Tasks, confidence: float = CONFIDENCE) -> float:
    """The one-sided lower bound of the mean over tasks of the mean difference, in (.5, 1)
    `confidence`. Raises InputError as `p_worse` does.
    """
    if not 0.5 < confidence < 1:
        raise InputError(f"confidence {confidence}: must lie between .5 and 1, such as .95")
    return _lower(_tables(differences), 1 - confidence)


def discordance_of(differences: Tasks) -> float:
    """The share of questions whose scores differ, weighted by the squares of differences; the mean
    over tasks.
    """
    return fmean(fmean(value**2 for value in task) for task in differences)


def questions_that_settle(differences: Tasks, margin: float, level: float) -> int | None:
    """How many questions, over all tasks, show it if scores stay what they are; a gain counts as
    none. None if none do.

    Args:
        differences: a list of new − reference per task.
        margin: the loss that is allowed, in (0, 1).
        level: of the one-sided test.
    """
    change = min(0.0, fmean(fmean(task) for task in differences))
    discordance = max(discordance_of(differences), abs(change))
    return questions_to_settle(discordance, margin, change=change, level=level)


def questions_to_settle(
    discordance: float,
    margin: float,
    *,
    change: float = 0.0,
    level: float = 1 - CONFIDENCE,
    power: float = 0.8,
) -> int | None:
    """How many questions, over all tasks, show with probability `power` that a sampler is at most
    `margin` worse; None if none do, since `change` isn't above −`margin`.

    n = (z_level·s₀ + z_power·s₁)² / (margin + change)², with s₁² = discordance − change² the
    variance of a difference and s₀² that under the margin (Tango's constrained rates); at least
    ln(level) / ln(1 − margin), below which not even a run without a single flip shows it.

    Args:
        discordance: the share of questions whose scores differ, in [0, 1]; of graded scores the
            mean squared difference.
        margin: the loss that is allowed, in (0, 1).
        change: the true mean difference new − reference, at most `discordance` in size.
        level: of the one-sided test; divide it by the number of samplers compared, for Holm's first
            step.
        power: in (0, 1).

    Raises:
        InputError: a value outside its range.
    """
    if not (0 <= discordance <= 1 and abs(change) <= discordance + 1e-12 and 0 < margin < 1):
        raise InputError(
            f"discordance {discordance}, change {change}, margin {margin}: need a discordance in"
            " [0, 1], a change that is not larger, and a margin between 0 and 1"
        )
    if not (0 < level < 1 and 0 < power < 1):
        raise InputError(f"level {level}, power {power}: both must lie between 0 and 1")
    room = margin + change
    if room <= 1e-9:
        return None
    rose = max(0.0, discordance + change) / 2
    fell = max(0.0, discordance - change) / 2
    risen, fallen = tango_rates(fell, rose, -margin)
    under_margin = risen + fallen - margin**2
    true = max(0.0, discordance - change**2)
    sides = float(stats.norm.isf(level)) * math.sqrt(under_margin)
    sides += float(stats.norm.ppf(power)) * math.sqrt(true)
    without_flips = math.log(level) / math.log1p(-margin)
    return math.ceil(max((sides / room) ** 2, without_flips) - 1e-9)


@dataclass(frozen=True, slots=True)
class _Table:
    """A task's differences: each value once, ascending, with its count."""

    values: np.ndarray  # (V,)
    counts: np.ndarray  # (V,)
    n: int

    @property
    def mean(self) -> float:
        return float(self.counts @ self.values) / self.n


@dataclass(frozen=True, slots=True)
class _Law:
    """The distribution of one question's difference in a task of `n`."""

    values: np.ndarray  # (V,)
    probabilities: np.ndarray  # (V,)
    n: int

    @property
    def mean(self) -> float:
        return float(self.probabilities @ self.values)

    @property
    def variance(self) -> float:
        return max(0.0, float(self.probabilities @ self.values**2) - self.mean**2)


def _tables(differences: Tasks) -> Sequence[_Table]:
    if not differences:
        raise InputError("no tasks; give at least one with paired differences")
    return _tables_of(tuple(map(tuple, differences)))


@lru_cache(maxsize=4096)  # a verdict asks several margins of the same differences
def _tables_of(differences: tuple[tuple[float, ...], ...]) -> tuple[_Table, ...]:
    tables = []
    for number, task in enumerate(differences):
        if not task:
            raise InputError(f"task {number} has no paired differences; leave it out")
        outside = [value for value in task if not abs(value) <= 1 + 1e-9]
        if outside:
            raise InputError(
                f"task {number} has the difference {outside[0]}; need those in [-1, 1]"
            )
        counts = Counter(min(1.0, max(-1.0, round(value, 9))) for value in task)
        values = sorted(counts)
        table = _Table(
            np.array(values, dtype=np.float64),
            np.array([counts[value] for value in values], dtype=np.float64),
            len(task),
        )
        tables.append(table)
    return tuple(tables)


def _estimate(tables: Sequence[_Table]) -> float:
    return float(np.mean([table.mean for table in tables]))


def _lower(tables: Sequence[_Table], level: float) -> float:
    """The mean at which p is `level`."""
    estimate = _estimate(tables)
    if estimate <= -1 + 1e-9:
        return -1.0
    least = -1 + 1e-6
    if _p_value(tables, least) > level:
        return -1.0
    if _p_value(tables, estimate) <= level:  # differences of one value have no spread there
        return estimate
    edge = optimize.brentq(
        lambda mean: _p_value(tables, mean) - level, least, estimate, xtol=1e-7, rtol=1e-7
    )
    return float(edge)


def _p_value(tables: Sequence[_Table], mean: float) -> float:
    """The probability of a mean over tasks of at least the estimate, if the true one is `mean`."""
    key = tuple((table.values.tobytes(), table.counts.tobytes(), table.n) for table in tables)
    return _p_of(key, mean)


@lru_cache(maxsize=20_000)  # a report judges the same answers in several places
def _p_of(key: tuple[tuple[bytes, bytes, int], ...], mean: float) -> float:
    tables = [_Table(np.frombuffer(values), np.frombuffer(counts), n) for values, counts, n in key]
    return _upper_tail(_constrained(tables, mean), _estimate(tables))


def _constrained(tables: Sequence[_Table], mean: float) -> list[_Law]:
    """The likeliest distributions on the values observed, −1 and +1 with this mean over tasks.

    With the multipliers ν_k (probabilities of task k add up to 1) and λ (the mean): p = count /
    (ν_k + λ value), and what is missing to 1 at ν_k = λ lies on −1.
    """
    estimate = _estimate(tables)
    if mean > estimate + 1e-12:  # the same with all signs turned
        turned = [_Table(-table.values[::-1], table.counts[::-1], table.n) for table in tables]
        return [
            _Law(-law.values[::-1], law.probabilities[::-1], law.n)
            for law in _constrained(turned, -mean)
        ]
    values, counts = _padded(tables)  # (K, V), the first column for −1
    sizes = counts.sum(1)  # (K,)

    def off(multiplier: float) -> float:
        rows = _probabilities(values, counts, multiplier)
        return float(np.mean((rows * values).sum(1))) - mean

    most = float(sizes.max()) / (1 + mean)  # where each task's mean is at most n/λ − 1
    multiplier = 0.0
    if off(0.0) > 1e-12:
        multiplier = float(optimize.brentq(off, 0.0, 1.01 * most, xtol=1e-9, rtol=1e-12))
    rows = _probabilities(values, counts, multiplier)
    return [
        _Law(values[k][row > 0], row[row > 0] / row.sum(), table.n)
        for k, (table, row) in enumerate(zip(tables, rows, strict=True))
    ]


def _padded(tables: Sequence[_Table]) -> tuple[np.ndarray, np.ndarray]:
    """Values and counts in one array each, (K, 1 + V): −1 first, with count 0 where not observed;
    what fills short rows up has count 0 and value 0.
    """
    width = max(len(table.values) for table in tables)
    values = np.zeros((len(tables), 1 + width))
    counts = np.zeros((len(tables), 1 + width))
    values[:, 0] = -1.0
    for k, table in enumerate(tables):
        inner = table.values > -1
        counts[k, 0] = table.counts[~inner].sum()
        values[k, 1 : 1 + inner.sum()] = table.values[inner]
        counts[k, 1 : 1 + inner.sum()] = table.counts[inner]
    return values, counts


def _probabilities(values: np.ndarray, counts: np.ndarray, multiplier: float) -> np.ndarray:
    """(K, V): the probabilities at this λ ≥ 0. ν_k is the root of Σ count / (ν + λ value) = 1, or λ
    where the root lies below it; Newton's steps from the left of the root can't overshoot, since
    the sum is convex in ν.
    """
    present = counts > 0
    lowest = np.where(present, counts - multiplier * values, -np.inf).max(1)  # (K,)
    nu = np.maximum(lowest, multiplier)  # (K,)
    for _ in range(60):
        below = nu[:, None] + multiplier * values
        below = np.where(present, np.maximum(below, 1e-300), 1.0)
        parts = counts / below  # (K, V)
        excess = parts.sum(1) - 1
        slope = (parts / below).sum(1)
        step = np.where(excess > 0, excess / slope, 0.0)
        nu = nu + step
        if np.all(step <= 1e-13 * nu):
            break
    below = np.where(present, nu[:, None] + multiplier * values, 1.0)
    rows: np.ndarray = counts / np.where(present, np.maximum(below, 1e-300), 1.0)
    rest = np.maximum(0.0, 1 - rows.sum(1))
    rows[:, 0] += np.where(rest > 1e-12, rest, 0.0)
    return rows


def _upper_tail(laws: Sequence[_Law], estimate: float) -> float:
    """P(mean over tasks of the mean difference ≥ estimate), by Fourier transforms of the laws on a
    lattice.

    Values that have a common lattice of sensible size lie on it, and the probability is exact. Else
    each value's mass is split between its two neighbours on a fine one, which keeps the mean; what
    lies less than two standard deviations of this error below the estimate counts as equal to it,
    so that p is rather too large than too small.
    """
    tasks = len(laws)
    total = estimate * tasks
    center = sum(law.mean for law in laws)
    spread = math.sqrt(sum(law.variance / law.n for law in laws))
    moving = [law for law in laws if law.variance > 1e-15]
    if not moving:
        return 1.0 if center >= total - 1e-9 else 0.0
    largest = max(float(np.abs(law.values).max()) / law.n for law in moving)
    half = SPREADS * spread + 12 * largest
    steps = _common_lattice(tuple((law.n, tuple(law.values.tolist())) for law in laws))
    if steps is not None and 2 * half * steps + 2 <= MOST_POINTS:
        step = 1 / steps
    else:
        step = 2 * half / POINTS
    size = 2 ** max(4, math.ceil(math.log2(2 * half / step + 2)))
    transform = np.ones(size // 2 + 1, dtype=np.complex128)
    added = 0.0  # the variance that splitting adds
    for law in laws:
        masses, split = _on_lattice(law, step, size)
        transform *= fft.rfft(masses) ** law.n
        added += law.n * split
    chances = fft.irfft(transform, size)  # (size,), places modulo size
    first = math.floor(center / step) - size // 2  # the lattice's window, around the mean
    edge = math.ceil(total / step - 2 * math.sqrt(added) - 1e-3)
    if edge <= first:
        return 1.0
    if edge >= first + size:
        return 0.0
    places = np.arange(edge, first + size) % size
    return min(1.0, max(0.0, float(chances[places].sum())))


def _on_lattice(law: _Law, step: float, size: int) -> tuple[np.ndarray, float]:
    """The values of a law over n, each mass split between its two neighbours on a lattice.

    Args:
        law: of one task.
        step: the lattice's.
        size: how many points it has; places count modulo it.

    Returns:
        (size,) the masses, and the variance that splitting adds.
    """
    places = law.values / (law.n * step)
    floors = np.floor(places + 1e-6)
    shares = np.where(places - floors < 1e-6, 0.0, places - floors)  # of the upper neighbour
    masses = np.zeros(size)
    lower = floors.astype(np.int64)
    np.add.at(masses, lower % size, law.probabilities * (1 - shares))
    np.add.at(masses, (lower + 1) % size, law.probabilities * shares)
    return masses, float(law.probabilities @ (shares * (1 - shares)))


@lru_cache(maxsize=256)
def _common_lattice(tasks: tuple[tuple[int, tuple[float, ...]], ...]) -> int | None:
    """The number of steps in 1 of the lattice that holds value/n for all values of all tasks (n,
    values); None if they have none up to `MOST_POINTS` steps.
    """
    steps = 1
    for n, values in tasks:
        for value in values:
            fraction = Fraction(value).limit_denominator(DENOMINATOR)
            if abs(float(fraction) - value) > 1e-8:
                return None
            steps = math.lcm(steps, n * fraction.denominator)
            if steps > MOST_POINTS * DENOMINATOR:
                return None
    return steps
