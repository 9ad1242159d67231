"""Remasking (`+rcr`, `+remdmN`): a static policy wrapped so that committed tokens may be taken back."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from pbcore.decoding.policies import Policy
from pbcore.decoding.policies.confidence import Confidence
from pbcore.decoding.step import Move, Step
from pbcore.names import SamplerName, SamplerNameError


@dataclass(frozen=True, slots=True)
class RunningConfidence:
    """RCR: fills all masks, then masks those whose highest confidence so far is lowest (MDPO, arXiv 2508.13148).

    As many tokens stay as the schedule has revealed by then, k more at each step; a committed token may go back to the mask.

    State: each slot's highest confidence.
    """

    k: int | None = None
    steps: int = 0

    def cap(self, slots: int) -> int:
        """Every step with a count keeps at least one more token; a schedule may add steps without any."""
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
class ReMask:
    """ReMDM's loop with one token: once 7/8 of a block is committed, `rounds` times masks its least sure token again (arXiv 2503.00307).

    Sureness is the confidence with which a token was revealed. Each round takes a step of the wrapped policy to decode again.

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
                f"sampler {name}: +rcr ranks by running confidence, so it goes with confidence-kN, not {name.policy}"
            )
        scheduled = len(name.counts) if name.counts is not None else name.schedule_steps
        return RunningConfidence(policy.k, scheduled)
    if not hasattr(policy, "k"):
        raise SamplerNameError(f"sampler {name}: +remdm goes with policies of k tokens a step, not {name.policy}")
    return ReMask(policy, name.remask_rounds)
