"""`+adasN`: any ordered rule in an order that discounts attention to unsure picks (ADAS, arXiv 2606.10829; from the
paper alone).

R rows, C slots.
"""

from dataclasses import dataclass
from typing import ClassVar

from pbcore.decoding.policies import Policy
from pbcore.decoding.policies.attention import at_columns
from pbcore.decoding.protocol import traits
from pbcore.decoding.step import Move, Step
from pbcore.decoding.what_if import Probe
from pbcore.lazy_torch import Tensor, torch
from pbcore.models.base import Attending
from pbcore.names import SamplerName, SamplerNameError

ORDERED = ("confidence", "margin", "entropy", "threshold", "factor", "eb", "frechet")  # they walk down one order


@dataclass(frozen=True, slots=True)
class Adas:
    """The policy, walking through the candidates in ADAS's order: next is always the one with the largest
    cᵢ − α Σ A[i, s](1 − c_s), summed over those before it.

    A is the last layer's attention, c the confidence. The policy decides as before how many to reveal.
    """

    policy: Policy
    alpha: float
    reads: str
    needs: ClassVar[frozenset[str]] = frozenset({"attention"})
    attends: ClassVar[Attending] = Attending(last=1)
    chooses: ClassVar[str] = "tokens"

    def select(self, step: Step) -> Tensor | Move:
        assert step.attention is not None
        weights = step.attention.weights.to(step.confidence.dtype)  # (R, C, C)
        left, discount, order = step.masked.clone(), torch.zeros_like(step.confidence), []
        for _ in range(step.masked.shape[-1]):
            score = (step.confidence - self.alpha * discount).masked_fill(~left, -torch.inf)
            pick = score.argmax(-1)  # (R,): the first of equals; where none is left, any
            discount = discount + at_columns(weights, pick) * (1 - step.confidence.gather(-1, pick[:, None]))
            left = left.scatter(-1, pick[:, None], False)
            order.append(torch.where(score.isneginf().all(-1), -1, pick))
        step._walk = _filled(torch.stack(order, dim=-1), step.masked)
        answer = self.policy.select(step)
        assert not isinstance(answer, Probe), "policies with what-if rows are refused"
        return answer


def _filled(order: Tensor, masked: Tensor) -> Tensor:
    """An order (R, C) of the candidates with −1 at its end, completed by the other slots."""
    rank = torch.full_like(order, order.shape[-1])
    row, place = (order >= 0).nonzero(as_tuple=True)
    rank[row, order[row, place]] = place
    return rank.argsort(dim=-1, stable=True)


def reordered(policy: Policy, name: SamplerName) -> Policy:
    """`policy` in the order of the sampler's `+adasN`. Raises SamplerNameError for a policy that has no order."""
    if name.adas is None:
        return policy
    if name.policy not in ORDERED or name.remask:
        raise SamplerNameError(
            f"sampler {name}: +adas changes the order in which {', '.join(ORDERED)} reveal tokens, without remasking"
        )
    return Adas(policy, name.adas, traits(policy).reads)
