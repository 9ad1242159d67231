"""In which order a sampler revealed its tokens: AR-ness, and how many tokens it took a step."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import stats

from pbcore.results.record import SampleRecord


def kendall(steps: Sequence[int]) -> float | None:
    """Kendall's τ-b between position and the step at which it was revealed: 1 left to right, −1 right to left, 0 no
    order.

    `steps[i]` is the step of position i, −1 where it was given (left out). None where undefined: fewer than two decoded
    positions, or all in one step.
    """
    decoded = [(position, step) for position, step in enumerate(steps) if step >= 0]
    if len({step for _, step in decoded}) < 2:
        return None
    tau = float(stats.kendalltau([position for position, _ in decoded], [step for _, step in decoded]).statistic)
    return None if math.isnan(tau) else tau


def v1_correlations(steps: Sequence[int]) -> dict[str, float]:
    """The decoding-order correlations that the official benchmark (v1) logs, under its names: `dec_order_kendall`,
    `dec_order_spearman`.

    Kendall's τ-b and Spearman's ρ between the positions' steps and the same steps *sorted*: what left to right order in
    steps of these sizes would give. So tokens revealed together in place cost nothing, and [0, 0, 1, 1] has 1, where
    `kendall`, against positions, has 0.82. Given positions (−1) are left out; v1 counts them as step 0, and takes a
    remasked token's first reveal, not its last. Empty where undefined, as `kendall`.
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
    """The share of decoded tokens that were the leftmost masked one when revealed (within a step counted from the
    left).

    1 for strict left to right. None where nothing was decoded.
    """
    decoded = [position for position, step in enumerate(steps) if step >= 0]
    if not decoded:
        return None
    order = sorted(decoded, key=lambda position: (steps[position], position))
    open_positions, hits, front = set(decoded), 0, 0
    for position in order:
        while decoded[front] not in open_positions:
            front += 1
        hits += position == decoded[front]
        open_positions.remove(position)
    return hits / len(order)


def order_statistics(samples: Iterable[SampleRecord]) -> dict[str, Any]:
    """A cell's order statistics, for `CellRecord.decoding`: means over the samples for which each is defined.

    `kendall` over the whole canvas, `kendall_answer` over the answer (what stands before the first EOS),
    `dec_order_kendall` and `dec_order_spearman` (`v1_correlations`, whole canvas), `leftmost_share`, `confidence_mean`
    and `confidence_min` of the tokens when they were revealed for good, `max_tokens_in_step` (the largest of any
    sample), and `tokens_by_step`: tokens revealed for good at step 0, 1 …, a mean over all samples. Empty where no
    steps were recorded.
    """
    values: dict[str, list[float]] = {}
    largest, recorded = 0, 0
    by_step: Counter[int] = Counter()
    for sample in samples:
        if not sample.steps:
            continue
        found = dict(_orders(tuple(sample.steps), tuple(answer_steps(sample))))
        sure = [confidence for step, confidence in zip(sample.steps, sample.confidences, strict=False) if step >= 0]
        if sure:
            found |= {"confidence_mean": float(np.mean(sure)), "confidence_min": min(sure)}
        for name, value in found.items():
            if value is not None:
                values.setdefault(name, []).append(value)
        counts = Counter(step for step in sample.steps if step >= 0)
        by_step.update(counts)
        recorded += 1
        largest = max(largest, *counts.values(), 0)
    statistics: dict[str, Any] = {name: float(np.mean(found)) for name, found in values.items()}
    if largest:
        statistics["max_tokens_in_step"] = float(largest)
        statistics["tokens_by_step"] = [by_step[step] / recorded for step in range(max(by_step) + 1)]
    return statistics


@lru_cache(maxsize=4096)  # greedy samplers often reveal in the same order
def _orders(steps: tuple[int, ...], answer: tuple[int, ...]) -> dict[str, float | None]:
    """One sample's statistics of the order, from the steps of the canvas and of the answer."""
    return {
        "kendall": kendall(steps),
        "kendall_answer": kendall(answer),
        "leftmost_share": leftmost_share(steps),
        **v1_correlations(steps),
    }


def answer_steps(sample: SampleRecord) -> list[int]:
    """The steps of the positions before the first EOS: `answer_tokens` counts the decoded ones among them."""
    left = sample.answer_tokens or 0
    kept = []
    for step in sample.steps:
        if left == 0:
            break
        kept.append(step)
        left -= step >= 0
    return kept
