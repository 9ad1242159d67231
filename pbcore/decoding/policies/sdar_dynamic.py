"""SDAR's dynamic schedule."""

from dataclasses import dataclass
from typing import ClassVar

from pbcore.decoding.block_schedule import Course
from pbcore.decoding.mask_confidence import NEEDS, chosen
from pbcore.decoding.policies.registry import register_policy
from pbcore.decoding.policies.sdar_static import SDAR, check_steps, spread
from pbcore.decoding.step import Step
from pbcore.lazy_torch import Tensor, torch


@register_policy("sdar_dynamic")
@dataclass(frozen=True, slots=True)
class SdarDynamic:
    """Reveals all with confidence > γ if these are at least as many as SDAR's schedule says, else its count (arXiv
    2510.06303).

    The schedule and what is left out of the authors' code are as in `sdar_static`.
    """

    gamma: float = 0.9
    steps: int = 4
    course: ClassVar[Course] = SDAR
    needs: ClassVar[frozenset[str]] = NEEDS
    chooses: ClassVar[str] = "tokens"

    def __post_init__(self) -> None:
        check_steps(self.steps)
        if not 0 <= self.gamma <= 1:
            raise ValueError(f"the threshold is a probability in [0, 1], not {self.gamma}")

    def select(self, step: Step) -> Tensor:
        count = spread(step, self.steps)  # (R,)
        return chosen(step, lambda confidence: surer_or_first(step, confidence, self.gamma, count))


def surer_or_first(step: Step, confidence: Tensor, gamma: float, count: Tensor) -> Tensor:
    """The candidates (R, C) of confidence > γ in rows with at least `count` (R,) of them, else the `count` best."""
    sure = step.masked & (confidence > gamma)
    return torch.where((sure.sum(-1) >= count.clamp(min=1))[:, None], sure, step.first(confidence, count))
