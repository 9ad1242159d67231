"""SDAR's sequential schedule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pbcore.decoding.block_schedule import Course
from pbcore.decoding.mask_confidence import NEEDS, chosen
from pbcore.decoding.policies.registry import register_policy
from pbcore.decoding.policies.sdar_static import SDAR, check_steps, spread
from pbcore.decoding.step import Step
from pbcore.lazy_torch import Tensor


@register_policy("sdar_sequential")
@dataclass(frozen=True, slots=True)
class SdarSequential:
    """Reveals the leftmost tokens of a block, as many as SDAR's schedule over `steps` says (SDAR, arXiv 2510.06303)."""

    steps: int = 4
    course: ClassVar[Course] = SDAR
    needs: ClassVar[frozenset[str]] = NEEDS
    chooses: ClassVar[str] = "tokens"

    def __post_init__(self) -> None:
        check_steps(self.steps)

    def select(self, step: Step) -> Tensor:
        leftmost = step.first(-step.position.double(), spread(step, self.steps))
        return chosen(step, lambda confidence: leftmost)
