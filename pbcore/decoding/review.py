"""Reviews: what the model says of tokens already revealed, for policies that take them back or replace them.

A policy asks by its attribute `review`: "seen" for the model's prediction where it sees the token (LLaDA2.1's editing), "hidden" for the
prediction where it doesn't (WINO's shadow block). R rows, L canvas positions, C slots, M masked ones, N revealed ones, V tokens.
"""

from __future__ import annotations

import torch
from torch import Tensor

from pbcore.decoding.policies import Policy
from pbcore.decoding.prediction import predict, probability
from pbcore.decoding.step import Review
from pbcore.models.base import Denoiser
from pbcore.names import SamplerName


def review_of(policy: Policy) -> str | None:
    """The review that a policy asks for: seen, hidden, or None."""
    return getattr(policy, "review", None)


def check_review(model: Denoiser, policy: Policy, name: SamplerName) -> None:
    """Raises ValueError where the model can't give the review that the policy needs, or not with the sampler's cache."""
    review = review_of(policy)
    offered: frozenset[str] = getattr(model, "reviews", frozenset())
    if review and review not in offered:
        what = "predictions for tokens it sees" if review == "seen" else "predictions for tokens hidden from it"
        raise ValueError(
            f"sampler {name}: {name.policy} needs {what}, and {model.name} gives "
            f"{'only ' + ', '.join(sorted(offered)) if offered else 'none'}; choose another sampler or model"
        )
    if review == "hidden" and name.cache:
        raise ValueError(
            f"sampler {name}: {name.policy}'s two-part forward runs without a cache; leave +{name.cache} out"
        )


def marked(canvas: Tensor, where: Tensor, slots: Tensor) -> Tensor:
    """Canvas positions (R, L) of some slots (R, C)."""
    mark = torch.zeros_like(canvas, dtype=torch.bool)
    row, slot = slots.nonzero(as_tuple=True)
    mark[row, where[row, slot]] = True
    return mark


def split(logits: Tensor, masked: Tensor, inside: Tensor, review: str | None) -> tuple[Tensor, Tensor]:
    """The logits of the masked slots (M, V) and of the revealed ones (N, V)."""
    if review == "seen":  # one forward's positions in row-major order, both kinds mixed
        return logits[masked[inside]], logits[~masked[inside]]
    count = int(masked.sum()) if review else len(logits)
    return logits[:count], logits[count:]


def reviewed(logits: Tensor, revealed: Tensor, present: Tensor, temperature: float, draws: Tensor | None) -> Review:
    """The review of the `revealed` slots (R, C), whose logits are (N, V) and whose tokens are `present`."""
    token, confidence = predict(logits, temperature, None if draws is None else draws[revealed])
    numbers = torch.zeros(revealed.shape, dtype=confidence.dtype, device=confidence.device)
    return Review(
        torch.zeros_like(present).masked_scatter(revealed, token),
        numbers.masked_scatter(revealed, confidence),
        numbers.masked_scatter(revealed, probability(logits, present[revealed])),
    )
