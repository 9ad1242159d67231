"""Bold drafts, of which those that the others make less probable are taken back before they are written."""

from dataclasses import dataclass
from typing import ClassVar

from pbcore.decoding.joint_draws import spaced, together
from pbcore.decoding.policies.registry import register_policy
from pbcore.decoding.step import Move, Step
from pbcore.decoding.what_if import Answers, Probe
from pbcore.lazy_torch import Tensor, torch


@register_policy("recheck")
@dataclass(frozen=True, slots=True)
class Recheck:
    """Drafts sure tokens and at most `most` others, chosen together, and reveals those that keep `beta` of their
    probability given all the others.

    Sure ones (`sure` or more) stay unchecked. The others keep `gap` columns apart and get tokens by `+counts`. One
    forward a step: of the canvas with all drafts, and for each unsure draft of the same without it, which tells its
    probability given the rest exactly. Drafts that fail wait; if all fail, the best stays. If none or one failed, what
    was asked about serves as the next step's forward.
    """

    most: int = 4
    beta: float = 0.9
    sure: float = 0.95
    gap: int = 2
    rewrites: ClassVar[bool] = True
    needs: ClassVar[frozenset[str]] = frozenset({"probe"})

    def __post_init__(self) -> None:
        if self.most < 1 or self.beta < 0 or self.sure < 0 or self.gap < 1:
            raise ValueError(
                f"recheck takes at least 1 draft and a gap of at least 1, beta and sure of at least 0, not {self}"
            )

    def select(self, step: Step) -> Move | Probe:
        if step.answers is None:
            step.notes["recheck"] = drafted(step, self.most, self.sure, self.gap)
        reveal, open_, token, confidence = step.notes["recheck"]  # (R, C) each
        owner, slot = (open_ & (open_.sum(-1, keepdim=True) > 1)).nonzero(as_tuple=True)  # (K,) each: what is checked
        rows = torch.arange(len(reveal), device=reveal.device)
        if step.answers is None:
            without = torch.nn.functional.one_hot(slot, reveal.shape[1]).bool()
            return Probe(
                torch.cat([rows, owner]), torch.cat([reveal, reveal[owner] & ~without]), token[torch.cat([rows, owner])]
            )
        lift = _lift(step.answers, owner, slot, token, confidence)  # (K,)
        lifts = torch.full_like(confidence, torch.inf)
        lifts[owner, slot] = lift
        failed = failing(lifts, self.beta)
        take = rows.where(~failed.any(-1), -1)
        single = failed[owner, slot] & (failed.sum(-1) == 1)[owner]  # (K,)
        take[owner[single]] = len(rows) + single.nonzero().squeeze(-1)
        return Move(reveal & ~failed, token=token, confidence=confidence, take=take)


def drafted(step: Step, most: int, sure: float, gap: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What a step drafts, and the unsure part of it; token and probability; (R, C) each."""
    certain = step.masked & (step.confidence >= sure)
    open_ = spaced(step, step.masked & ~certain, gap)
    open_ &= step.rank(step.confidence, open_) < most
    token, confidence = together(step, open_, "counts")
    return certain | open_, open_, token, confidence


def failing(lifts: Tensor, beta: float) -> Tensor:
    """The drafts (R, C) whose lift is below `beta`, without the best one where all checked ones fail; lifts of what
    isn't checked are infinite.
    """
    failed = lifts < beta
    none_left = (failed == lifts.isfinite()).all(-1) & failed.any(-1)
    best = lifts.masked_fill(~failed, -1).argmax(-1, keepdim=True) == torch.arange(lifts.shape[1], device=lifts.device)
    return failed & ~(none_left[:, None] & best)


def _lift(answers: Answers, owner: Tensor, slot: Tensor, token: Tensor, confidence: Tensor) -> Tensor:
    """The probability of each checked draft given all the others, over that when it was drafted (K,)."""
    marks = torch.zeros_like(answers.masked)
    marks[len(token) + torch.arange(len(owner), device=owner.device), slot] = True
    return answers.probability(marks, token[answers.row])[marks] / confidence[owner, slot]
