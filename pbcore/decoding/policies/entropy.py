"""Entropy top-k."""

from dataclasses import dataclass
from typing import ClassVar

from pbcore.decoding.policies.registry import register_policy
from pbcore.decoding.step import Step
from pbcore.lazy_torch import Tensor


@register_policy("entropy")
@dataclass(frozen=True, slots=True)
class Entropy:
    """Reveals the k positions of lowest entropy, i.e. highest Σ p ln(p + 1e-10) (Dream 7B, arXiv 2508.15487)."""

    k: int | None = None
    reads: ClassVar[str] = "numbers"
    chooses: ClassVar[str] = "positions"

    def select(self, step: Step) -> Tensor:
        return step.best(-step.entropy(), self.k)
