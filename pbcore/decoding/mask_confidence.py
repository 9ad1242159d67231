"""Confidences over the whole vocabulary, mask token included, as the authors of block models compute them."""

from collections.abc import Callable

from pbcore.decoding.step import Step
from pbcore.lazy_torch import Tensor, torch

NEEDS = frozenset({"mask"})  # what a policy declares to use this


def chosen(step: Step, choose: Callable[[Tensor], Tensor]) -> Tensor:
    """The candidates (R, C) to reveal where the mask token is a prediction like any other.

    `choose` takes confidences (R, C) and marks slots. A chosen slot whose likeliest token is the mask stays masked. In
    a row where all chosen ones are so, the authors' code would repeat the step for ever or run out of steps; here such
    a row chooses by its likeliest other tokens.
    """
    assert step.mask is not None, "declare needs = whole.NEEDS"
    own = step.confidence * (1 - step.mask)  # (R, C)
    blank = step.masked & (step.mask > own)
    picked = choose(torch.where(blank, step.mask, own)) & step.masked & ~blank
    return torch.where(picked.any(-1, keepdim=True), picked, choose(own))
