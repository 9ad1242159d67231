"""Fréchet-bounded unmasking."""

from dataclasses import dataclass
from typing import ClassVar

from pbcore.decoding.policies.registry import register_policy
from pbcore.decoding.step import Step
from pbcore.lazy_torch import Tensor, torch


@register_policy("frechet")
@dataclass(frozen=True, slots=True)
class Frechet:
    """Reveals the largest n with Σ_{j≤n} cⱼ − (n − 1) − (1 − cₙ) > δ, at least 1 (arXiv 2606.02955).

    Confidences c in descending order. Σ cⱼ − (n − 1) is Fréchet's lower bound on the probability that all n tokens are
    correct.
    """

    delta: float = 0.1
    reads: ClassVar[str] = "numbers"
    chooses: ClassVar[str] = "tokens"

    def select(self, step: Step) -> Tensor:
        c = step.ordered(step.confidence, step.confidence)  # (R, C) descending
        n = torch.arange(1, c.shape[-1] + 1, device=c.device)
        holds = (c.cumsum(-1) - (n - 1) - (1 - c) > self.delta) & step.ordered(step.confidence, step.masked)
        return step.first(step.confidence, torch.where(holds, n, 0).amax(-1))
