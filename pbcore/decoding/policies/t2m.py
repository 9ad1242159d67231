"""Token-to-mask editing."""

from dataclasses import dataclass
from typing import ClassVar

from pbcore.decoding.policies.registry import register_policy
from pbcore.decoding.step import Move, Step
from pbcore.lazy_torch import torch


@register_policy("t2m")
@dataclass(frozen=True, slots=True)
class TokenToMask:
    """Reveals all with confidence > γ, at least the best, and masks suspects of earlier steps again (T2M, arXiv
    2604.18738).

    A token of the block is suspect if its probability, while visible, is below `low`, has fallen by more than `drop`
    since the last step, or if another token is predicted there with more than `other`. Each is masked at most `times`
    times, at most a `share` of the block's tokens (at least one) in a step, the least probable first. A full block is
    reviewed until nothing is taken back, at most `post` steps. Tokens are never overwritten; `joint` does that. For
    models trained to predict their visible tokens (LLaDA2.1).

    State: how often each slot was masked again, its token's last probability, steps since the block was first full.
    """

    gamma: float = 0.9
    low: float = 0.1
    other: float = 0.9
    drop: float = 0.3
    times: int = 3
    share: float = 0.25
    post: int = 16
    review: ClassVar[str] = "seen"

    def __post_init__(self) -> None:
        if not all(0 <= value <= 1 for value in (self.gamma, self.low, self.other, self.drop, self.share)):
            raise ValueError(f"t2m takes gamma, low, other, drop and share in [0, 1], not {self}")

    def cap(self, slots: int) -> int:
        """Every slot is filled at most `times` + 1 times, one by one at worst."""
        return slots * (self.times + 1) + self.post

    def select(self, step: Step) -> Move:
        assert step.review is not None
        back, last = step.state("t2m back"), step.state("t2m last")  # (R, C)
        after = step.state("t2m after", per="row")  # (R,)
        revealed, full = step.inside & ~step.masked, ~step.masked.any(-1)
        reveal = step.at_least_best(step.confidence > self.gamma, step.confidence)
        support = step.review.support
        suspect = (support < self.low) | (last - support > self.drop)
        suspect |= (step.review.token != step.token) & (step.review.confidence > self.other)
        editable = revealed & (back < self.times)
        most = (editable.sum(-1) * self.share).long().clamp(min=1)  # (R,)
        suspect &= editable & (after < self.post)[:, None]
        remask = suspect & (step.rank(-support, suspect) < most[:, None])
        back += remask
        last.copy_(torch.where(reveal, step.confidence, torch.where(revealed & ~remask, support, 0.0)))
        after += full
        filled = ~(step.masked & ~reveal).any(-1)
        again = step.masked.any(-1) | remask.any(-1)
        return Move(reveal, remask, hold=filled & again & (after < self.post))
