"""Trace credits."""

from dataclasses import dataclass
from typing import ClassVar

from pbcore.decoding.policies.registry import register_policy
from pbcore.decoding.prediction import predict
from pbcore.decoding.step import Move, Step
from pbcore.lazy_torch import torch


@register_policy("credit")
@dataclass(frozen=True, slots=True)
class Credit:
    """Threshold γ on logits raised by the credit that a slot's top tokens gained at earlier steps (CreditDecoding,
    arXiv 2510.06133).

    At each step of a block credits decay, M ← βM, the top token gains p^`power`, and the logits become l + α ln(M + 1),
    from which token and confidence are taken. Reveals all slots with confidence ≥ γ, at least the best. α .7, power .2,
    β .8.

    State: each slot's top tokens and their gains.
    """

    gamma: float = 0.9
    alpha: float = 0.7
    power: float = 0.2
    beta: float = 0.8
    rewrites: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0 <= self.gamma <= 1 or not 0 <= self.beta <= 1:
            raise ValueError(f"credit takes a threshold and a decay beta in [0, 1], not {self}")

    def select(self, step: Step) -> Move:
        rows, slots = step.masked.shape
        top, probability = predict(step.logits, 0.0, None)  # (M,) each
        tokens = step.state("credit tokens", 0, shape=(slots,), dtype=torch.int64)  # (R, C, C): one per step
        gains = step.state("credit gains", 0.0, shape=(slots,), dtype=torch.float32)
        gains *= self.beta
        now = step.index.clamp(max=slots - 1)[:, None].expand(rows, slots)[..., None]  # (R, C, 1)
        tokens.scatter_(-1, now, step.token.masked_scatter(step.masked, top)[..., None])
        gain = step.scatter(probability.float() ** self.power)
        gains.scatter_(-1, now, gain[..., None])
        credit = torch.zeros_like(step.logits, dtype=torch.float32)  # (M, V)
        credit.scatter_add_(-1, tokens[step.masked], gains[step.masked])
        token, confidence = step.predict(step.logits + self.alpha * credit.log1p_())
        return Move(step.at_least_best(confidence >= self.gamma, confidence), token=token, confidence=confidence)
