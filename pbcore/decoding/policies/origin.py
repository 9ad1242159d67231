"""Dream's original sampler."""

from dataclasses import dataclass
from typing import ClassVar

from pbcore.decoding.policies.registry import register_policy
from pbcore.decoding.step import Step
from pbcore.lazy_torch import Tensor


@register_policy("origin")
@dataclass(frozen=True, slots=True)
class Origin:
    """Reveals each mask independently with probability 1 − s/t over `steps` time steps from 1 to 0.001 (Dream 7B, arXiv
    2508.15487).

    Time falls linearly, tᵢ = 1 − i·(1 − 0.001)/steps; the last step reveals all masks left. A step may reveal nothing.
    """

    steps: int = 32
    reads: ClassVar[str] = "numbers"
    chooses: ClassVar[str] = "positions"

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ValueError(f"origin needs at least 1 step, not {self.steps}")

    def cap(self, slots: int) -> int:
        return self.steps

    def select(self, step: Step) -> Tensor:
        rate = (1 - 1e-3) / self.steps
        t = 1 - step.index.double() * rate  # (R,)
        return step.masked & (step.uniform() < (rate / t)[:, None])
