"""Entropy-bounded unmasking."""

from dataclasses import dataclass
from typing import ClassVar

from pbcore.decoding.policies.registry import register_policy
from pbcore.decoding.step import Step
from pbcore.lazy_torch import Tensor


@register_policy("eb")
@dataclass(frozen=True, slots=True)
class EntropyBounded:
    """Reveals the k surest positions with Σ_{i≤k} Hᵢ − max_{i≤k} Hᵢ ≤ γ, the largest such k, at least 1 (arXiv
    2505.24857).

    Entropies H in nats, in ascending order. The sum without its largest term bounds the loss from revealing the k
    tokens together.
    """

    gamma: float = 0.1
    reads: ClassVar[str] = "numbers"
    chooses: ClassVar[str] = "positions"

    def __post_init__(self) -> None:
        if self.gamma < 0:
            raise ValueError(f"the entropy bound is at least 0 nats, not {self.gamma}")

    def select(self, step: Step) -> Tensor:
        surety = -step.entropy()  # (R, C)
        entropy = step.ordered(surety, -surety)
        within = (entropy.cumsum(-1) - entropy <= self.gamma) & step.ordered(surety, step.masked)
        return step.first(surety, within.cumprod(-1).sum(-1))
