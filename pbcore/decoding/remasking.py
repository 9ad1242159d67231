"""Remasking (`+rcr`, `+remdmN` and their variants): a static policy wrapped so that committed tokens may be taken back.

`+rcr` and `+remdmN` decode as the code of the official runs does. `+rcr-max` and `+remdmN-early` follow the paper's words where that code
departs from them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from pbcore.decoding.policies import Policy
from pbcore.decoding.policies.confidence import Confidence
from pbcore.decoding.schedule import quota
from pbcore.decoding.step import Move, Step
from pbcore.names import SamplerName, SamplerNameError

NOT_NOTED = -1.0  # of a masked slot


@dataclass(frozen=True, slots=True)
class Rcr:
    """RCR as officially run: fills all masks up to the block's end, then masks those of lowest noted confidence (arXiv 2508.13148).

    A slot's note is the confidence with which it was filled last, and a committed token keeps it while its context changes. Each step
    leaves k more tokens than the step before, wherever they stand: tokens of earlier blocks may be masked again, and the block ends
    when nothing up to its end is masked. Forwards: one for each k tokens of a block. Ties keep the token on the left.

    The paper (F.3) speaks of the highest confidence so far instead: that is `+rcr-max`. One thing the official code does is left out: it
    gives given tokens probability 1, so among slots of confidence exactly 1 it may mask parts of the prompt. Here given tokens stay.

    State: each committed slot's confidence when last filled.
    """

    k: int | None = None
    steps: int = 0
    reach: ClassVar[str] = "prefix"

    def cap(self, slots: int) -> int:
        """Every step with a count keeps at least one more token; a schedule may add steps without any."""
        return slots + self.steps

    def select(self, step: Step) -> Move:
        noted = step.memory("rcr noted", NOT_NOTED)  # (R, A)
        now = torch.where(step.masked, step.confidence, noted.gather(1, step.position))  # (R, C)
        filled = step.inside & (now > NOT_NOTED)
        committed = filled & ~step.masked
        count = committed.sum(-1) + (step.quota if step.quota is not None else self.k or 0)  # (R,)
        keep = filled & (step.rank(now, filled) < count[:, None])
        step.store(noted, now.masked_fill(~keep, NOT_NOTED), step.inside)
        return Move(step.masked & keep, committed & ~keep)


@dataclass(frozen=True, slots=True)
class RcrMax:
    """RCR by the paper's words: fills all masks, then masks those whose highest confidence so far is lowest (arXiv 2508.13148).

    The paper (F.3) has each position's running maximum decide. The code of the official runs (`+rcr`) overwrites the note at every
    fill instead, and reaches back into earlier blocks; this one stays in the active block. As many tokens stay as the schedule has
    revealed by then, k more at each step.

    State: each slot's highest confidence.
    """

    k: int | None = None
    steps: int = 0

    def cap(self, slots: int) -> int:
        """As `Rcr.cap`."""
        return slots + self.steps

    def select(self, step: Step) -> Move:
        best = step.memory("rcr best", 0.0)  # (R, A)
        running = torch.maximum(best.gather(1, step.position), step.confidence)  # (R, C)
        step.store(best, running, step.masked)
        committed = (step.inside & ~step.masked).sum(-1)  # (R,)
        count = committed + (step.quota if step.quota is not None else self.k or 0)
        keep = step.inside & (step.rank(running, step.inside) < count[:, None])
        return Move(step.masked & keep, step.inside & ~step.masked & ~keep)


@dataclass(frozen=True, slots=True)
class Remdm:
    """ReMDM as officially run: before each of `rounds` extra steps masks the token least sure when revealed (arXiv 2503.00307).

    An extra step reveals one token, the wrapped policy's choice among all masks of the active block. In a block of B tokens the extra
    steps come after min(⌊7B/8⌋, B − 1) ordinary ones, at least 1, or once the block is full. With k > 1 that is always when it is full,
    while the paper (F.3) speaks of the time when most is generated: `+remdmN-early` starts then. Forwards: ordinary steps plus rounds, in
    each block.

    The official code refuses several blocks with k > 1, because it counts the steps of all blocks together; here each block has its own.
    In a trajectory the token that an extra step masks is masked in the canvas before that step, as the model sees it.

    State: each committed slot's confidence when revealed, rounds had.
    """

    policy: Policy
    rounds: int
    name: SamplerName

    def cap(self, slots: int) -> int:
        """A schedule may add steps without any token."""
        return slots + self.rounds + scheduled(self.name)

    def select(self, step: Step) -> Move:
        sure = step.memory("remdm sure", NOT_NOTED)  # (R, A)
        had = step.memory("remdm rounds", 0.0, per_slot=False)  # (R,)
        extra = step.memory("remdm extra", 0.0, per_slot=False)  # (R,) 1 where this step is an extra one
        had *= step.index > 0
        extra *= step.index > 0
        count = torch.where(extra > 0, 1, self._count(step, step.index - had.long()))
        answer = self.policy.select(replace(step, quota=count))
        move = answer if isinstance(answer, Move) else Move(answer)
        reveal = move.reveal & step.masked
        confidence = step.confidence if move.confidence is None else move.confidence
        here = torch.where(reveal, confidence, sure.gather(1, step.position))  # (R, C)
        committed = step.inside & (here > NOT_NOTED)
        place = (step.slots * 7 // 8).minimum(step.slots - 1).clamp(min=1)  # (R,)
        due = (step.index + 1 >= place) | (committed.sum(-1) == step.slots)
        again = due & (had < self.rounds) & committed.any(-1)
        weakest = (step.rank(-here, committed) < 1) & committed & again[:, None]
        step.store(sure, here.masked_fill(weakest, NOT_NOTED), step.inside)
        had += again
        extra.copy_(again)
        return replace(move, reveal=reveal, remask=weakest)

    def _count(self, step: Step, index: Tensor) -> Tensor:
        """Tokens (R,) of the ordinary step `index` (R,): the schedule's, or k."""
        count = quota(self.name, step.slots, index, step.masked.sum(-1))
        return torch.full_like(index, getattr(self.policy, "k", None) or 0) if count is None else count


@dataclass(frozen=True, slots=True)
class RemdmEarly:
    """ReMDM started early: once 7/8 of a block is committed, `rounds` times masks its least sure token again (arXiv 2503.00307).

    The paper (F.3) revises when most of the output is there. The code of the official runs (`+remdmN`) counts 7/8 of the block in
    steps, which for k > 1 lies behind its end; here they are counted in tokens. Sureness is the confidence with which a token was
    revealed. A round has no step of its own: the next step of k tokens decodes it again.

    State: each slot's confidence when revealed, rounds had.
    """

    policy: Policy
    rounds: int

    def cap(self, slots: int) -> int:
        return slots + self.rounds

    def select(self, step: Step) -> Move:
        answer = self.policy.select(step)
        reveal = (answer.reveal if isinstance(answer, Move) else answer) & step.masked
        sure = step.memory("remdm sure", 0.0)  # (R, A)
        done = step.memory("remdm rounds", 0.0, per_slot=False)  # (R,)
        done *= step.index > 0
        here = torch.where(reveal, step.confidence, sure.gather(1, step.position))  # (R, C)
        step.store(sure, here, reveal)
        committed = (step.inside & ~step.masked) | reveal
        slots = step.inside.sum(-1)
        again = (committed.sum(-1) >= torch.ceil(slots * 7 / 8)) & (done < self.rounds)  # (R,)
        done += again
        return Move(reveal, committed & (step.rank(-here, committed) < 1) & again[:, None])


def remasked(policy: Policy, name: SamplerName) -> Policy:
    """`policy` with the sampler's remasking around it. Raises SamplerNameError where the two don't go together."""
    if name.remask is None:
        return policy
    if name.remask == "rcr":
        if not isinstance(policy, Confidence):
            raise SamplerNameError(
                f"sampler {name}: +rcr ranks by noted confidence, so it goes with confidence-kN, not {name.policy}"
            )
        return (RcrMax if name.remask_variant else Rcr)(policy.k, scheduled(name))
    if not hasattr(policy, "k"):
        raise SamplerNameError(f"sampler {name}: +remdm goes with policies of k tokens a step, not {name.policy}")
    return RemdmEarly(policy, name.remask_rounds) if name.remask_variant else Remdm(policy, name.remask_rounds, name)


def scheduled(name: SamplerName) -> int:
    """The steps of the sampler's schedule; 0 without one."""
    return len(name.counts) if name.counts is not None else name.schedule_steps
