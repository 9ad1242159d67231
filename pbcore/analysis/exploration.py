"""What several answers to one sample reach together (pass@k), and what remasking changes (flip-flops)."""

from collections.abc import Sequence
from math import comb
from statistics import fmean
from typing import Any

from pbcore.errors import InputError
from pbcore.results.record import SampleRecord, by_index


def pass_at(right: int, answers: int, k: int) -> float:
    """The probability that at least one of k answers is right, drawn without replacement from `answers` of which
    `right` are: 1 − C(n − c, k)/C(n, k), the unbiased estimator of pass@k (Chen et al. 2021, arXiv 2107.03374).

    Raises InputError unless 0 ≤ right ≤ answers and 1 ≤ k ≤ answers.
    """
    if not 0 <= right <= answers or not 1 <= k <= answers:
        raise InputError(f"pass@{k} of {answers} answers, {right} right: give 1 ≤ k ≤ answers and 0 ≤ right ≤ answers")
    return 1 - comb(answers - right, k) / comb(answers, k)


def exploration(samples: Sequence[SampleRecord], metric: str) -> dict[str, Any]:
    """A cell's part of `CellRecord.decoding`.

    With several seeds: `pass_at`, k → mean over samples of pass@k for k = 1, 2, 4 … and all seeds, if the scores are 0
    or 1 (arXiv 2604.00375 plots it against quality), and `distinct`, the mean number of different texts per sample over
    the number of seeds. Where tokens were taken back: `remasks` per answer, and `flip_flops`, the share of them after
    which the same token came back (COVER, arXiv 2602.06161).
    """
    found: dict[str, Any] = {}
    groups = list(by_index(samples).values())
    seeds = min((len(same) for same in groups), default=0)
    scores = [[one.scores.get(metric) for one in same] for same in groups]
    if seeds > 1:
        found["distinct"] = fmean(len({one.text for one in same}) / len(same) for same in groups)
        if all(score in (0, 1) for same in scores for score in same):
            ks = sorted({1 << i for i in range(seeds.bit_length()) if 1 << i <= seeds} | {seeds})
            found["pass_at"] = {
                str(k): fmean(pass_at(same.count(1), len(same), k) for same in scores) for k in ks
            }  # fmt: skip
    backs = [back for one in samples for back in returns(one)]
    if backs:
        found |= {"remasks": len(backs) / len(samples), "flip_flops": fmean(backs)}
    return found


def returns(sample: SampleRecord) -> list[bool]:
    """For each token that was taken back, whether the next one at its position was the same; empty where tokens were
    not recorded.
    """
    if not sample.former or not sample.tokens:
        return []
    stays: dict[int, list[tuple[int, str]]] = {}
    for one in sample.former:
        stays.setdefault(one.at, []).append((one.step, one.token))
    found = []
    for at, earlier in stays.items():
        tokens = [token for _, token in sorted(earlier)]
        final = sample.tokens[min(at, len(sample.tokens) - 1)]  # repetitions at the end are left out
        found += [now == after for now, after in zip(tokens, [*tokens[1:], final], strict=True)]
    return found
