"""Margin top-k."""

from dataclasses import dataclass
from typing import ClassVar

from pbcore.decoding.policies.registry import register_policy
from pbcore.decoding.step import Step
from pbcore.lazy_torch import Tensor


@register_policy("margin")
@dataclass(frozen=True, slots=True)
class Margin:
    """Reveals the k positions with the widest gap p₁ − p₂ between the two likeliest tokens (Kim et al., arXiv
    2502.06768).
    """

    k: int | None = None
    reads: ClassVar[str] = "numbers"
    chooses: ClassVar[str] = "positions"

    def select(self, step: Step) -> Tensor:
        return step.best(step.margin(), self.k)
