"""Means with 95 % intervals: Wilson's for binary scores, Student's t made safe near the bounds for
graded ones.
"""

import math
from collections import Counter
from collections.abc import Collection, Sequence
from functools import lru_cache

import numpy as np

from pbcore.results.record import Score

GRADED = frozenset(
    {"rouge_1", "rouge_2", "rouge_l", "rouge_l_unstemmed", "bertscore", "inv_bleu", "bleu"}
)
FEW = 5  # so few values beside a common one say too little about the rest


def is_wrong_score(headline: str, score: float) -> bool:
    """Whether a score means a wrong answer: anything below 1, for graded scores 0."""
    return score == 0 if headline in GRADED else score < 1


def right_or_wrong(headline: str, metrics: Collection[str]) -> str | None:
    """The score by which an answer is right or wrong, and which needs no tool: the headline, or
    `inclusion` where that is grammar; None without one.

    Args:
        headline: of the task.
        metrics: the task's scores.
    """
    if headline not in GRADED and headline != "grammar":
        return headline
    return "inclusion" if "inclusion" in metrics else None


def score_of(name: str, values: Sequence[float]) -> Score:
    """The mean of one score over samples with its 95 % interval: `graded_interval` for those in
    `GRADED` or with a value other than 0 and 1, else `wilson`. Raises ValueError for no values or
    values outside [0, 1].
    """
    if not values:
        raise ValueError(
            f"score {name!r} has no values; leave it out and give the reason in `absent`"
        )
    outside = [value for value in values if not 0 <= value <= 1]
    if outside:
        raise ValueError(f"score {name!r} has the value {outside[0]}; scores must be in [0, 1]")
    if name in GRADED or any(value not in (0, 1) for value in values):
        low, high = graded_interval(values)
        return Score(float(np.mean(values)), low, high, len(values), "graded")
    right = int(sum(values))
    low, high = wilson(right, len(values))
    return Score(right / len(values), low, high, len(values), "binary")


@lru_cache(maxsize=1024)
def wilson(right: int, n: int) -> tuple[float, float]:
    """Wilson's 95 % score interval for `right` of `n` (Wilson 1927). Raises ValueError unless 0 ≤
    right ≤ n, n > 0.
    """
    if n <= 0 or not 0 <= right <= n:
        raise ValueError(f"{right} right of {n}: need 0 <= right <= n and n > 0")
    # It takes seconds to import, and workers need it only when a cell is finished.
    from scipy import stats

    interval = stats.binomtest(right, n).proportion_ci(method="wilson")
    return float(interval.low), float(interval.high)


def graded_interval(
    values: Sequence[float], least: float = 0.0, most: float = 1.0
) -> tuple[float, float]:
    """The 95 % interval of a mean of bounded values.

    Student's t interval, on the side of the longer tail longer by s·γ(1 + 2t²)/(6n), the first term
    of the Edgeworth expansion of the studentized mean (Hall 1983), with the sample's skewness γ,
    and clipped to the bounds. Where more than half of the values are the same and at most `FEW`
    differ, the spread says too little about the values that weren't drawn: there the interval also
    holds the means that go with Wilson's upper limit of the share that differs, whose mean distance
    from the common value counts half a value at the bound. Values that are all 1 thus have Wilson's
    interval, and a single value has [least, most]. `python benches/check_statistics.py` shows what
    it covers.

    Args:
        values: a number per sample, each in [least, most].
        least: the lowest possible value: 0 of scores, −1 of paired differences.
        most: the highest possible value.

    Returns:
        The interval's two ends.

    Raises:
        ValueError: without values.
    """
    from scipy.special import stdtrit  # at first use, as in `wilson`

    data = np.asarray(values, dtype=np.float64)
    n = len(values)
    if n == 0:
        raise ValueError("an interval needs at least one value")
    if n == 1:
        return least, most
    mean = float(data.mean())
    spread = float(data.std(ddof=1))
    t = float(stdtrit(n - 1, 0.975))
    half = t * spread / math.sqrt(n)
    shift = spread * skewness(data) * (1 + 2 * t**2) / (6 * n)
    low = mean - half + min(0.0, shift)
    high = mean + half + max(0.0, shift)
    common, count = Counter(data.tolist()).most_common(1)[0]
    others = n - count
    if others < count and others <= FEW:
        share = wilson(others, n)[1]
        below = np.clip(common - data, 0, None).sum() + (common - least) / 2
        above = np.clip(data - common, 0, None).sum() + (most - common) / 2
        low = min(low, common - share * below / (others + 0.5))
        high = max(high, common + share * above / (others + 0.5))
    return max(least, float(low)), min(most, float(high))


def skewness(data: np.ndarray) -> float:
    """The sample's skewness γ, n Σ(x − x̄)³ / ((n − 1)(n − 2)s³); 0 for fewer than three values or
    values all alike.
    """
    n = len(data)
    spread = float(data.std(ddof=1)) if len(data) > 1 else 0.0
    if n < 3 or spread < 1e-12:
        return 0.0
    return float(((data - data.mean()) ** 3).sum()) * n / ((n - 1) * (n - 2) * spread**3)
