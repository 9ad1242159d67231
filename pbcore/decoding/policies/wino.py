"""Wide in, narrow out."""

from dataclasses import dataclass
from typing import ClassVar

from pbcore.decoding.policies.registry import register_policy
from pbcore.decoding.step import Move, Step
from pbcore.lazy_torch import torch


@register_policy("wino")
@dataclass(frozen=True, slots=True)
class WideInNarrowOut:
    """Reveals all with confidence > γ (at least the best) and remasks tokens whose support fell below `back` (WINO,
    arXiv 2507.18578).

    Support is the probability of a revealed token while hidden from the model, from a shadow block in the same forward.
    As in the authors' code, at most min(max(⌊.7 m⌋, 5), 20) of m masks are revealed, the surest. A step that reveals
    one token remasks none. Other steps remask the least supported tokens, fewer than the step before revealed (30 at
    first), so a block of n slots ends within n steps.

    State: tokens revealed at the last step.
    """

    gamma: float = 0.6
    back: float = 0.9
    review: ClassVar[str] = "hidden"

    def __post_init__(self) -> None:
        if not 0 <= self.gamma <= 1 or not 0 <= self.back <= 1:
            raise ValueError(f"wino takes two probabilities in [0, 1], not gamma {self.gamma} and back {self.back}")

    def cap(self, slots: int) -> int:
        return slots

    def select(self, step: Step) -> Move:
        assert step.review is not None
        most = (step.masked.sum(-1) * 7 // 10).clamp(5, 20)  # (R,)
        wide = step.masked & (step.confidence > self.gamma)
        wide = torch.where((wide.sum(-1) > most)[:, None], step.first(step.confidence, most), wide)
        draft = step.at_least_best(wide, step.confidence)
        drafted = draft.sum(-1)
        last = step.state("wino drafted", 30.0, per="row")  # (R,)
        revealed = step.inside & ~step.masked
        support = step.review.support
        rank = step.rank(-support, revealed)
        narrow = revealed & (support < self.back) & (rank < (last - 1)[:, None]) & (drafted > 1)[:, None]
        last.copy_(drafted)
        return Move(draft, narrow)
