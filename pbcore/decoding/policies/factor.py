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
    """Reveals the largest n with (n + 1)(1 − cₙ) < f, confidences sorted down, at least one (Fast-dLLM, arXiv 2505.22618).

    `ref` follows the reference code, which reveals one more when only the last rank fails: c = .99, .98, .1 and f = 1 give 3, not 2.
    """

    f: float = 1.0
    ref: bool = False

    def __post_init__(self) -> None:
        if not self.f > 0:
            raise ValueError(f"the factor is a positive number, not {self.f}")

    def select(self, step: Step) -> Tensor:
        rank = step.rank(step.confidence)  # (R, C)
        holds = step.masked & ((rank + 2) * (1 - step.confidence) < self.f)
        largest = torch.where(holds, rank + 1, 0).amax(-1)  # (R,)
        if self.ref:
            candidates = step.masked.sum(-1)
            largest = torch.where(largest == candidates - 1, candidates, largest)
        return step.at_least_best(rank < largest[:, None], step.confidence)
