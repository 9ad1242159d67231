"""Modifiers that change which tokens a step writes: `+counts` and `+rounding` choose them together, `+gapN` leaves out
neighbours.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace

from pbcore.decoding.checks import as_move
from pbcore.decoding.joint_draws import spaced, together
from pbcore.decoding.policies import Policy
from pbcore.decoding.protocol import Course, Traits, traits
from pbcore.decoding.step import Move, Step
from pbcore.decoding.what_if import Probe
from pbcore.lazy_torch import Tensor
from pbcore.models.base import Attending
from pbcore.names import SamplerName, SamplerNameError


@dataclass(frozen=True, slots=True)
class Drawn:
    """A policy whose tokens are chosen together (`name.together`) and whose unsure positions keep a distance
    (`name.gap`).

    Of the positions that the policy reveals, the gap first leaves out some; the others get their tokens together. A
    policy that asks about its drafts by what-if rows drafts tokens chosen together for all candidates.
    """

    policy: Policy
    name: SamplerName
    cap: Callable[[int], int] | None
    review: str | None
    rewrites: bool
    reach: str
    reads: str
    part: int | None
    course: Course
    needs: frozenset[str]
    attends: Attending
    chooses: str | None

    def select(self, step: Step) -> Tensor | Move | Probe:
        if "probe" in self.needs:
            return self._asking(step)
        move = as_move(self.name.policy, self.policy.select(step), step)
        reveal = move.reveal & step.masked
        if self.name.gap:
            reveal = spaced(step, reveal, self.name.gap)
        if self.name.together is None:
            return replace(move, reveal=reveal)
        token, confidence = together(step, reveal, self.name.together)
        return replace(move, reveal=reveal, token=token, confidence=confidence)

    def _asking(self, step: Step) -> Tensor | Move | Probe:
        """A policy that checks its drafts by what-if rows drafts tokens chosen together."""
        assert self.name.together is not None
        if "drawn" not in step.notes:
            step.notes["drawn"] = together(step, step.masked, self.name.together)
        token, confidence = step.notes["drawn"]
        answer = self.policy.select(replace(step, token=token, confidence=confidence))
        if isinstance(answer, Probe):
            return answer
        return replace(as_move(self.name.policy, answer, step), token=token, confidence=confidence)


def drawn(policy: Policy, name: SamplerName) -> Policy:
    """`policy` with the sampler's modifiers of its tokens. Raises SamplerNameError if they can't be combined."""
    if name.together is None and not name.gap:
        return policy
    declared, words = traits(policy), f"+{name.together or f'gap{name.gap}'}"
    if name.together == "rounding" and name.greedy:
        raise SamplerNameError(
            f"sampler {name}: +rounding draws tokens, so it needs a temperature (+t1.0); +counts does without one"
        )
    if name.remask:
        raise SamplerNameError(
            f"sampler {name}: +{name.remask} compares the confidences of predicted tokens; leave {words} out"
        )
    if declared.rewrites:
        raise SamplerNameError(f"sampler {name}: {name.policy} chooses its tokens itself; leave {words} out")
    if name.gap and "probe" in declared.needs:
        raise SamplerNameError(
            f"sampler {name}: {name.policy} checks neighbours, too, by what-if rows; leave +gap{name.gap} out"
        )
    values = {f.name: getattr(declared, f.name) for f in fields(Traits)}
    values["rewrites"] = name.together is not None
    values["chooses"] = "tokens" if declared.chooses and name.together is None else None
    if name.together is not None or name.temperature:
        values["reads"] = "distributions"
    return Drawn(policy, name, **values)
