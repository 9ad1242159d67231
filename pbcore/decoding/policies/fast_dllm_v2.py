"""Fast-dLLM v2's decoder."""

from dataclasses import dataclass
from typing import ClassVar

from pbcore.decoding.block_schedule import Course
from pbcore.decoding.mask_confidence import NEEDS, chosen
from pbcore.decoding.policies.registry import register_policy
from pbcore.decoding.step import Step
from pbcore.lazy_torch import Tensor


@register_policy("fast_dllm_v2")
@dataclass(frozen=True)
class FastDllmV2:
    """Goes through a block in parts, left to right; reveals all of a part with confidence > γ, and always the best
    (arXiv 2509.26328).

    `part` is the authors' sub-block; `+dual` adds their cache within a block. It decodes length // block blocks from
    the one that holds the prompt's end, and one token more, and stops at the first stop token without a mask before it.
    The authors' code never sees a prompt of exactly one block, and loops for ever where the mask token is predicted;
    this one does neither.
    """

    gamma: float = 1.0
    part: int = 8
    course: ClassVar[Course] = Course(fill="blocks", cut=False, stop="token", ends_at_stop=True)
    needs: ClassVar[frozenset[str]] = NEEDS
    chooses: ClassVar[str] = "tokens"

    def __post_init__(self) -> None:
        if not 0 <= self.gamma <= 1 or self.part < 1:
            raise ValueError(
                f"fast_dllm_v2 takes a probability in [0, 1] and a length of at least 1, not gamma {self.gamma} and "
                f"part {self.part}"
            )

    def select(self, step: Step) -> Tensor:
        return chosen(step, lambda confidence: step.at_least_best(confidence > self.gamma, confidence))
