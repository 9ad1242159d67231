"""Left-to-right top-k."""

from dataclasses import dataclass
from typing import ClassVar

from pbcore.decoding.policies.registry import register_policy
from pbcore.decoding.step import Step
from pbcore.lazy_torch import Tensor


@register_policy("left_to_right")
@dataclass(frozen=True, slots=True)
class LeftToRight:
    """Reveals the k leftmost masked positions; equal to blocks of k with one step each."""

    k: int | None = None
    reads: ClassVar[str] = "numbers"
    chooses: ClassVar[str] = "positions"

    def select(self, step: Step) -> Tensor:
        return step.best(-step.position.to(step.confidence.dtype), self.k)
