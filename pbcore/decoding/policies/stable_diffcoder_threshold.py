"""Stable-DiffCoder's threshold."""

from dataclasses import dataclass
from typing import ClassVar

from pbcore.decoding.block_schedule import Course
from pbcore.decoding.mask_confidence import NEEDS, chosen
from pbcore.decoding.policies.registry import register_policy
from pbcore.decoding.policies.stable_diffcoder import STABLE_DIFFCODER
from pbcore.decoding.step import Step
from pbcore.lazy_torch import Tensor


@register_policy("stable_diffcoder_threshold")
@dataclass(frozen=True, slots=True)
class StableDiffcoderThreshold:
    """Reveals every token of confidence at least γ, and always the best one, as Stable-DiffCoder's authors do.

    Beside `threshold` it stops and stores as their code does, with confidences over the whole vocabulary. Their code
    leaves masks in a block where it has too few steps; this one goes on until none is left.
    """

    gamma: float = 0.95
    course: ClassVar[Course] = STABLE_DIFFCODER
    needs: ClassVar[frozenset[str]] = NEEDS
    chooses: ClassVar[str] = "tokens"

    def __post_init__(self) -> None:
        if not 0 <= self.gamma <= 1:
            raise ValueError(f"the threshold is a probability in [0, 1], not {self.gamma}")

    def select(self, step: Step) -> Tensor:
        return chosen(step, lambda confidence: step.at_least_best(confidence >= self.gamma, confidence))
