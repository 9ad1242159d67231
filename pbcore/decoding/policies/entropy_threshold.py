"""Entropy threshold."""

from dataclasses import dataclass
from typing import ClassVar

from pbcore.decoding.policies.registry import register_policy
from pbcore.decoding.step import Step
from pbcore.lazy_torch import Tensor


@register_policy("entropy_threshold")
@dataclass(frozen=True, slots=True)
class EntropyThreshold:
    """Reveals every position whose entropy is at most ε nats, and always the lowest (dParallel, arXiv 2509.26488).

    d3LLM uses it, too. The entropy is that of the distribution at temperature 1. `eb` bounds the sum
    of a step's entropies instead.
    """

    epsilon: float = 0.5
    reads: ClassVar[str] = "numbers"
    chooses: ClassVar[str] = "positions"

    def __post_init__(self) -> None:
        if self.epsilon < 0:
            raise ValueError(f"the entropy threshold is at least 0 nats, not {self.epsilon}")

    def select(self, step: Step) -> Tensor:
        entropy = step.entropy()  # (R, C)
        return step.at_least_best(entropy <= self.epsilon, -entropy)
