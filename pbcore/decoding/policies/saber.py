"""Adaptive acceleration with backtracking."""

from dataclasses import dataclass
from typing import ClassVar

from pbcore.decoding.policies.registry import register_policy
from pbcore.decoding.step import Move, Step
from pbcore.lazy_torch import torch


@register_policy("saber")
@dataclass(frozen=True, slots=True)
class Saber:
    """Reveals all above the mean confidence at which the block's tokens were committed, at least `n`; then takes back
    those whose confidence moved least (Saber, arXiv 2510.18165).

    Where nothing is committed the threshold is 1. A step that reveals m tokens and leaves masks takes back
    min(max(⌊n/2⌋, ⌈m/8⌉), m − 1) tokens of earlier steps, those whose likeliest token's probability changed least since
    the last step, as in the authors' code; so a step keeps at least one token more and a block ends.

    State: each committed slot's confidence when revealed; each slot's last confidence.
    """

    n: int = 2
    review: ClassVar[str] = "seen"

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ValueError(f"saber reveals at least 1 token a step, not {self.n}")

    def cap(self, slots: int) -> int:
        return slots

    def select(self, step: Step) -> Move:
        assert step.review is not None
        commits, last = step.state("saber commits"), step.state("saber last", -1.0)  # (R, C)
        revealed = step.inside & ~step.masked
        count = revealed.sum(-1)  # (R,)
        mean = torch.where(count > 0, (commits * revealed).sum(-1) / count.clamp(min=1), 1.0)
        reveal = (step.masked & (step.confidence > mean[:, None])) | step.best(step.confidence, self.n)
        fresh = reveal.sum(-1)
        back = torch.minimum((fresh + 7).div(8, rounding_mode="floor").clamp(min=self.n // 2), fresh - 1)
        back = back * (step.masked & ~reveal).any(-1)  # none from a block that is full now
        now = torch.where(step.masked, step.confidence, step.review.confidence)
        moved = torch.where(last >= 0, (now - last).abs(), torch.inf)
        remask = revealed & (step.rank(-moved, revealed) < back[:, None])
        commits.copy_(torch.where(reveal, step.confidence, commits))
        last.copy_(torch.where(step.inside, now, last))
        return Move(reveal, remask)
