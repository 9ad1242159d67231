"""Modifiers around a policy: `+counts` and `+rounding` choose a step's tokens together, `+gapN` leaves out neighbours,
`+adasN` reveals in another order.

R rows, C slots.
"""

from dataclasses import dataclass, replace

from pbcore.decoding.checks import as_move
from pbcore.decoding.joint_draws import spaced, together
from pbcore.decoding.policies import Policy
from pbcore.decoding.policies.attention import at_columns
from pbcore.decoding.protocol import Traits, traits
from pbcore.decoding.step import Move, Step
from pbcore.decoding.what_if import Probe
from pbcore.lazy_torch import Tensor, torch
from pbcore.models.base import Attending
from pbcore.names import SamplerName

ORDERED = ("confidence", "margin", "entropy", "threshold", "factor", "eb", "frechet")  # they walk down one order


@dataclass(frozen=True, slots=True)
class Drawn:
    """A policy whose tokens are chosen together (`name.together`) and whose unsure positions keep a distance
    (`name.gap`).

    Of the positions that the policy reveals, the gap first leaves out some; the others get their tokens together. A
    policy that asks about its drafts by what-if rows drafts tokens chosen together for all candidates.
    """

    policy: Policy
    name: SamplerName
    declared: Traits

    def select(self, step: Step) -> Tensor | Move | Probe:
        how = self.name.together
        if how is not None and "probe" in self.declared.needs:
            if "drawn" not in step.notes:
                step.notes["drawn"] = together(step, step.masked, how)
            token, confidence = step.notes["drawn"]
            answer = self.policy.select(replace(step, token=token, confidence=confidence))
            if isinstance(answer, Probe):
                return answer
            return replace(as_move(self.name.policy, answer, step), token=token, confidence=confidence)
        move = as_move(self.name.policy, self.policy.select(step), step)
        reveal = move.reveal & step.masked
        if self.name.gap:
            reveal = spaced(step, reveal, self.name.gap)
        if how is None:
            return replace(move, reveal=reveal)
        token, confidence = together(step, reveal, how)
        return replace(move, reveal=reveal, token=token, confidence=confidence)


def drawn(policy: Policy, name: SamplerName) -> Policy:
    """`policy` with the sampler's modifiers of its tokens."""
    if name.together is None and not name.gap:
        return policy
    declared = traits(policy)
    if name.together is not None or name.temperature:
        declared = replace(declared, reads="distributions")
    if name.together is not None:
        declared = replace(declared, rewrites=True, chooses=None)
    elif declared.chooses:
        declared = replace(declared, chooses="tokens")
    return Drawn(policy, name, declared)


@dataclass(frozen=True, slots=True)
class Adas:
    """The policy, walking through the candidates in ADAS's order (arXiv 2606.10829; from the paper alone): next is
    always the one with the largest cᵢ − α Σ A[i, s](1 − c_s), summed over those before it.

    A is the last layer's attention, c the confidence. The policy decides as before how many to reveal.
    """

    policy: Policy
    alpha: float
    declared: Traits

    def select(self, step: Step) -> Tensor | Move | Probe:
        assert step.attention is not None
        weights = step.attention.weights.to(step.confidence.dtype)  # (R, C, C)
        left, discount = step.masked.clone(), torch.zeros_like(step.confidence)
        place = torch.full_like(step.token, step.masked.shape[-1])  # (R, C) in the order
        for number in range(step.masked.shape[-1]):
            score = (step.confidence - self.alpha * discount).masked_fill(~left, -torch.inf)
            pick = score.argmax(-1, keepdim=True)  # (R, 1): the first of equals; where none is left, any
            discount = discount + at_columns(weights, pick[:, 0]) * (1 - step.confidence.gather(-1, pick))
            place = torch.where(left & torch.zeros_like(left).scatter(-1, pick, True), number, place)
            left = left.scatter(-1, pick, False)
        step._walk = place.argsort(dim=-1, stable=True)
        return self.policy.select(step)


def reordered(policy: Policy, name: SamplerName) -> Policy:
    """`policy` in the order of the sampler's `+adasN`."""
    if name.adas is None:
        return policy
    reads, needs = traits(policy).reads, frozenset({"attention"})
    return Adas(policy, name.adas, Traits(reads=reads, needs=needs, chooses="tokens", attends=Attending(last=1)))
