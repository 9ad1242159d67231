"""Threshold relaxed around sure positions."""

from dataclasses import dataclass
from typing import ClassVar

from pbcore.decoding.policies.registry import register_policy
from pbcore.decoding.step import Step
from pbcore.lazy_torch import Tensor


@register_policy("localleap")
@dataclass(frozen=True, slots=True)
class LocalLeap:
    """Threshold γ, lowered to `relaxed` within `radius` positions of a candidate that reaches γ; at least the best one.

    LocalLeap, arXiv 2510.07081.
    """

    gamma: float = 0.9
    relaxed: float = 0.75
    radius: int = 4
    reads: ClassVar[str] = "numbers"
    chooses: ClassVar[str] = "tokens"

    def __post_init__(self) -> None:
        if not 0 <= self.relaxed <= self.gamma <= 1:
            raise ValueError(
                f"localleap takes 0 ≤ relaxed ≤ gamma ≤ 1, not relaxed {self.relaxed} and gamma {self.gamma}"
            )

    def select(self, step: Step) -> Tensor:
        anchor = step.masked & (step.confidence >= self.gamma)  # (R, C)
        near = (step.column[:, :, None] - step.column[:, None, :]).abs() <= self.radius  # (R, C, C)
        beside = (near & anchor[:, None, :]).any(-1)
        return step.at_least_best(anchor | (beside & (step.confidence >= self.relaxed)), step.confidence)
