"""Hierarchical unmasking."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pbcore.decoding.policies.registry import register_policy
from pbcore.decoding.step import Step


@register_policy("hierarchy")
@dataclass(frozen=True, slots=True)
class Hierarchy:
    """Reveals the best position of every run of masks where it exceeds `low`, any that exceeds γ, and always the best.

    dInfer, arXiv 2510.08666. A run ends at a token or at the block's edge, so each step splits the runs, and what it reveals of them lies
    apart. γ = 1 leaves the second condition out, as the authors' code does by default.
    """

    gamma: float = 0.9
    low: float = 0.4

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.gamma <= 1:
            raise ValueError(f"hierarchy takes 0 ≤ low ≤ gamma ≤ 1, not low {self.low} and gamma {self.gamma}")

    def select(self, step: Step) -> Tensor:
        confidence = step.confidence
        adjacent = torch.zeros_like(step.masked)
        adjacent[:, 1:] = step.masked[:, 1:] & step.masked[:, :-1] & (step.column.diff(dim=-1) == 1)
        run = (~adjacent).cumsum(-1) - 1  # (R, C): number of the slot's run
        same = (run[:, :, None] == run[:, None, :]) & step.masked[:, None, :]  # (R, C, C)
        rank = step.rank(confidence)
        best = rank == torch.where(same, rank[:, None, :], rank.shape[-1]).amin(-1)
        return step.at_least_best((best & (confidence > self.low)) | (confidence > self.gamma), confidence)
