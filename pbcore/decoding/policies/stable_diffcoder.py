"""Stable-DiffCoder's schedule."""

from dataclasses import dataclass
from typing import ClassVar

from pbcore.decoding.block_schedule import Course
from pbcore.decoding.mask_confidence import NEEDS, chosen
from pbcore.decoding.policies.registry import register_policy
from pbcore.decoding.schedule import share
from pbcore.decoding.step import Step
from pbcore.lazy_torch import Tensor, torch

STABLE_DIFFCODER = Course(fill="length", pads=True, store="unstopped")


@register_policy("stable_diffcoder")
@dataclass(frozen=True, slots=True)
class StableDiffcoder:
    """Reveals the surest tokens, a block's masks spread over its share of `steps`, earlier steps more
    (Stable-DiffCoder).

    `steps` are those of the whole answer (0: one per token asked for), shared equally by length // block blocks: a
    first block that the prompt begins isn't counted. The answer has exactly the length asked for.
    """

    steps: int = 0
    course: ClassVar[Course] = STABLE_DIFFCODER
    needs: ClassVar[frozenset[str]] = NEEDS
    chooses: ClassVar[str] = "tokens"

    def select(self, step: Step) -> Tensor:
        blocks = (step.requested // step.size.clamp(min=1)).clamp(min=1)  # (R,)
        steps = torch.full_like(blocks, self.steps) if self.steps else step.requested
        count = share(step.slots, (steps // blocks).clamp(min=1), step.index)  # (R,)
        return chosen(step, lambda confidence: step.first(confidence, count))
