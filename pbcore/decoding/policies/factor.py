"""Confidence factor."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pbcore.decoding.policies.registry import register_policy
from pbcore.decoding.step import Step


@register_policy("factor")
@dataclass(frozen=True, slots=True)
class Factor:
    """The largest n with (n + 1)(1 − cₙ) < f, at least 1; `-ref`, as officially run, adds the last if it alone fails (arXiv 2505.22618).

    `factor-1.0` is the rule of the Fast-dLLM paper, confidences sorted down. `factor-1.0-ref` is that of its code, with which all official
    runs of the benchmark, and so `--profile paper`, decode. The code passes the first rank unseen, the others where cₙ ≥ 1 − f/(n + 1);
    where only the last one fails it is revealed too. So two candidates always go together, and c = .99, .98, .1 with f = 1 give 3, not 2.
    """

    f: float = 1.0
    ref: bool = False

    def __post_init__(self) -> None:
        if not self.f > 0:
            raise ValueError(f"the factor is a positive number, not {self.f}")

    def select(self, step: Step) -> Tensor:
        rank = step.rank(step.confidence)  # (R, C), n − 1
        if self.ref:
            bound = 1 - self.f / (rank + 2).double()
            passes = step.masked & ((rank == 0) | (step.confidence >= bound))
            count, candidates = passes.sum(-1), step.masked.sum(-1)  # (R,); what follows a failing rank fails too
            return step.first(step.confidence, torch.where(count >= candidates - 1, candidates, count))
        holds = step.masked & ((rank + 2) * (1 - step.confidence) < self.f)
        largest = torch.where(holds, rank + 1, 0).amax(-1)  # (R,)
        return step.at_least_best(rank < largest[:, None], step.confidence)
