"""Margin top-k."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from pbcore.decoding.policies.registry import register_policy
from pbcore.decoding.step import Step


@register_policy("margin")
@dataclass(frozen=True, slots=True)
class Margin:
    """Reveals the k positions with the widest gap p₁ − p₂ between the two likeliest tokens (Kim et al., arXiv
    2502.06768).
    """

    k: int | None = None

    def select(self, step: Step) -> Tensor:
        return step.best(step.rowwise(_margin), self.k)


def _margin(log_probs: Tensor) -> Tensor:
    """p₁ − p₂ of log-probabilities (m, V), V ≥ 2."""
    top = log_probs.topk(2, dim=-1).values.exp()
    return top[:, 0] - top[:, 1]
