"""KL-adaptive stability sampling."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pbcore.decoding.policies.registry import register_policy
from pbcore.decoding.step import Step


@register_policy("klass")
@dataclass(frozen=True, slots=True)
class Klass:
    """Reveals slots with confidence > γ and KL(p_t ‖ p_{t−1}) < `kl` over the last `history` steps, else the best one.

    KLASS, arXiv 2511.05664. Divergences are in nats. A position can count as stable from its prediction `history` + 1 in the block on.

    State: each slot's last distribution and last divergences.
    """

    gamma: float = 0.9
    kl: float = 0.01
    history: int = 2

    def __post_init__(self) -> None:
        if not 0 <= self.gamma <= 1 or self.kl <= 0 or self.history < 1:
            raise ValueError(
                f"klass takes a confidence in [0, 1], a positive KL bound and a history of at least 1, not {self}"
            )

    def select(self, step: Step) -> Tensor:
        log_probs = step.log_probs()  # (M, V)
        now = log_probs.new_full(
            (*step.masked.shape, log_probs.shape[-1]), -1e4
        )  # (R, C, V); no candidate, no agreement
        now[step.masked] = log_probs
        before = step.kept.get("klass before", now)
        known = log_probs.exp() > 0
        terms = log_probs.exp() * (log_probs - before[step.masked]).masked_fill(~known, 0.0)
        drift = step.scatter(terms.sum(-1), torch.inf)  # (R, C)
        drift = torch.where((step.index > 0)[:, None], drift, torch.inf)
        past = step.kept.get(
            "klass drifts", torch.full((*drift.shape, self.history), torch.inf, dtype=drift.dtype, device=drift.device)
        )
        drifts = torch.cat([past[..., 1:], drift[..., None]], dim=-1)  # (R, C, history)
        drifts = torch.where((step.index > 0)[:, None, None], drifts, torch.inf)
        step.remember("klass before", now)
        step.remember("klass drifts", drifts)
        stable = (drifts < self.kl).all(-1)
        return step.at_least_best(stable & (step.confidence > self.gamma), step.confidence)
