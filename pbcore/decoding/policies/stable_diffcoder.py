"""Stable-DiffCoder's decoder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from pbcore.decoding.course import Course
from pbcore.decoding.policies.registry import register_policy
from pbcore.decoding.schedule import share
from pbcore.decoding.step import Step
from pbcore.decoding.whole import NEEDS, chosen


@register_policy("stable_diffcoder")
@dataclass(frozen=True, slots=True)
class StableDiffcoder:
    """Spreads a block's masks over its steps, earlier steps more; with γ reveals all of confidence ≥ γ instead, and
    always the best.

    `steps` are those of the whole answer (default: one per token), shared equally by its blocks, a first block that the
    prompt begins not counted. With γ and too few steps the authors' code leaves masks in a block; here it goes on until
    none is left.
    """

    gamma: float | None = None
    steps: int | None = None
    course: ClassVar[Course] = Course(fill="length", pads=True, store="unstopped")
    needs: ClassVar[frozenset[str]] = NEEDS

    def __post_init__(self) -> None:
        if self.gamma is not None and not 0 <= self.gamma <= 1:
            raise ValueError(f"the threshold is a probability in [0, 1], not {self.gamma}")
        if self.steps is not None and self.steps < 1:
            raise ValueError(f"steps is the number of steps of the whole answer, at least 1, not {self.steps}")

    def select(self, step: Step) -> Tensor:
        gamma = self.gamma
        if gamma is not None:
            return chosen(step, lambda confidence: step.at_least_best(confidence >= gamma, confidence))
        assert step.requested is not None
        blocks = (step.requested // step.size).clamp(min=1)  # (R,)
        steps = step.requested if self.steps is None else torch.full_like(blocks, self.steps)
        count = share(step.slots, (steps // blocks).clamp(min=1), step.index)  # (R,)
        return chosen(step, lambda confidence: step.first(confidence, count))
