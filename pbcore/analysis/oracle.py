"""The oracle's choice of a sampler for each sample (Fig. 7), and the parallelizability of a task
(Fig. 6); figures of arXiv 2510.04767.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pbcore.base.errors import InputError
from pbcore.results.record import SampleRecord, by_index


@dataclass(frozen=True, slots=True)
class OraclePoint:
    """The oracle's means over samples: score in %, NFE, tokens per step; `choices`: sample index →
    chosen sampler.
    """

    score: float
    nfe: float
    tokens_per_step: float
    choices: dict[int, str]


def oracle(runs: Mapping[str, Sequence[SampleRecord]], score: str) -> OraclePoint:
    """Chooses for each sample, among the samplers with that sample's best score, the one with the
    fewest steps (Fig. 7; ties: the first). `runs`: sampler name → the samples of one model and
    task; several seeds of a sample are averaged. Raises InputError if the indices differ, no
    samples are given, or `score` was not measured.
    """
    if not runs or not any(runs.values()):
        raise InputError("oracle got no samples; give those of at least one sampler")
    means: dict[str, dict[int, np.ndarray]] = {}  # each array: score, NFE, tokens per step
    for name, samples in runs.items():
        if any(score not in sample.scores for sample in samples):
            raise InputError(f"sampler {name!r} has no score {score!r} for some samples")
        if any(not sample.nfe or sample.canvas_tokens is None for sample in samples):
            raise InputError(
                f"sampler {name!r} has no NFE or canvas for some samples: the model doesn't report"
                " its forwards"
            )
        means[name] = {}
        for index, answers in by_index(samples).items():
            rows = []
            for answer in answers:
                rate = (answer.canvas_tokens or 0) / (answer.nfe or 1)
                rows.append((answer.scores[score], answer.nfe or 0, rate))
            means[name][index] = np.mean(rows, axis=0)
    first, *others = means
    for name in others:
        if means[name].keys() != means[first].keys():
            raise InputError(
                f"sampler {name!r} has other samples than {first!r}; run all on the same samples"
            )
    choices = {}
    for index in means[first]:
        ranks = {name: (-means[name][index][0], means[name][index][1]) for name in means}
        choices[index] = min(ranks, key=ranks.__getitem__)
    reached, nfe, tokens_per_step = np.mean(
        [means[name][index] for index, name in choices.items()], axis=0
    )
    return OraclePoint(100 * float(reached), float(nfe), float(tokens_per_step), choices)


def parallelizability(scores: Mapping[int, float]) -> float | None:
    """Fig. 6, x-axis: Σₖ k·scoreₖ / Σₖ scoreₖ over tokens per step k = 1, 2, 4, … in one block;
    small = hard to parallelize. None where every score is 0. Raises InputError for no scores, a
    negative score or k < 1.
    """
    if not scores or min(scores) < 1 or min(scores.values()) < 0:
        raise InputError(
            f"parallelizability needs scores >= 0 by tokens per step k >= 1, got {dict(scores)}"
        )
    total = sum(scores.values())
    return sum(k * score for k, score in scores.items()) / total if total else None


def block_slope(scores: Mapping[int, float]) -> float:
    """Fig. 6, y-axis: the negative slope of the least-squares line of score over log₂ block length
    (at k = 2), in score units per halving: positive = better as blocks shrink. Raises InputError
    for fewer than two block lengths.
    """
    if len(scores) < 2 or min(scores) < 1:
        raise InputError(
            f"block_slope needs scores at two block lengths >= 1 at least, got {dict(scores)}"
        )
    lengths = sorted(scores)
    slope, _ = np.polyfit(np.log2(lengths), [scores[length] for length in lengths], 1)
    return -float(slope)
