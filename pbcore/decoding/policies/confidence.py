"""Confidence top-k."""

from dataclasses import dataclass
from typing import ClassVar

from pbcore.decoding.policies.registry import register_policy
from pbcore.decoding.step import Step
from pbcore.lazy_torch import Tensor


@register_policy("confidence")
@dataclass(frozen=True, slots=True)
class Confidence:
    """Reveals the k positions whose predicted token is most probable (LLaDA's low-confidence remasking, arXiv
    2502.09992).
    """

    k: int | None = None
    reads: ClassVar[str] = "numbers"
    chooses: ClassVar[str] = "tokens"

    def select(self, step: Step) -> Tensor:
        return step.best(step.confidence, self.k)
