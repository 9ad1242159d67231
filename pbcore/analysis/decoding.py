"""A cell's statistics for `CellRecord.decoding`: in which order its tokens were revealed (AR-ness)
and how many a step, what several answers to one sample reach together (pass@k), and what remasking
changes (flip-flops).
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import comb
from statistics import fmean

import numpy as np
from scipy import stats

from pbcore.base.errors import InputError
from pbcore.results.record import SampleRecord, Statistics, by_index


def kendall(steps: Sequence[int]) -> float | None:
    """Kendall's τ-b between position and the step at which it was revealed: 1 left to right, −1
    right to left, 0 no order. `steps[i]` is the step of position i, −1 where it was given (left
    out). None where undefined: fewer than two decoded positions, or all in one step.
    """
    decoded = [(position, step) for position, step in enumerate(steps) if step >= 0]
    if len({step for _, step in decoded}) < 2:
        return None
    tau = float(
        stats.kendalltau(
            [position for position, _ in decoded], [step for _, step in decoded]
        ).statistic
    )
    return None if math.isnan(tau) else tau


def v1_correlations(steps: Sequence[int]) -> dict[str, float]:
    """The decoding-order correlations that the official benchmark (v1) logs, under its names:
    Kendall's τ-b and Spearman's ρ between the positions' steps and the same steps *sorted*, what
    left to right order in steps of these sizes would give. So tokens revealed together in place
    cost nothing, and [0, 0, 1, 1] has 1, where `kendall` has 0.82. Given positions (−1) are left
    out; v1 counts them as step 0, and takes a remasked token's first reveal, not its last. Empty
    where undefined, as `kendall`.
    """
    decoded = [step for step in steps if step >= 0]
    if len(set(decoded)) < 2:
        return {}
    ordered = sorted(decoded)
    return {
        "dec_order_kendall": float(stats.kendalltau(ordered, decoded).statistic),
        "dec_order_spearman": float(stats.spearmanr(ordered, decoded).statistic),
    }


def leftmost_share(steps: Sequence[int]) -> float | None:
    """The share of decoded tokens that were the leftmost masked one when revealed (within a step
    counted from the left): 1 for strict left to right. None where nothing was decoded.
    """
    decoded = [position for position, step in enumerate(steps) if step >= 0]
    if not decoded:
        return None
    order = np.array(sorted(decoded, key=lambda position: (steps[position], position)))
    leftmost = np.minimum.accumulate(order[::-1])[::-1]  # of those still masked
    return float((order == leftmost).mean())


def order_statistics(samples: Iterable[SampleRecord]) -> Statistics:
    """A cell's order statistics: means over the samples for which each is defined. Empty where no
    steps were recorded.

    `kendall` over the whole canvas, `kendall_answer` over what stands before the first EOS, those
    of `v1_correlations`, `leftmost_share`, `confidence_mean` and `confidence_min` of the tokens
    when they were revealed for good, `max_tokens_in_step` (the largest of any sample), and
    `tokens_by_step`: tokens revealed for good at step 0, 1 …, a mean over all samples.
    """
    values: dict[str, list[float]] = {}
    largest = 0
    recorded = 0
    by_step: Counter[int] = Counter()
    for sample in samples:
        if not sample.steps:
            continue
        found = dict(_orders(tuple(sample.steps), tuple(_answer_steps(sample))))
        sure = [
            confidence
            for step, confidence in zip(sample.steps, sample.confidences, strict=False)
            if step >= 0
        ]
        if sure:
            found |= {"confidence_mean": float(np.mean(sure)), "confidence_min": min(sure)}
        for name, value in found.items():
            if value is not None:
                values.setdefault(name, []).append(value)
        counts = Counter(step for step in sample.steps if step >= 0)
        by_step.update(counts)
        recorded += 1
        largest = max(largest, *counts.values(), 0)
    statistics: Statistics = {name: float(np.mean(found)) for name, found in values.items()}
    if largest:
        statistics["max_tokens_in_step"] = float(largest)
        statistics["tokens_by_step"] = [
            by_step[step] / recorded for step in range(max(by_step) + 1)
        ]
    return statistics


@lru_cache(maxsize=4096)  # greedy samplers often reveal in the same order
def _orders(steps: tuple[int, ...], answer: tuple[int, ...]) -> dict[str, float | None]:
    """One sample's statistics of the order, from the steps of the canvas and of the answer."""
    orders = {
        "kendall": kendall(steps),
        "kendall_answer": kendall(answer),
        "leftmost_share": leftmost_share(steps),
    }
    return {**orders, **v1_correlations(steps)}


def _answer_steps(sample: SampleRecord) -> list[int]:
    """The steps of the positions before the first EOS: `answer_tokens` counts the decoded ones
    among them.
    """
    if not sample.answer_tokens:
        return []
    decoded = np.cumsum(np.array(sample.steps) >= 0)
    return sample.steps[: int(np.searchsorted(decoded, sample.answer_tokens)) + 1]


def pass_at(right: int, answers: int, k: int) -> float:
    """The probability that at least one of k answers is right, drawn without replacement: 1 − C(n −
    c, k)/C(n, k), the unbiased estimator of pass@k (Chen et al. 2021, arXiv 2107.03374).

    Args:
        right: c, how many of the answers are right.
        answers: n, how many there are.
        k: how many are drawn.

    Raises:
        InputError: unless 0 ≤ right ≤ answers and 1 ≤ k ≤ answers.
    """
    if not 0 <= right <= answers or not 1 <= k <= answers:
        raise InputError(
            f"pass@{k} of {answers} answers, {right} right: give 1 ≤ k ≤ answers and 0 ≤ right ≤"
            " answers"
        )
    return 1 - comb(answers - right, k) / comb(answers, k)


def exploration(samples: Sequence[SampleRecord], metric: str) -> Statistics:
    """With several seeds: `pass_at`, k → mean over samples of pass@k for k = 1, 2, 4 … and all
    seeds, if the scores are 0 or 1 (arXiv 2604.00375 plots it against quality), and `distinct`, the
    mean number of different texts per sample over the number of seeds. Where tokens were taken
    back: `remasks` per answer, and `flip_flops`, the share of them after which the same token came
    back (COVER, arXiv 2602.06161).
    """
    statistics: Statistics = {}
    groups = list(by_index(samples).values())
    seeds = min((len(same) for same in groups), default=0)
    scores = [[answer.scores.get(metric) for answer in same] for same in groups]
    if seeds > 1:
        statistics["distinct"] = fmean(
            len({answer.text for answer in same}) / len(same) for same in groups
        )
        if all(score in (0, 1) for same in scores for score in same):
            ks = sorted({1 << i for i in range(seeds.bit_length())} | {seeds})
            statistics["pass_at"] = {
                str(k): fmean(pass_at(same.count(1), len(same), k) for same in scores) for k in ks
            }
    backs = [back for answer in samples for back in returns(answer)]
    if backs:
        statistics |= {"remasks": len(backs) / len(samples), "flip_flops": fmean(backs)}
    return statistics


def returns(sample: SampleRecord) -> list[bool]:
    """For each token that was taken back, whether the next one at its position was the same; empty
    where tokens were not recorded.
    """
    if not sample.former or not sample.tokens:
        return []
    stays: dict[int, list[tuple[int, str]]] = {}
    for token_before in sample.former:
        stays.setdefault(token_before.at, []).append((token_before.step, token_before.token))
    came_back = []
    for at, earlier in stays.items():
        tokens = [token for _, token in sorted(earlier)]
        # Repetitions at the end are left out.
        final = sample.tokens[min(at, len(sample.tokens) - 1)]
        came_back += [now == after for now, after in zip(tokens, [*tokens[1:], final], strict=True)]
    return came_back
