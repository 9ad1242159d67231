"""SDAR's sequential schedule."""

from dataclasses import dataclass

from pbcore.decoding.mask_confidence import chosen
from pbcore.decoding.policies.registry import register_policy
from pbcore.decoding.policies.sdar_static import SdarStatic, spread
from pbcore.decoding.step import Step
from pbcore.lazy_torch import Tensor


@register_policy("sdar_sequential")
@dataclass(frozen=True, slots=True)
class SdarSequential(SdarStatic):
    """Reveals the leftmost tokens of a block, as many as SDAR's schedule over `steps` says (SDAR, arXiv 2510.06303)."""

    def select(self, step: Step) -> Tensor:
        leftmost = step.first(-step.position.double(), spread(step, self.steps))
        return chosen(step, lambda confidence: leftmost)
