"""What a perfect choice of sampler per sample would give (Fig. 7), and how parallelizable a task is (Fig. 6). PAPER.md §4."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pbcore.results.record import SampleRecord


@dataclass(frozen=True, slots=True)
class OraclePoint:
    """The oracle's means over samples: score in %, NFE, tokens per step; and which sampler it chose for each sample index."""

    score: float
    nfe: float
    tokens_per_step: float
    choices: dict[int, str]


def oracle(runs: Mapping[str, Sequence[SampleRecord]], score: str) -> OraclePoint:
    """Per sample the sampler with the fewest steps among those with that sample's best score (Fig. 7; ties: the first given).

    `runs`: sampler name → the samples of one model and task, the same indices in each. Raises ValueError where they differ, none is
    given, or `score` was not measured.
    """
    if not runs or not any(runs.values()):
        raise ValueError("oracle needs the samples of at least one sampler")
    by_index = {name: {sample.index: sample for sample in samples} for name, samples in runs.items()}
    indices = sorted(next(iter(by_index.values())))
    for name, samples in by_index.items():
        if sorted(samples) != indices:
            raise ValueError(
                f"sampler {name!r} has other samples than {next(iter(by_index))!r}; run all on the same samples"
            )
        if any(score not in sample.scores for sample in samples.values()):
            raise ValueError(f"sampler {name!r} has no score {score!r} for some samples")
    choices = {
        i: min(by_index, key=lambda name: (-by_index[name][i].scores[score], by_index[name][i].nfe)) for i in indices
    }
    chosen = [by_index[choices[i]][i] for i in indices]
    return OraclePoint(
        score=100 * float(np.mean([sample.scores[score] for sample in chosen])),
        nfe=float(np.mean([sample.nfe for sample in chosen])),
        tokens_per_step=float(np.mean([sample.canvas_tokens / sample.nfe for sample in chosen])),
        choices=choices,
    )


def parallelizability(scores: Mapping[int, float]) -> float | None:
    """Fig. 6, x-axis: Σₖ k·scoreₖ / Σₖ scoreₖ over tokens per step k = 1, 2, 4, … in one block; small = hard to parallelize.

    None where every score is 0. Raises ValueError for no scores, a negative score or k < 1.
    """
    if not scores or min(scores) < 1 or min(scores.values()) < 0:
        raise ValueError(f"parallelizability needs scores >= 0 by tokens per step k >= 1, got {dict(scores)}")
    total = sum(scores.values())
    return sum(k * score for k, score in scores.items()) / total if total else None


def block_slope(scores: Mapping[int, float]) -> float:
    """Fig. 6, y-axis: slope of the least-squares line through score against log₂ block length (at k = 2), with its sign turned, so
    that positive = better as blocks shrink. In score units per halving. Raises ValueError for fewer than two block lengths.
    """
    if len(scores) < 2 or min(scores) < 1:
        raise ValueError(f"block_slope needs scores at two block lengths >= 1 at least, got {dict(scores)}")
    lengths = sorted(scores)
    slope, _ = np.polyfit(np.log2(lengths), [scores[length] for length in lengths], 1)
    return -float(slope)
