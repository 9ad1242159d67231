"""Rules about where positions stand."""

from typing import Annotated

from pbcore.base.lazy_torch import Tensor, torch
from pbcore.decoding.policies.registry import (
    Count,
    Ranged,
    Several,
    Span,
    register_policy,
)
from pbcore.decoding.step import Step


def after_mask(step: Step) -> Tensor:
    """The masks (R, C) right after a mask in the canvas."""
    follows = step.masked[:, 1:] & step.masked[:, :-1] & (step.column.diff(dim=-1) == 1)
    return torch.nn.functional.pad(follows, (1, 0))


@register_policy("dus", look=16)
class Dilated(Ranged):
    """Reveals every position at a stride that shrinks by `base` each step: ⌊L/base⌋, ⌊L/base²⌋ … 1
    (DUS, arXiv 2506.19037).

    L is the number of slots in the block. The order is fixed and ignores the model's confidence; a
    block takes O(log L) steps.
    """

    base: Annotated[Several, Span(2, 4)] = 2
    reads = "numbers"
    chooses = "positions"

    def select(self, step: Step) -> Tensor:
        slots = step.inside.sum(-1)  # (R,)
        stride = (slots // self.base ** (step.index + 1)).clamp(min=1)
        place = torch.arange(step.masked.shape[-1], device=stride.device)  # (C,)
        return step.at_least_best(place % stride[:, None] == 0, -step.position.double())


@register_policy("bisection", look=20)
class Bisection:
    """Reveals the middle of each run of masks, the left one of two (arXiv 2606.22976).

    A block of L slots takes ⌈log₂(L + 1)⌉ steps. The gaps are read from the canvas, so given tokens
    divide them; `dus` has fixed strides. Exact for a Markov chain with exact marginals: given the
    tokens around it, a gap is independent of all others.
    """

    reads = "numbers"
    chooses = "positions"

    def select(self, step: Step) -> Tensor:
        masked, slots, inner = step.masked, step.masked.shape[-1], after_mask(step)  # (R, C)
        ends = masked & ~inner.roll(-1, -1)
        place = torch.arange(slots, device=masked.device)
        first = torch.where(masked & ~inner, place, 0).cummax(-1).values
        last = torch.where(ends, place, slots).flip(-1).cummin(-1).values.flip(-1)
        return masked & (place == (first + last) // 2)


@register_policy("origin", look=28)
class Origin(Ranged):
    """Reveals each mask independently with probability 1 − s/t over `steps` time steps from 1 to
    0.001 (Dream 7B, arXiv 2508.15487).

    Time falls linearly, tᵢ = 1 − i·(1 − 0.001)/steps; the last step reveals all masks left. A step
    may reveal nothing.
    """

    steps: Annotated[Count, Span(4, 32, "log")] = 32
    reads = "numbers"
    chooses = "positions"

    def cap(self, slots: int) -> int:
        return self.steps

    def select(self, step: Step) -> Tensor:
        rate = (1 - 1e-3) / self.steps
        t = 1 - step.index.double() * rate  # (R,)
        return step.masked & (step.uniform() < (rate / t)[:, None])


@register_policy("hierarchy", look=24)
class Hierarchy:
    """Reveals the best position of each run of masks if it exceeds `low`, every position that
    exceeds γ, and always the best one.

    dInfer, arXiv 2510.08666. A run of masks ends at a token or at the block's edge. Each step
    splits the runs, so tokens revealed together are apart. γ = 1 switches the second condition off,
    as the authors' code does by default.
    """

    gamma: Annotated[float, Span(0.5, 0.98, "rest")] = 0.9
    low: float = 0.4
    reads = "numbers"
    chooses = "tokens"

    def __post_init__(self) -> None:
        if not 0 <= self.low <= self.gamma <= 1:
            raise ValueError(f"hierarchy takes 0 ≤ low ≤ gamma ≤ 1, not {self}")

    def select(self, step: Step) -> Tensor:
        confidence = step.confidence
        run = (~after_mask(step)).cumsum(-1) - 1  # (R, C): number of the slot's run
        same = (run[:, :, None] == run[:, None, :]) & step.masked[:, None, :]  # (R, C, C)
        rank = step.rank(confidence)
        best = rank == torch.where(same, rank[:, None, :], rank.shape[-1]).amin(-1)
        return step.at_least_best(
            (best & (confidence > self.low)) | (confidence > self.gamma), confidence
        )


@register_policy("localleap", look=18)
class LocalLeap:
    """Threshold γ, lowered to `relaxed` within `radius` positions of a candidate that reaches γ; at
    least the best one.

    LocalLeap, arXiv 2510.07081.
    """

    gamma: Annotated[float, Span(0.5, 0.98, "rest")] = 0.9
    relaxed: float = 0.75
    radius: int = 4
    reads = "numbers"
    chooses = "tokens"

    def __post_init__(self) -> None:
        if not 0 <= self.relaxed <= self.gamma <= 1:
            raise ValueError(f"localleap takes 0 ≤ relaxed ≤ gamma ≤ 1, not {self}")

    def select(self, step: Step) -> Tensor:
        anchor = step.masked & (step.confidence >= self.gamma)  # (R, C)
        near = (step.column[:, :, None] - step.column[:, None, :]).abs() <= self.radius  # (R, C, C)
        beside = (near & anchor[:, None, :]).any(-1)
        return step.at_least_best(
            anchor | (beside & (step.confidence >= self.relaxed)), step.confidence
        )
