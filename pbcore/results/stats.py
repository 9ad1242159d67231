"""Means with 95 % intervals: Wilson's for binary scores, percentile bootstrap for graded ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pbcore.results.record import Score

GRADED = frozenset({"rouge_1", "rouge_2", "rouge_l", "rouge_l_unstemmed", "bertscore", "inv_bleu", "bleu"})
RESAMPLES = 2000


def score_of(name: str, values: Sequence[float]) -> Score:
    """The mean of one score over samples with its 95 % interval.

    Graded scores (those in `GRADED`, or with a value other than 0 and 1) get a bootstrap interval, the others Wilson's.
    Raises ValueError for no values or values outside [0, 1].
    """
    if not values:
        raise ValueError(f"score {name!r} has no values; leave it out and give the reason in `absent`")
    outside = [value for value in values if not 0 <= value <= 1]
    if outside:
        raise ValueError(f"score {name!r} has the value {outside[0]}; scores must be in [0, 1]")
    if name in GRADED or any(value not in (0, 1) for value in values):
        low, high = bootstrap(values)
        return Score(float(np.mean(values)), low, high, len(values), "graded")
    right = int(sum(values))
    low, high = wilson(right, len(values))
    return Score(right / len(values), low, high, len(values), "binary")


def wilson(right: int, n: int) -> tuple[float, float]:
    """Wilson's 95 % score interval for `right` of `n` (Wilson 1927).

    Raises ValueError unless 0 ≤ right ≤ n and n > 0.
    """
    if n <= 0 or not 0 <= right <= n:
        raise ValueError(f"{right} right of {n}: need 0 <= right <= n and n > 0")
    from scipy import stats  # takes seconds to import, and workers need it only when a cell is finished

    interval = stats.binomtest(right, n).proportion_ci(method="wilson")
    return float(interval.low), float(interval.high)


def bootstrap(values: Sequence[float]) -> tuple[float, float]:
    """Percentile bootstrap 95 % interval of the mean of values in [0, 1], with a fixed seed so that reruns agree.

    For a single value the spread is unknown, so the interval is [0, 1].
    """
    if len(values) < 2:
        return 0.0, 1.0
    data = np.asarray(values, dtype=np.float64)
    if np.ptp(data) == 0:
        return float(data[0]), float(data[0])
    from scipy import stats

    result = stats.bootstrap((data,), np.mean, method="percentile", n_resamples=RESAMPLES, rng=np.random.default_rng(0))
    return float(result.confidence_interval.low), float(result.confidence_interval.high)
