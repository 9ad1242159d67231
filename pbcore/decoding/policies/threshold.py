"""Confidence threshold."""

from dataclasses import dataclass
from typing import ClassVar

from pbcore.decoding.policies.registry import register_policy
from pbcore.decoding.step import Step
from pbcore.lazy_torch import Tensor


@register_policy("threshold")
@dataclass(frozen=True, slots=True)
class Threshold:
    """Reveals every position whose confidence is at least γ, and always the best one (Fast-dLLM, arXiv 2505.22618).

    The ParallelBench paper says "exceeding"; reference implementations, and this one, include equality.
    """

    gamma: float = 0.9
    reads: ClassVar[str] = "numbers"
    chooses: ClassVar[str] = "tokens"

    def __post_init__(self) -> None:
        if not 0 <= self.gamma <= 1:
            raise ValueError(f"the threshold is a probability in [0, 1], not {self.gamma}")

    def select(self, step: Step) -> Tensor:
        return step.prefix(step.confidence, step.confidence >= self.gamma)
