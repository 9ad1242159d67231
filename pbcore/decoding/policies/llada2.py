"""LLaDA2.0's decoder."""

from dataclasses import dataclass, field
from typing import ClassVar

from pbcore.decoding.block_schedule import Course
from pbcore.decoding.mask_confidence import NEEDS, chosen
from pbcore.decoding.policies.registry import register_policy
from pbcore.decoding.policies.sdar_dynamic import surer_or_first
from pbcore.decoding.policies.sdar_static import check_steps, spread
from pbcore.decoding.step import Step
from pbcore.lazy_torch import Tensor

LLADA2 = Course(ends_at_stop=True)
EARLY = Course(stop="revealed", ends_at_stop=True)


@register_policy("llada2")
@dataclass(frozen=True)
class Llada2:
    """Reveals all with confidence > γ if these are at least as many as the schedule says, else its count (LLaDA2.0).

    The schedule spreads the block length over min(`steps`, tokens asked for), earlier steps more. The answer ends with
    its first EOS; with `early` a row stops in the step that reveals an EOS with no mask before it. The authors' code
    looks for that EOS in the prompt, too, and then answers nothing; here the prompt doesn't count.
    """

    gamma: float = 0.95
    steps: int = 32
    early: bool = False
    course: Course = field(default=LLADA2, init=False, repr=False)
    needs: ClassVar[frozenset[str]] = NEEDS
    chooses: ClassVar[str] = "tokens"

    def __post_init__(self) -> None:
        check_steps(self.steps)
        if not 0 <= self.gamma <= 1:
            raise ValueError(f"the threshold is a probability in [0, 1], not {self.gamma}")
        if self.early:
            object.__setattr__(self, "course", EARLY)

    def select(self, step: Step) -> Tensor:
        steps = step.requested.clamp(max=self.steps)  # (R,)
        count = spread(step, steps)  # (R,)
        return chosen(step, lambda confidence: surer_or_first(step, confidence, self.gamma, count))
