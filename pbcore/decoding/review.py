"""Reviews: new predictions for revealed tokens, for policies that mask them again or replace them.

A policy requests them by its attribute `review`: "seen" predicts with the token visible to the model (LLaDA2.1's editing), "hidden"
with it hidden (WINO's shadow block). R rows, L canvas positions, C slots, M masked and N revealed slots, V tokens.
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
    """The review that a policy requests: seen, hidden, or None."""
    return getattr(policy, "review", None)


def check_review(model: Denoiser, policy: Policy, name: SamplerName) -> None:
    """Raises ValueError if the model, or the sampler's cache, doesn't support the review that the policy requests."""
    review = review_of(policy)
    offered: frozenset[str] = getattr(model, "reviews", frozenset())
    if review and review not in offered:
        what = "predictions for visible tokens" if review == "seen" else "predictions for hidden tokens"
        raise ValueError(
            f"sampler {name}: {name.policy} needs {what} (review {review!r}), and {model.name} offers "
            f"{'only ' + ', '.join(map(repr, sorted(offered))) if offered else 'no reviews'}; choose another sampler or model"
        )
    if review == "hidden" and name.cache:
        raise ValueError(
            f"sampler {name}: {name.policy}'s two-part forward runs without a cache; leave +{name.cache} out"
        )


def marked(canvas: Tensor, where: Tensor, slots: Tensor) -> Tensor:
    """The canvas positions (R, L) of the given slots (R, C)."""
    mark = torch.zeros_like(canvas, dtype=torch.bool)
    row, slot = slots.nonzero(as_tuple=True)
    mark[row, where[row, slot]] = True
    return mark


def split(logits: Tensor, masked: Tensor, inside: Tensor, review: str | None) -> tuple[Tensor, Tensor]:
    """The logits of the masked slots (M, V) and of the revealed ones (N, V)."""
    if review == "seen":  # both kinds in the row-major order of their positions
        return logits[masked[inside]], logits[~masked[inside]]
    count = int(masked.sum()) if review else len(logits)
    return logits[:count], logits[count:]


def reviewed(logits: Tensor, revealed: Tensor, present: Tensor, temperature: float, draws: Tensor | None) -> Review:
    """The review of the `revealed` slots (R, C) from their logits (N, V); `present` (R, C) are the tokens that stand there."""
    token, confidence = predict(logits, temperature, None if draws is None else draws[revealed])
    numbers = torch.zeros(revealed.shape, dtype=confidence.dtype, device=confidence.device)
    return Review(
        torch.zeros_like(present).masked_scatter(revealed, token),
        numbers.masked_scatter(revealed, confidence),
        numbers.masked_scatter(revealed, probability(logits, present[revealed])),
    )
