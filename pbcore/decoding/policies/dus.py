"""Dilated unmasking."""

from dataclasses import dataclass
from typing import ClassVar

from pbcore.decoding.policies.registry import register_policy
from pbcore.decoding.step import Step
from pbcore.lazy_torch import Tensor, torch


@register_policy("dus")
@dataclass(frozen=True, slots=True)
class Dilated:
    """Reveals every position at a stride that shrinks by `base` each step: ⌊L/base⌋, ⌊L/base²⌋ … 1 (DUS, arXiv
    2506.19037).

    L is the number of slots in the block. The order is fixed and ignores the model's confidence; a block takes O(log L)
    steps.
    """

    base: int = 2
    reads: ClassVar[str] = "numbers"
    chooses: ClassVar[str] = "positions"

    def __post_init__(self) -> None:
        if self.base < 2:
            raise ValueError(f"dus divides the stride by its base, which must be at least 2, not {self.base}")

    def select(self, step: Step) -> Tensor:
        slots = step.inside.sum(-1)  # (R,)
        stride = (slots // self.base ** (step.index + 1)).clamp(min=1)
        place = torch.arange(step.masked.shape[-1], device=stride.device)  # (C,)
        return step.at_least_best(place % stride[:, None] == 0, -step.position.double())
