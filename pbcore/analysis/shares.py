"""Each option's part of a difference between two settings that differ in several: Shapley shares
(Shapley 1953), which sum to the difference exactly, over the scores of all combinations.

A combination is a number whose bits say which options are as in the second setting: 0 is the first
setting, 2^m − 1 the second.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import factorial, isnan, nan
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from pbcore.base.check import Packed, checked

Floats = NDArray[np.floating]
MOST_SHARED = 4  # options whose 2^m combinations are all measured
RESAMPLES = 9_999
SEED = 0


# NaN where it isn't known, which JSON writes as null.
Points = Annotated[float, Packed(float | None, lambda value: nan if value is None else value)]


@checked
@dataclass(frozen=True, slots=True)
class Part:
    """A difference in points with its 95 % interval."""

    points: Points
    low: Points
    high: Points

    def to_json(self) -> dict[str, float | None]:
        values = {"points": self.points, "low": self.low, "high": self.high}
        return {name: None if isnan(value) else value for name, value in values.items()}


def needed(options: int) -> list[int]:
    """The combinations that are measured: all, or of many options those that differ from either
    setting in one.
    """
    whole = (1 << options) - 1
    if options <= MOST_SHARED:
        return list(range(whole + 1))
    alone = [1 << option for option in range(options)]
    return list(dict.fromkeys([0, *alone, *(whole ^ one for one in alone), whole]))


def shapley(scores: Mapping[int, Floats], options: int) -> list[Floats]:
    """The share of each option, for each question: the mean over all orders of switching them of
    what its own switch changes.

    Args:
        scores: combination → the questions' scores.
        options: how many there are.

    Returns:
        For each option an array like those of `scores`; they sum to the scores of the second
        setting less those of the first.
    """
    shares = []
    for option in range(options):
        bit = 1 << option
        share = np.zeros_like(scores[0], dtype=float)
        for others in range(1 << options):
            if others & bit:
                continue
            size = others.bit_count()
            weight = factorial(size) * factorial(options - size - 1) / factorial(options)
            share += weight * (scores[others | bit] - scores[others])
        shares.append(share)
    return shares


def merged(refused: Sequence[int], options: int) -> list[list[int]]:
    """The options in groups that are switched together, so that no refused combination is needed:
    the smallest sets of options with an assignment which all its combinations refuse.

    Args:
        refused: the combinations that can't run; neither setting is one.
        options: how many options there are.

    Returns:
        Groups of options, in their order.
    """
    missing = set(refused)
    group_of = list(range(options))
    for size in range(2, options + 1):
        for chosen in combinations(range(options), size):
            if missing and _clash(chosen, missing, options):
                first = min(group_of[option] for option in chosen)
                joined = {group_of[option] for option in chosen}
                group_of = [first if group in joined else group for group in group_of]
                groups = _groups(group_of)
                missing &= {combination_of(groups, number) for number in range(1 << len(groups))}
    return _groups(group_of)


def _clash(chosen: Sequence[int], missing: set[int], options: int) -> bool:
    """Whether all combinations with some values of these options are refused."""
    rest = [option for option in range(options) if option not in chosen]
    for values in product((0, 1), repeat=len(chosen)):
        fixed = sum(value << option for value, option in zip(values, chosen, strict=True))
        others = product((0, 1), repeat=len(rest))
        whole = {
            fixed + sum(value << option for value, option in zip(each, rest, strict=True))
            for each in others
        }
        if whole <= missing:
            return True
    return False


def _groups(group_of: Sequence[int]) -> list[list[int]]:
    groups: dict[int, list[int]] = {}
    for option, group in enumerate(group_of):
        groups.setdefault(group, []).append(option)
    return list(groups.values())


def combination_of(groups: Sequence[Sequence[int]], number: int) -> int:
    """The combination of options that a combination of groups means."""
    switched = [group for place, group in enumerate(groups) if number >> place & 1]
    return sum(1 << option for group in switched for option in group)


def part_of(tasks: Sequence[Floats], resamples: int = RESAMPLES) -> Part:
    """The mean over tasks, which weigh the same, of a difference's mean over questions, in points,
    with its 95 % interval by resampled questions: the bootstrap's percentiles, expanded for few
    questions (Hesterberg 2015, arXiv 1411.5279, Section 5.3).

    Args:
        tasks: the differences of each task's questions, between −1 and 1.
        resamples: how often the questions are drawn.
    """
    points = 100 * float(np.mean([one.mean() for one in tasks]))
    if any(len(one) < 2 for one in tasks):
        return Part(points, nan, nan)
    if all(np.ptp(one) < 1e-12 for one in tasks):
        return Part(points, points, points)

    def mean(*samples: Floats, axis: int = -1) -> Floats:
        means: Floats = np.mean([one.mean(axis=axis) for one in samples], axis=0)
        return means

    freedom = sum(len(one) - 1 for one in tasks)
    widened = math.sqrt(1 + len(tasks) / freedom) * stats.t.ppf(0.975, freedom)
    found = stats.bootstrap(
        tuple(tasks),
        mean,
        n_resamples=resamples,
        vectorized=True,
        method="percentile",
        confidence_level=1 - 2 * stats.norm.sf(widened),
        rng=np.random.default_rng(SEED),
    )
    interval = found.confidence_interval
    return Part(points, 100 * float(interval.low), 100 * float(interval.high))
