"""Joint thresholds: filling masks and editing tokens."""

from dataclasses import dataclass, field
from typing import ClassVar

from pbcore.decoding.block_schedule import Course
from pbcore.decoding.mask_confidence import NEEDS, chosen
from pbcore.decoding.policies.registry import register_policy
from pbcore.decoding.policies.sdar_dynamic import surer_or_first
from pbcore.decoding.step import Move, Step
from pbcore.lazy_torch import torch


@register_policy("joint")
@dataclass(frozen=True)
class JointThreshold:
    """Reveals all slots with confidence > γ, at least the best, and replaces revealed tokens by others predicted with
    more than `edit`.

    LLaDA2.1, arXiv 2602.08676. A full block is edited further until nothing changes, for at most `post` steps. γ .5
    with `edit` 0 is the paper's speedy mode, .7 with .5 its quality mode. Where fewer than `least` slots exceed γ, the
    `least` best are revealed. A token where the mask itself is predicted with more than `edit` is masked again,
    as in the authors' code, which may go on with that for ever; here a block ends after as many steps as it has slots,
    and `post` more. The answer of a block model ends with its first EOS; with `early` no block follows one. For models
    trained to edit; other models re-predict visible tokens poorly.

    State: steps since the block was first full.
    """

    gamma: float = 0.5
    edit: float = 0.0
    post: int = 16
    least: int = 1
    early: bool = False
    course: Course = field(default=Course(stop="never", ends_at_stop=True), init=False, repr=False)
    review: ClassVar[str] = "seen"
    needs: ClassVar[frozenset[str]] = NEEDS
    rewrites: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0 <= self.gamma <= 1 or not 0 <= self.edit <= 1:
            raise ValueError(f"joint takes two probabilities in [0, 1], not gamma {self.gamma} and edit {self.edit}")
        if self.least < 1:
            raise ValueError(f"least is the fewest tokens to reveal in a step, at least 1, not {self.least}")
        if self.early:
            object.__setattr__(self, "course", Course(ends_at_stop=True))

    def cap(self, slots: int) -> int:
        return slots + self.post

    def select(self, step: Step) -> Move:
        assert step.review is not None
        revealed, full = step.inside & ~step.masked, ~step.masked.any(-1)
        least = torch.full_like(step.index, self.least)  # (R,)
        fill = chosen(step, lambda confidence: surer_or_first(step, confidence, self.gamma, least))
        assert step.review.mask is not None
        own = step.review.confidence * (1 - step.review.mask)  # (R, C)
        blank = revealed & (step.review.mask > own)
        edit = revealed & ~blank & (step.review.token != step.token) & (own > self.edit)
        remask = blank & (step.review.mask > self.edit)
        after = step.state("joint after", per="row")  # (R,)
        after += full
        fills = ~(step.masked & ~fill).any(-1)
        changed = (fill | edit | remask).any(-1)
        return Move(
            fill,
            remask,
            token=torch.where(edit, step.review.token, step.token),
            confidence=torch.where(edit, step.review.confidence, step.confidence),
            revise=edit,
            hold=fills & changed & (after < self.post),
        )
