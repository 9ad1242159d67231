"""Random top-k."""

from dataclasses import dataclass
from typing import ClassVar

from pbcore.decoding.policies.registry import register_policy
from pbcore.decoding.step import Step
from pbcore.lazy_torch import Tensor


@register_policy("random")
@dataclass(frozen=True, slots=True)
class Random:
    """Reveals k masked positions drawn uniformly, anew at each step (LLaDA, arXiv 2502.09992)."""

    k: int | None = None
    reads: ClassVar[str] = "numbers"
    chooses: ClassVar[str] = "positions"

    def select(self, step: Step) -> Tensor:
        return step.best(step.uniform(), self.k)
