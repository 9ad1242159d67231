"""Modifiers around a policy: `+rcr`, `+remdmN` and variants mask committed tokens again, `+counts`
and `+rounding` choose a step's tokens together, `+gapN` leaves out neighbours, `+adasN` reveals in
another order. `+rcr` and `+remdmN` follow the code of the official runs, `+rcr-max` and
`+remdmN-early` the paper's text where that code differs from it.

R rows, C slots.
"""

from dataclasses import dataclass, replace

from pbcore.base.lazy_torch import Tensor, torch
from pbcore.decoding.checks import as_move
from pbcore.decoding.joint_draws import spaced, together
from pbcore.decoding.policies import Policy
from pbcore.decoding.protocol import Traits, fixed_count, traits
from pbcore.decoding.schedule import quota
from pbcore.decoding.step import Move, Step
from pbcore.decoding.what_if import Probe
from pbcore.models.base import Attending
from pbcore.names import SamplerName

# Policies that walk down one order.
ORDERED = ("confidence", "margin", "entropy", "threshold", "factor", "eb", "frechet")
EARLY, MIDDLE = 0.33, 0.67  # shares of the steps at which Prophet asks for less
MASKED = -1.0  # stands for the confidence of a masked slot


@dataclass(frozen=True, slots=True)
class Rcr:
    """RCR as officially run: fills all masks up to the block's end, then remasks those of lowest
    confidence (arXiv 2508.13148).

    What counts is the confidence at a slot's last fill, however the context has changed since.

    Each step leaves k more tokens than the step before, anywhere up to the block's end: tokens of
    earlier blocks may be masked again, and the block ends once no mask is left up to its end.
    Forwards: one per k tokens of a block. Ties keep the leftmost token.

    The paper (F.3) uses the highest confidence so far instead: `+rcr-max`. One behaviour of the
    official code is left out: it assigns given tokens probability 1, so among slots of confidence
    exactly 1 it may mask parts of the prompt. Here given tokens stay.

    State: each committed slot's confidence when last filled.
    """

    k: int | None = None
    steps: int = 0
    reach = "prefix"
    reads = "numbers"

    def cap(self, slots: int) -> int:
        """Every step with a positive count keeps at least one more token; a schedule may add steps
        with count 0.
        """
        return slots + self.steps

    def select(self, step: Step) -> Move:
        confidences = step.state("rcr confidences", MASKED, over="answer")  # (R, C)
        now = torch.where(step.masked, step.confidence, confidences)  # (R, C)
        filled = step.inside & (now > MASKED)
        keep = self.kept(step, now, filled)
        confidences.copy_(torch.where(step.inside, now.masked_fill(~keep, MASKED), confidences))
        return Move(step.masked & keep, filled & step.visible & ~keep)

    def kept(self, step: Step, confidences: Tensor, filled: Tensor) -> Tensor:
        """The best of the filled slots (R, C), as many as are committed plus the step's k or
        scheduled count.

        Args:
            step: as the policy gets it.
            confidences: (R, C), what ranks the slots.
            filled: (R, C) bool, the slots that hold a token or get one now.
        """
        more = step.quota if step.quota is not None else self.k or 0
        count = (filled & step.visible).sum(-1) + more  # (R,)
        return filled & (step.rank(confidences, filled) < count[:, None])


@dataclass(frozen=True, slots=True)
class RcrMax(Rcr):
    """RCR by the paper's text: fills all masks, then remasks those whose highest confidence so far
    is lowest (arXiv 2508.13148).

    Each step keeps as many tokens as the schedule has revealed so far, k more than the step before.
    Unlike `+rcr` this variant stays in the active block.

    State: each slot's highest confidence.
    """

    reach = "block"

    def select(self, step: Step) -> Move:
        best = step.state("rcr best")  # (R, C)
        running = torch.maximum(best, step.confidence)  # (R, C)
        best.copy_(torch.where(step.masked, running, best))
        keep = self.kept(step, running, step.masked | step.visible)
        return Move(step.masked & keep, step.visible & ~keep)


@dataclass(frozen=True, slots=True)
class Remdm:
    """ReMDM as officially run: before each of `rounds` extra steps, remasks the token of lowest
    confidence (arXiv 2503.00307).

    An extra step reveals one token, chosen by the wrapped policy among all masks of the active
    block. In a block of B tokens the extra steps follow min(⌊7B/8⌋, B − 1) ordinary steps (at least
    1), or earlier if the block is full before. With k > 1 it always is, whereas the paper (F.3)
    starts when most tokens are generated: `+remdmN-early`. Forwards per block: ordinary steps plus
    rounds.

    The official code refuses several blocks with k > 1, because it counts the steps of all blocks
    together; here each block has its own. In a trajectory the token that an extra step remasks is
    already masked in the canvas before that step, as the model sees it.

    State: each committed slot's confidence when revealed, rounds done.
    """

    policy: Policy
    name: SamplerName
    declared: Traits

    def select(self, step: Step) -> Move:
        confidences = step.state("remdm confidences", MASKED)  # (R, C)
        done = step.state("remdm rounds", per="row")  # (R,)
        extra = step.state("remdm extra", False, per="row")  # (R,) is this step an extra one
        ordinary = step.index - done.long()
        count = quota(self.name, step.slots, ordinary, step.masked.sum(-1))
        if count is None:
            count = torch.full_like(ordinary, fixed_count(self.policy) or 0)
        count = torch.where(extra, 1, count)
        move = as_move(self.name.policy, self.policy.select(replace(step, quota=count)), step)
        confidence = step.confidence if move.confidence is None else move.confidence
        here = torch.where(move.reveal, confidence, confidences)  # (R, C)
        committed = step.inside & (here > MASKED)
        place = (step.slots * 7 // 8).minimum(step.slots - 1).clamp(min=1)  # (R,)
        due = (step.index + 1 >= place) | (committed.sum(-1) == step.slots)
        again = due & (done < self.name.remask_rounds) & committed.any(-1)
        weakest = (step.rank(-here, committed) < 1) & committed & again[:, None]
        confidences.copy_(here.masked_fill(weakest | ~step.inside, MASKED))
        done += again
        extra.copy_(again)
        return replace(move, remask=weakest)


@dataclass(frozen=True, slots=True)
class RemdmEarly(Remdm):
    """ReMDM started early: once 7/8 of a block is committed, remasks its token of lowest
    confidence, `rounds` times (arXiv 2503.00307).

    `+remdmN` counts 7/8 of the block in steps, which for k > 1 lies past the block's end. A round
    has no step of its own: the next step of k tokens decodes the remasked token again.

    State: each slot's confidence when revealed, rounds done.
    """

    def select(self, step: Step) -> Move:
        reveal = as_move(self.name.policy, self.policy.select(step), step).reveal
        confidences = step.state("remdm confidences")  # (R, C)
        done = step.state("remdm rounds", per="row")  # (R,)
        here = torch.where(reveal, step.confidence, confidences)  # (R, C)
        confidences.copy_(here)
        committed = step.visible | reveal
        due = committed.sum(-1) >= torch.ceil(step.inside.sum(-1) * 7 / 8)  # (R,)
        again = due & (done < self.name.remask_rounds)
        done += again
        return Move(reveal, committed & (step.rank(-here, committed) < 1) & again[:, None])


def _remasked(policy: Policy, name: SamplerName) -> Policy:
    # Some of the counts may be 0.
    steps = len(name.counts) if name.counts is not None else name.schedule_steps
    if name.remask == "rcr":
        return (RcrMax if name.remask_variant else Rcr)(fixed_count(policy), steps)
    extra = name.remask_rounds + (0 if name.remask_variant else steps)
    own = traits(policy)
    declared = Traits(
        cap=lambda slots: slots + extra, review=own.review, needs=own.needs, reads=own.reads
    )
    return (RemdmEarly if name.remask_variant else Remdm)(policy, name, declared)


@dataclass(frozen=True, slots=True)
class Drawn:
    """A policy whose tokens are chosen together (`name.together`) and whose unsure positions keep a
    distance (`name.gap`).

    Of the positions that the policy reveals, the gap first leaves out some; the others get their
    tokens together. A policy that asks about its drafts by what-if rows drafts tokens chosen
    together for all candidates.
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
            return replace(
                as_move(self.name.policy, answer, step), token=token, confidence=confidence
            )
        move = as_move(self.name.policy, self.policy.select(step), step)
        if self.name.gap:
            move = replace(move, reveal=spaced(step, move.reveal, self.name.gap))
        if how is None:
            return move
        token, confidence = together(step, move.reveal, how)
        return replace(move, token=token, confidence=confidence)


def _drawn(policy: Policy, name: SamplerName) -> Policy:
    declared = traits(policy)
    if name.together is not None or name.temperature:
        declared = replace(declared, reads="distributions")
    if name.together is not None:
        declared = replace(declared, rewrites=True, chooses=None)
    elif declared.chooses:
        declared = replace(declared, chooses="tokens")
    if name.gap:
        declared = replace(declared, reveals=None)
    return Drawn(policy, name, declared)


@dataclass(frozen=True, slots=True)
class Adas:
    """The policy, walking through the candidates in ADAS's order (arXiv 2606.10829; from the paper
    alone): next is always the one with the largest cᵢ − α Σ A[i, s](1 − c_s), summed over those
    before it. A is the last layer's attention, c the confidence. The policy decides as before how
    many to reveal.
    """

    policy: Policy
    alpha: float
    declared: Traits

    def select(self, step: Step) -> Tensor | Move | Probe:
        weights = step.attention.weights.to(step.confidence.dtype)  # (R, C, C)
        left = step.masked.clone()
        discount = torch.zeros_like(step.confidence)
        place = torch.full_like(step.token, step.masked.shape[-1])  # (R, C) in the order
        for number in range(step.masked.shape[-1]):
            score = (step.confidence - self.alpha * discount).masked_fill(~left, -torch.inf)
            # (R, 1): the first of equals; where none is left, any
            pick = score.argmax(-1, keepdim=True)
            discount = discount + weights.take_along_dim(pick[:, None], -1)[..., 0] * (
                1 - step.confidence.gather(-1, pick)
            )
            place = torch.where(
                left & torch.zeros_like(left).scatter(-1, pick, True), number, place
            )
            left = left.scatter(-1, pick, False)
        return self.policy.select(step.in_order(place.argsort(dim=-1, stable=True)))


@dataclass(frozen=True, slots=True)
class Prophet:
    """Ends an answer once the gap between the two highest logits, in the mean over a region, is
    large enough; early steps ask for more (Prophet, arXiv 2508.19982).

    From the paper's code: after each forward the gap is held against `early` while less than .33 of
    all steps are done, against `mid` while less than .67 are, then against `late`; steps count from
    1, over all blocks. At or above it every mask of the answer gets that forward's likeliest token.
    The region is `length` places from `start` of the answer, masked or not, cut at its end. Without
    a length it goes to the end; the authors' code never exits without a region.
    """

    policy: Policy
    name: SamplerName
    declared: Traits
    k: int | None = None  # None: a schedule says how many

    def select(self, step: Step) -> Move | Probe:
        move = self.policy.select(step)
        if isinstance(move, Probe):
            return move
        assert step.gap is not None
        name = self.name
        done = (step.nfe + 1) / self._steps(step)  # (R,)
        least = torch.where(done < MIDDLE, name.prophet_mid, name.prophet_late)
        least = torch.where(done < EARLY, name.prophet_early, least)
        return replace(as_move(name.policy, move, step), finish=step.gap >= least)

    def _steps(self, step: Step) -> Tensor:
        """The steps (R,) of the whole answer."""
        size = self.name.block or step.targets
        if self.name.counts is not None:
            each = torch.full_like(step.targets, len(self.name.counts)).clamp(max=size)
        elif self.name.schedule is not None:
            each = torch.full_like(step.targets, self.name.schedule_steps).clamp(max=size)
        else:
            each = -(-torch.zeros_like(step.targets).add(size) // (self.k or 1))
        return each * (step.targets // size)


def _exiting(policy: Policy, name: SamplerName, k: int | None) -> Policy:
    own = traits(policy)
    region = name.prophet_start, name.prophet_length
    return Prophet(policy, name, replace(own, reveals=None, chooses=None, gaps=region), k)


def modified(policy: Policy, name: SamplerName) -> Policy:
    """`policy` with the sampler's modifiers around it."""
    k = fixed_count(policy)
    if name.remask is not None:
        policy = _remasked(policy, name)
    if name.adas is not None:
        own = traits(policy)
        declared = Traits(
            reads=own.reads,
            needs=frozenset({"attention"}),
            chooses="tokens",
            reveals=own.reveals,
            attends=Attending(last=1),
        )
        policy = Adas(policy, name.adas, declared)
    if name.together or name.gap:
        policy = _drawn(policy, name)
    return _exiting(policy, name, k) if name.prophet else policy
