"""Mean-field selection of compatible positions."""

import math
from dataclasses import dataclass
from typing import ClassVar

from pbcore.decoding.policies.registry import register_policy
from pbcore.decoding.step import Step
from pbcore.lazy_torch import Tensor, torch

MOST_TOKENS = 64  # kept of each distribution when two are compared


@register_policy("meanfield")
@dataclass(frozen=True, slots=True)
class MeanField:
    """Reveals the positions of mean-field probability at least γ, else the best (arXiv 2606.15805).

    A position speaks for itself by its log-odds c = ln p₁ − ln p₂, and against those that it resembles: conflicts are
    Dᵢⱼ = 1 − JSD(pᵢ, pⱼ) / ln 2, divided by the largest. From q = σ(c), `rounds` updates qᵢ = σ(cᵢ − Σⱼ Dᵢⱼ qⱼ).
    Distributions are compared by their 64 likeliest tokens, renormalised. Positions that are sure of the same token
    count as conflicting, too. From the paper alone; revealing the best where none qualifies is a reproduction's choice.
    """

    gamma: float = 0.9
    rounds: int = 2
    chooses: ClassVar[str] = "tokens"

    def __post_init__(self) -> None:
        if not 0 <= self.gamma <= 1:
            raise ValueError(f"meanfield's threshold is a probability in [0, 1], not {self.gamma}")

    def select(self, step: Step) -> Tensor:
        best = step.logits.topk(2, dim=-1).values.double()  # (M, 2)
        odds = step.scatter(best[:, 0] - best[:, 1])  # (R, C)
        share = torch.zeros_like(odds)
        log_probs, start = step.log_probs(), 0
        for row, count in enumerate(step.masked.sum(-1).tolist()):
            own = odds[row, step.masked[row]]  # (m,)
            conflict = _conflicts(log_probs[start : start + count])  # (m, m)
            q = own.sigmoid()
            for _ in range(self.rounds):
                q = (own - conflict @ q).sigmoid()
            share[row, step.masked[row]] = q
            start += count
        return step.at_least_best(share >= self.gamma, share)


def _conflicts(log_probs: Tensor) -> Tensor:
    """Similarity (m, m) of a row's distributions (m, V), 1 for the most similar pair, 0 on the diagonal."""
    top = log_probs.topk(min(MOST_TOKENS, log_probs.shape[-1]), dim=-1)
    tokens, where = torch.unique(top.indices, return_inverse=True)  # the union of the kept tokens
    kept = torch.zeros(len(log_probs), len(tokens), dtype=torch.double, device=log_probs.device)
    kept.scatter_(1, where, top.values.double().exp())
    kept /= kept.sum(-1, keepdim=True)
    own = _entropy(kept)  # (m,)
    mixed = [_entropy((one + kept) / 2) for one in kept]  # (m,) each
    divergence = torch.stack(mixed) - (own[:, None] + own) / 2 if mixed else kept.new_zeros(0, 0)
    similar = (1 - divergence / math.log(2)).clamp(0, 1).fill_diagonal_(0.0)
    return similar / similar.max().clamp(min=1e-12) if len(kept) > 1 else similar


def _entropy(probs: Tensor) -> Tensor:
    """Entropy (…) in nats of distributions (…, v)."""
    return -torch.xlogy(probs, probs).sum(-1)
