"""Mutual-stability sampling."""

from dataclasses import dataclass
from typing import ClassVar

from pbcore.decoding.policies.registry import register_policy
from pbcore.decoding.step import Step
from pbcore.lazy_torch import Tensor, torch


@register_policy("less")
@dataclass(frozen=True, slots=True)
class Less:
    """Reveals slots of confidence at least γ whose likeliest token was the same over the last `history` steps and whose
    distribution moved by a Jensen-Shannon divergence of at most `jsd` since the last, else the best one.

    LESS, arXiv 2606.16908; a sibling of `klass`. From descriptions of the paper alone, without its code: γ .75, `jsd`
    .04 nats and 2 steps are its settings as reported. Our choice: distributions are compared by the `top` likeliest
    tokens of now and all others as one, all qualifying slots are revealed, and the surest where none qualifies.

    State: each slot's last distribution, its likeliest token, and for how many steps it has been that.
    """

    gamma: float = 0.75
    jsd: float = 0.04
    history: int = 2
    top: int = 10
    chooses: ClassVar[str] = "tokens"

    def __post_init__(self) -> None:
        if not 0 <= self.gamma <= 1 or self.jsd < 0 or self.history < 2 or self.top < 1:
            raise ValueError(
                "less takes a confidence in [0, 1], a divergence of at least 0 nats, a history of at least 2 steps and "
                f"at least 1 token, not {self}"
            )

    def select(self, step: Step) -> Tensor:
        probs = step.log_probs().exp()  # (M, V)
        before = step.state("less before", shape=probs.shape[-1:], dtype=probs.dtype)  # (R, C, V)
        token = step.state("less token", -1, dtype=torch.long)  # (R, C)
        same = step.state("less same")  # (R, C): steps in which it was the likeliest
        likeliest = probs.argmax(-1)  # (M,)
        same[step.masked] = torch.where(token[step.masked] == likeliest, same[step.masked] + 1, 1.0)
        token[step.masked] = likeliest
        top = probs.topk(min(self.top, probs.shape[-1]), dim=-1).indices  # (M, K)
        drift = step.scatter(_divergence(_lumped(probs, top), _lumped(before[step.masked], top)))  # (R, C)
        before[step.masked] = probs
        stable = (same >= self.history) & (drift <= self.jsd)
        return step.at_least_best(stable & (step.confidence >= self.gamma), step.confidence)


def _lumped(probs: Tensor, tokens: Tensor) -> Tensor:
    """Probabilities (M, K + 1) of `tokens` (M, K), and of all others together."""
    kept = probs.gather(-1, tokens).double()
    return torch.cat([kept, (1 - kept.sum(-1, keepdim=True)).clamp(min=0)], dim=-1)


def _divergence(p: Tensor, q: Tensor) -> Tensor:
    """The Jensen-Shannon divergence (M,) in nats of distributions (M, K)."""
    middle = (p + q) / 2
    return (torch.xlogy(p, p / middle) + torch.xlogy(q, q / middle)).nan_to_num(0.0).sum(-1) / 2
