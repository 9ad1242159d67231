"""Wide in, narrow out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from pbcore.decoding.policies.registry import register_policy
from pbcore.decoding.step import Move, Step


@register_policy("wino")
@dataclass(frozen=True, slots=True)
class WideInNarrowOut:
    """Drafts all confidence > γ (at least the best), and takes back tokens whose support has fallen below `back` (WINO, arXiv 2507.18578).

    Support is the probability of a revealed token where the model doesn't see it, from a shadow block in the same forward. As the authors'
    code: at most min(max(⌊.7 m⌋, 5), 20) of m masks are drafted, the surest; a step that drafts one token takes none back; otherwise
    the least supported go, fewer than the step before drafted (30 at first), which bounds a block of n slots to n steps.

    State: tokens drafted at the last step.
    """

    gamma: float = 0.6
    back: float = 0.9
    review: ClassVar[str] = "hidden"

    def __post_init__(self) -> None:
        if not 0 <= self.gamma <= 1 or not 0 <= self.back <= 1:
            raise ValueError(f"wino takes two probabilities in [0, 1], not {self.gamma} and {self.back}")

    def cap(self, slots: int) -> int:
        return slots

    def select(self, step: Step) -> Move:
        assert step.review is not None
        most = (step.masked.sum(-1) * 7 // 10).clamp(5, 20)  # (R,)
        wide = step.masked & (step.confidence > self.gamma)
        wide = torch.where((wide.sum(-1) > most)[:, None], step.first(step.confidence, most), wide)
        draft = step.at_least_best(wide, step.confidence)
        drafted = draft.sum(-1)
        last = step.memory("wino drafted", 30.0, per_slot=False)  # (R,)
        last[step.index == 0] = 30.0
        revealed = step.inside & ~step.masked
        support = step.review.support
        rank = step.rank(-support, revealed)
        narrow = revealed & (support < self.back) & (rank < (last - 1)[:, None]) & (drafted > 1)[:, None]
        last.copy_(drafted)
        return Move(draft, narrow)
