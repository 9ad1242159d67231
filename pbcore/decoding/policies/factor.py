"""Confidence factor."""

from dataclasses import dataclass
from typing import ClassVar

from pbcore.decoding.policies.registry import register_policy
from pbcore.decoding.step import Step
from pbcore.lazy_torch import Tensor, torch


@register_policy("factor")
@dataclass(frozen=True, slots=True)
class Factor:
    """The largest n with (n + 1)(1 − cₙ) < f, at least 1; `-ref`, as officially run, adds the last if only it fails
    (arXiv 2505.22618).

    `factor-1.0` is the rule of the Fast-dLLM paper, with confidences in descending order. `factor-1.0-ref` is the rule
    of its code, used by all official runs of the benchmark and by `--profile paper`. The code always accepts the first
    rank, and the others if cₙ ≥ 1 − f/(n + 1); if only the last rank fails, it is revealed too. So two candidates are
    always revealed together, and c = .99, .98, .1 with f = 1 gives 3, not 2.
    """

    f: float = 1.0
    ref: bool = False
    reads: ClassVar[str] = "numbers"
    chooses: ClassVar[str] = "tokens"

    def __post_init__(self) -> None:
        if not self.f > 0:
            raise ValueError(f"the factor must be above 0, not {self.f}")

    def select(self, step: Step) -> Tensor:
        rank = step.rank(step.confidence)  # (R, C), n − 1
        if self.ref:
            bound = 1 - self.f / (rank + 2).double()
            passes = step.masked & ((rank == 0) | (step.confidence >= bound))
            count, candidates = passes.sum(-1), step.masked.sum(-1)  # (R,); all ranks after a failing one fail too
            return step.first(step.confidence, torch.where(count >= candidates - 1, candidates, count))
        holds = step.masked & ((rank + 2) * (1 - step.confidence) < self.f)
        largest = torch.where(holds, rank + 1, 0).amax(-1)  # (R,)
        return step.at_least_best(rank < largest[:, None], step.confidence)
