"""Bold drafts, of which those that the next forward finds less probable are taken back."""

from dataclasses import dataclass
from typing import ClassVar

from pbcore.decoding.policies.recheck import drafted, failing
from pbcore.decoding.policies.registry import register_policy
from pbcore.decoding.step import Move, Step
from pbcore.lazy_torch import torch


@register_policy("recheck_shadow")
@dataclass(frozen=True, slots=True)
class RecheckShadow:
    """`recheck` without what-if rows: writes its drafts, and masks those again whose support in the next forward is
    below `beta` of their probability when drafted.

    Support is the probability of a token while hidden from the model, as in `wino` from a shadow block in the same
    forward. Trained models see the token there through the other columns, so some errors pass. A step that checks
    reveals nothing. If all drafts fail, the best stays.

    State: the probability of each draft that waits for its check.
    """

    most: int = 4
    beta: float = 0.9
    sure: float = 0.95
    gap: int = 2
    rewrites: ClassVar[bool] = True
    review: ClassVar[str] = "hidden"

    def __post_init__(self) -> None:
        if self.most < 1 or self.beta < 0 or self.sure < 0 or self.gap < 1:
            raise ValueError(
                "recheck_shadow takes at least 1 draft and a gap of at least 1, beta and sure of at least 0, not "
                f"{self}"
            )

    def cap(self, slots: int) -> int:
        """Every draft and its check leave at least one token more."""
        return 2 * slots

    def select(self, step: Step) -> Move:
        assert step.review is not None
        waiting = step.state("recheck waiting")  # (R, C)
        waits = waiting > 0
        checking = waits.any(-1, keepdim=True)  # (R, 1)
        lifts = (step.review.support / waiting).masked_fill(~waits, torch.inf)
        reveal, open_, token, confidence = drafted(step, self.most, self.sure, self.gap)
        reveal = reveal & ~checking
        drafts = open_ & reveal & (open_.sum(-1, keepdim=True) > 1)
        waiting.copy_(torch.where(drafts, confidence, 0.0))
        return Move(reveal, failing(lifts, self.beta), token, confidence, hold=drafts.any(-1))
