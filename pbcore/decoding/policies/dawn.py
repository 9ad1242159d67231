"""Dependency-aware decoding with anchors."""

from dataclasses import dataclass
from typing import ClassVar

from pbcore.decoding.policies.graph import at_rows, independent
from pbcore.decoding.policies.registry import register_policy
from pbcore.decoding.step import Step
from pbcore.lazy_torch import Tensor, torch
from pbcore.models.base import Attending


@register_policy("dawn")
@dataclass(frozen=True, slots=True)
class Dawn:
    """Reveals sure slots, slots that attend to sure visible tokens, and an independent set of the rest (DAWN, arXiv
    2602.06953).

    An edge j → i stands where slot i attends to column j with at least `edge`, mean of the last four layers; columns
    that receive more than `sink` on average have none. Revealed: all with confidence ≥ γ; those ≥ `induce` with an edge
    from an anchor, a visible token predicted again with ≥ γ; and of the others ≥ `least` those that attend to no
    slot that is both, taken greedily by falling confidence without an edge, either way, to one taken. The authors'
    code, but for its dependence on the batch; tokens that were given, the prompt among them, count as anchors, since
    nothing is predicted there.
    """

    gamma: float = 0.9
    edge: float = 0.07
    induce: float = 0.7
    least: float = 0.7
    sink: float = 0.01
    review: ClassVar[str] = "seen"
    reach: ClassVar[str] = "prefix"
    needs: ClassVar[frozenset[str]] = frozenset({"attention"})
    chooses: ClassVar[str] = "tokens"
    attends: ClassVar[Attending] = Attending(last=4, prompt=True, sinks=True)

    def select(self, step: Step) -> Tensor:
        assert step.attention is not None
        assert step.attention.sinks is not None
        assert step.review is not None
        weights, visible = step.attention.weights, step.attention.visible  # (R, C, T), (R, T)
        own = step.column + step.attention.prompt  # (R, C): the slots' columns
        edges = (weights >= self.edge) & (step.attention.sinks <= self.sink)[:, None, :]  # (R, C, T)
        edges &= torch.arange(visible.shape[1], device=own.device) != own[:, :, None]
        anchors = visible.clone()
        unsure = step.inside & (step.masked | (step.review.confidence < self.gamma))
        anchors[unsure.nonzero()[:, 0], own[unsure]] = False
        sure = step.masked & (step.confidence >= self.gamma)
        induced = (edges & anchors[:, None, :]).any(-1) & step.masked & (step.confidence >= self.induce)
        between = edges.gather(-1, own[:, None, :].expand(-1, own.shape[1], -1))  # (R, C, C): i attends to j
        tied = (between & (sure & induced)[:, None, :]).any(-1)
        conflict = between | between.transpose(1, 2)
        rest = step.masked & (step.confidence >= self.least) & ~sure & ~induced & ~tied

        def joins(slot: Tensor, taken: Tensor) -> Tensor:
            return ~(at_rows(conflict, slot) & taken).any(-1)

        chosen = independent(step.order(step.confidence, rest), rest, joins)
        return step.at_least_best(sure | induced | chosen, step.confidence)
