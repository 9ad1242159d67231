"""Hierarchical unmasking."""

from dataclasses import dataclass
from typing import ClassVar

from pbcore.decoding.policies.registry import register_policy
from pbcore.decoding.step import Step
from pbcore.lazy_torch import Tensor, torch


@register_policy("hierarchy")
@dataclass(frozen=True, slots=True)
class Hierarchy:
    """Reveals the best position of each run of masks if it exceeds `low`, every position that exceeds γ, and always the
    best one.

    dInfer, arXiv 2510.08666. A run of masks ends at a token or at the block's edge. Each step splits the runs, so
    tokens revealed together are apart. γ = 1 switches the second condition off, as the authors' code does by default.
    """

    gamma: float = 0.9
    low: float = 0.4
    reads: ClassVar[str] = "numbers"
    chooses: ClassVar[str] = "tokens"

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
