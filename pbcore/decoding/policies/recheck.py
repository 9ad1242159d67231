"""Bold drafts, of which those that the others make less probable are taken back."""

from typing import Annotated

from pbcore.base.lazy_torch import Tensor, torch
from pbcore.decoding.joint_draws import spaced, together
from pbcore.decoding.policies.drafts import marked_places
from pbcore.decoding.policies.registry import (
    Count,
    NotNegative,
    Ranged,
    Span,
    register_policy,
)
from pbcore.decoding.step import Move, Step
from pbcore.decoding.what_if import Probe


@register_policy("recheck", look=30)
class Recheck(Ranged):
    """Drafts sure tokens and at most `most` others, chosen together, and reveals those that keep
    `beta` of their probability given all the others.

    Sure ones (`sure` or more) stay unchecked. The others keep `gap` columns apart and get tokens by
    `+counts`. One forward a step: of the canvas with all drafts, and for each unsure draft of the
    same without it, which tells its probability given the rest exactly. Drafts that fail wait; if
    all fail, the best stays. If none or one failed, what was asked about serves as the next step's
    forward.

    No paper tells the rule.
    """

    most: Annotated[Count, Span(2, 8, "log")] = 4
    beta: NotNegative = 0.9
    sure: NotNegative = 0.95
    gap: Count = 2
    rewrites = True
    needs = frozenset({"probe"})

    @property
    def what_if_rows(self) -> int:
        return 1 + self.most

    def select(self, step: Step) -> Move | Probe:
        if step.answers is None:
            step.notes["recheck"] = self.drafted(step)
        reveal, open_, token, confidence = step.notes["recheck"]  # (R, C) each
        checked = open_ & (open_.sum(-1, keepdim=True) > 1)
        owner, slot = marked_places(step, checked)  # (K,) each
        rows = torch.arange(len(reveal), device=reveal.device)
        if step.answers is None:
            without = torch.nn.functional.one_hot(slot, reveal.shape[1]).bool()
            every = torch.cat([rows, owner])
            return Probe(every, torch.cat([reveal, reveal[owner] & ~without]), token[every])
        without = len(rows) + torch.arange(len(owner), device=rows.device)  # (K,) what-if rows
        asked = torch.zeros_like(step.answers.masked)
        asked[without, slot] = True
        # (K,) given all the others
        now = step.answers.probability(asked, token[step.answers.row])[without, slot]
        lifts = torch.full_like(confidence, torch.inf)
        lifts[owner, slot] = now / confidence[owner, slot]
        failed = _failing(lifts, self.beta)
        take = rows.where(~failed.any(-1), -1)
        single = failed[owner, slot] & (failed.sum(-1) == 1)[owner]  # (K,)
        wider = torch.cat([take, take[:1]])  # its last entry takes what isn't single
        take = wider.scatter(0, owner.where(single, len(rows)), without)[:-1]
        return Move(reveal & ~failed, token=token, confidence=confidence, take=take)

    def drafted(self, step: Step) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """What a step drafts, and the unsure part of it; token and probability; (R, C) each."""
        certain = step.masked & (step.confidence >= self.sure)
        open_ = spaced(step, step.masked & ~certain, self.gap)
        open_ &= step.rank(step.confidence, open_) < self.most
        token, confidence = together(step, open_, "counts")
        return certain | open_, open_, token, confidence


def _failing(lifts: Tensor, beta: float) -> Tensor:
    """The drafts (R, C) whose lift is below `beta`, without the best one where all checked ones
    fail; the lift of unchecked ones is infinite.
    """
    failed = lifts < beta
    none_left = (failed == lifts.isfinite()).all(-1) & failed.any(-1)
    best = lifts.masked_fill(~failed, -1).argmax(-1, keepdim=True) == torch.arange(
        lifts.shape[1], device=lifts.device
    )
    return failed & ~(none_left[:, None] & best)


@register_policy("recheck_shadow", look=31)
class RecheckShadow(Recheck):
    """`recheck` without what-if rows: writes its drafts, and masks those again whose support in the
    next forward is below `beta` of their probability when drafted.

    Support is the probability of a token while hidden from the model, as in `wino` from a shadow
    block in the same forward. Trained models see the token there through the other columns, so some
    errors pass. A step that checks reveals nothing. If all drafts fail, the best stays.

    No paper tells the rule.

    State: the probability of each draft that waits for its check.
    """

    needs = frozenset[str]()
    review = "hidden"

    def cap(self, slots: int) -> int:
        """Every draft and its check leave at least one token more."""
        return 2 * slots

    def select(self, step: Step) -> Move:
        waiting = step.state("recheck waiting")  # (R, C)
        waits = waiting > 0
        checking = waits.any(-1, keepdim=True)  # (R, 1)
        lifts = (step.review.support / waiting).masked_fill(~waits, torch.inf)
        reveal, open_, token, confidence = self.drafted(step)
        reveal = reveal & ~checking
        drafts = open_ & reveal & (open_.sum(-1, keepdim=True) > 1)
        waiting.copy_(torch.where(drafts, confidence, 0.0))
        return Move(reveal, _failing(lifts, self.beta), token, confidence, hold=drafts.any(-1))
