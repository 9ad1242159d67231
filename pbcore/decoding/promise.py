"""The promise `reveals = "k"`: every step reveals exactly k of its candidates, or as many as a
schedule gives, all where fewer are left, and takes nothing back. R rows, C slots.
"""

from dataclasses import dataclass, replace
from typing import Any

from pbcore.base.lazy_torch import Tensor, torch
from pbcore.base.printable import step_number
from pbcore.decoding.checks import DecodingError, as_move
from pbcore.decoding.job import Job
from pbcore.decoding.modifiers import Adas, Drawn, Prophet, Remdm
from pbcore.decoding.protocol import Policy, Traits, fixed_count, traits
from pbcore.decoding.rows import Rows
from pbcore.decoding.step import Move, Step
from pbcore.decoding.what_if import Probe

NOTE = "revealed"
ADVICE = (
    "reveal exactly that many (step.best(score, self.k)), or leave the declaration out: then the"
    " policy decides itself how many, and k is a plain parameter"
)


@dataclass(frozen=True, slots=True)
class RevealCounts:
    """What a policy revealed at a step. `asked` is the number that it was to reveal, the masks left
    not regarded; `due` (R,) that number, or all masks where fewer are left; `revealed` (R,); `k`
    the policy's own number.
    """

    k: int | None

    asked: Tensor  # (R,)
    due: Tensor  # (R,)
    revealed: Tensor  # (R,)


@dataclass(frozen=True, slots=True)
class Counted:
    """A policy that declares `reveals = "k"`, whose numbers the loop reads in `step.notes`."""

    policy: Policy
    name: str
    declared: Traits

    @property
    def k(self) -> int | None:
        return fixed_count(self.policy)

    def select(self, step: Step) -> Tensor | Move | Probe:
        answer = self.policy.select(step)
        if isinstance(answer, Probe):
            return answer
        move = as_move(self.name, answer, step)
        taken = [word for word in ("remask", "revise", "hold") if getattr(move, word) is not None]
        if taken:
            raise DecodingError(
                f"policy {self.name} declares reveals = 'k' and returned Move.{taken[0]}; a policy"
                " with that declaration only reveals tokens, so leave one of the two out"
            )
        left = step.masked.sum(-1)  # (R,)
        asked = step.quota
        if asked is None:
            asked = torch.full_like(left, self.k or 0)
        step.notes[NOTE] = RevealCounts(self.k, asked, asked.minimum(left), move.reveal.sum(-1))
        return move


def counted(policy: Policy, name: str) -> Policy:
    """The policy, counted if it declares `reveals = "k"`, also where modifiers stand around it.

    Args:
        policy: with its modifiers.
        name: of the policy itself.
    """
    if isinstance(policy, Adas | Drawn | Prophet | Remdm):
        return replace(policy, policy=counted(policy.policy, name))
    declared = traits(policy)
    return Counted(policy, name, declared) if declared.reveals else policy


def check_count(job: Job, rows: Rows, step: Step) -> None:
    """Rings if a policy that declares `reveals = "k"` revealed another number than it was to.

    Args:
        job: has the alarms.
        rows: before the step's move.
        step: that the policy got.
    """
    counts: Any = step.notes.get(NOTE)
    if counts is None:
        return
    broken = counts.revealed != counts.due  # (R,)
    origin, steps = rows.origin, rows.steps

    def error() -> DecodingError:
        row = int(broken.nonzero()[0])
        due = int(counts.due[row])
        asked = int(counts.asked[row])
        given = "k is" if asked == counts.k else "the count of this step is"
        fewer = "" if due == asked else f" and {due} masks are left"
        return DecodingError(
            f"policy {job.name.policy} declares reveals = 'k' and revealed"
            f" {int(counts.revealed[row])} tokens at step {step_number(int(steps[row]))} of"
            f" {job.labels[int(origin[row])]}, where {given} {asked}{fewer}; {ADVICE}"
        )

    job.alarms.ring(broken, error)
