"""SDAR's static schedule."""

from dataclasses import dataclass
from typing import ClassVar

from pbcore.decoding.block_schedule import Course
from pbcore.decoding.mask_confidence import NEEDS, chosen
from pbcore.decoding.policies.registry import register_policy
from pbcore.decoding.schedule import share
from pbcore.decoding.step import Step
from pbcore.lazy_torch import Tensor

SDAR = Course(cut=False, store="all")


@register_policy("sdar_static")
@dataclass(frozen=True, slots=True)
class SdarStatic:
    """Reveals the surest tokens, a block's length spread over `steps`, earlier steps more (SDAR, arXiv 2510.06303).

    The schedule comes from the block length, so a block that it shares with the prompt takes fewer steps. The authors'
    code lets a count larger than the masks left overwrite given and revealed tokens; here it takes what is left.
    """

    steps: int = 4
    course: ClassVar[Course] = SDAR
    needs: ClassVar[frozenset[str]] = NEEDS
    chooses: ClassVar[str] = "tokens"

    def __post_init__(self) -> None:
        check_steps(self.steps)

    def select(self, step: Step) -> Tensor:
        count = spread(step, self.steps)  # (R,)
        return chosen(step, lambda confidence: step.first(confidence, count))


def check_steps(steps: int) -> None:
    """Raises ValueError for less than one step per block."""
    if steps < 1:
        raise ValueError(f"steps is the most steps in a block, at least 1, not {steps}")


def spread(step: Step, steps: int | Tensor) -> Tensor:
    """How many tokens (R,) SDAR's schedule of `steps` reveals now: its part of the whole block length."""
    return share(step.size, steps, step.index)
