"""Reviews: new predictions for revealed tokens, for policies that mask them again or replace them.

A policy requests them by its attribute `review`: "seen" predicts with the token visible to the model (LLaDA2.1's
editing), "hidden" with it hidden (WINO's shadow block). R rows, L canvas positions, C slots, N revealed slots, V
tokens.
"""

from pbcore.decoding.prediction import predict, probability
from pbcore.decoding.step import Review
from pbcore.lazy_torch import Tensor, torch


def marked(canvas: Tensor, where: Tensor, slots: Tensor) -> Tensor:
    """The canvas positions (R, L) of the given slots (R, C)."""
    mark = torch.zeros_like(canvas, dtype=torch.bool)
    row, slot = slots.nonzero(as_tuple=True)
    mark[row, where[row, slot]] = True
    return mark


def reviewed(
    logits: Tensor,
    revealed: Tensor,
    present: Tensor,
    temperature: float,
    draws: Tensor | None,
    share: Tensor | None = None,
) -> Review:
    """The review of the `revealed` slots (R, C) from their logits (N, V); `present` (R, C) are the tokens that stand
    there, `share` (N,) the mask token's probabilities.
    """
    token, confidence = predict(logits, temperature, None if draws is None else draws[revealed])
    numbers = torch.zeros(revealed.shape, dtype=confidence.dtype, device=confidence.device)
    return Review(
        torch.zeros_like(present).masked_scatter(revealed, token),
        numbers.masked_scatter(revealed, confidence),
        numbers.masked_scatter(revealed, probability(logits, present[revealed])),
        None if share is None else numbers.masked_scatter(revealed, share),
    )
