"""Joint thresholds: filling masks and editing tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from pbcore.decoding.policies.registry import register_policy
from pbcore.decoding.step import Move, Step


@register_policy("joint")
@dataclass(frozen=True, slots=True)
class JointThreshold:
    """Reveals all slots with confidence > γ, at least the best, and replaces revealed tokens by others predicted with
    more than `edit`.

    LLaDA2.1, arXiv 2602.08676. A full block is edited further until nothing changes, for at most `post` steps. γ .5
    with `edit` 0 is the paper's speedy mode, .7 with .5 its quality mode. For models trained to edit; other models
    re-predict visible tokens poorly.

    State: steps since the block was full.
    """

    gamma: float = 0.5
    edit: float = 0.0
    post: int = 16
    review: ClassVar[str] = "seen"
    rewrites: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0 <= self.gamma <= 1 or not 0 <= self.edit <= 1:
            raise ValueError(f"joint takes two probabilities in [0, 1], not gamma {self.gamma} and edit {self.edit}")

    def cap(self, slots: int) -> int:
        return slots + self.post

    def select(self, step: Step) -> Move:
        assert step.review is not None
        revealed, full = step.inside & ~step.masked, ~step.masked.any(-1)
        fill = step.at_least_best(step.confidence > self.gamma, step.confidence)
        edit = revealed & (step.review.token != step.token) & (step.review.confidence > self.edit)
        after = step.state("joint after", per="row")  # (R,)
        after.copy_(torch.where(full, after + 1, 0.0))
        fills = ~(step.masked & ~fill).any(-1)
        changed = (fill | edit).any(-1)
        return Move(
            fill,
            token=torch.where(edit, step.review.token, step.token),
            confidence=torch.where(edit, step.review.confidence, step.confidence),
            revise=edit,
            hold=fills & changed & (after < self.post),
        )
