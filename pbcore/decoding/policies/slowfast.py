"""Slow exploration, fast filling."""

from dataclasses import dataclass
from typing import ClassVar

from pbcore.decoding.policies.registry import register_policy
from pbcore.decoding.step import Step
from pbcore.lazy_torch import Tensor, torch


@register_policy("slowfast")
@dataclass(frozen=True, slots=True)
class SlowFast:
    """Explores until the end of the nearly certain part is stable, then fills up to there, in cycles (SlowFast, arXiv
    2506.10848).

    Exploring, for at most `steps` steps: each step estimates the cycle's end as the last slot with confidence ≥ `low`
    (.3). The end is fixed when two successive estimates have a standard deviation below 1, else after the last step at
    their mean, rounded down. Filling: until no mask is left up to that end, where the next cycle starts. Each step
    reveals all slots with confidence ≥ γ from the cycle's start on (when filling, up to its end), at least the best.
    The paper stops exploring once stable, as here; its code always explores for `steps` steps.

    State: the cycle's start and end, the last estimate, exploring steps.
    """

    gamma: float = 0.9
    low: float = 0.3
    steps: int = 6
    reads: ClassVar[str] = "numbers"
    chooses: ClassVar[str] = "tokens"

    def __post_init__(self) -> None:
        if not 0 <= self.low <= 1 or not 0 <= self.gamma <= 1 or self.steps < 2:
            raise ValueError(f"slowfast takes two probabilities in [0, 1] and at least 2 exploring steps, not {self}")

    def select(self, step: Step) -> Tensor:
        slot = torch.arange(step.masked.shape[-1], device=step.index.device)  # (C,)
        start, end, estimate, explored = (
            step.state(f"slowfast {name}", per="row") for name in ("start", "end", "estimate", "explored")
        )
        full = (end > 0) & ~(step.masked & (slot < end[:, None])).any(-1)  # (R,)
        start.copy_(torch.where(full, end, start))
        end *= ~full
        explored *= ~full
        exploring = end == 0
        scope = step.masked & (slot >= start[:, None]) & (exploring[:, None] | (slot < end[:, None]))
        reach = torch.where(scope & (step.confidence >= self.low), slot + 1, 0).amax(-1)
        reach = torch.where(reach > 0, reach, start + 1)  # (R,)
        settled = (explored > 0) & ((reach - estimate).abs() / 2 < 1)
        last = exploring & (explored + 1 >= self.steps)
        estimated = torch.where(settled, reach, torch.where(last, ((reach + estimate) / 2).floor(), 0.0))
        end.copy_(torch.where(exploring, estimated, end))
        estimate.copy_(reach)
        explored += exploring
        score = step.confidence.masked_fill(~scope, -1.0)
        return step.at_least_best(scope & (step.confidence >= self.gamma), score)
