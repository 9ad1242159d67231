"""The middle of every gap."""

from dataclasses import dataclass
from typing import ClassVar

from pbcore.decoding.policies.registry import register_policy
from pbcore.decoding.step import Step
from pbcore.lazy_torch import Tensor, torch


@register_policy("bisection")
@dataclass(frozen=True, slots=True)
class Bisection:
    """Reveals the middle of each run of masks, the left one of two (arXiv 2606.22976).

    A block of L slots takes ⌈log₂(L + 1)⌉ steps. The gaps are read from the canvas, so given tokens divide them; `dus`
    has fixed strides. Exact for a Markov chain with exact marginals: given the tokens around it, a gap is independent
    of all others.
    """

    reads: ClassVar[str] = "numbers"
    chooses: ClassVar[str] = "positions"

    def select(self, step: Step) -> Tensor:
        masked, slots = step.masked, step.masked.shape[-1]  # (R, C)
        joined = torch.zeros_like(masked)  # a mask right after a mask
        joined[:, 1:] = masked[:, 1:] & masked[:, :-1] & (step.column[:, 1:] == step.column[:, :-1] + 1)
        ends = masked & ~joined.roll(-1, -1)
        place = torch.arange(slots, device=masked.device)
        first = torch.where(masked & ~joined, place, 0).cummax(-1).values
        last = torch.where(ends, place, slots).flip(-1).cummin(-1).values.flip(-1)
        return masked & (place == (first + last) // 2)
