"""Policies that mask or replace revealed tokens again."""

from pbcore.decoding.policies.block_models import NEEDS, chosen, surer_or_first
from pbcore.decoding.policies.registry import Chance, Count, Ranged, register_policy
from pbcore.decoding.protocol import Course
from pbcore.decoding.step import Move, Step
from pbcore.lazy_torch import torch


@register_policy("wino")
class WideInNarrowOut(Ranged):
    """Reveals all with confidence > γ (at least the best) and remasks tokens whose support fell
    below `back` (WINO, arXiv 2507.18578).

    Support is the probability of a revealed token while hidden from the model, from a shadow block
    in the same forward. As in the authors' code, at most min(max(⌊.7 m⌋, 5), 20) of m masks are
    revealed, the surest. A step that reveals one token remasks none. Other steps remask the least
    supported tokens, fewer than the step before revealed (30 at first), so a block of n slots ends
    within n steps.

    State: tokens revealed at the last step.
    """

    gamma: Chance = 0.6
    back: Chance = 0.9
    review = "hidden"

    def cap(self, slots: int) -> int:
        return slots

    def select(self, step: Step) -> Move:
        most = (step.masked.sum(-1) * 7 // 10).clamp(5, 20)  # (R,)
        wide = step.masked & (step.confidence > self.gamma)
        wide = torch.where((wide.sum(-1) > most)[:, None], step.first(step.confidence, most), wide)
        draft = step.at_least_best(wide, step.confidence)
        drafted = draft.sum(-1)
        last = step.state("wino drafted", 30.0, per="row")  # (R,)
        revealed = step.inside & ~step.masked
        support = step.review.support
        rank = step.rank(-support, revealed)
        narrow = (
            revealed & (support < self.back) & (rank < (last - 1)[:, None]) & (drafted > 1)[:, None]
        )
        last.copy_(drafted)
        return Move(draft, narrow)


@register_policy("saber")
class Saber(Ranged):
    """Reveals all above the mean confidence at which the block's tokens were committed, at least
    `n`; then takes back those whose confidence moved least (Saber, arXiv 2510.18165).

    Where nothing is committed the threshold is 1. A step that reveals m tokens and leaves masks
    takes back min(max(⌊n/2⌋, ⌈m/8⌉), m − 1) tokens of earlier steps, those whose likeliest token's
    probability changed least since the last step, as in the authors' code; so a step keeps at least
    one token more and a block ends.

    State: each committed slot's confidence when revealed; each slot's last confidence.
    """

    n: Count = 2
    review = "seen"

    def cap(self, slots: int) -> int:
        return slots

    def select(self, step: Step) -> Move:
        commits, last = step.state("saber commits"), step.state("saber last", -1.0)  # (R, C)
        revealed = step.inside & ~step.masked
        count = revealed.sum(-1)  # (R,)
        mean = torch.where(count > 0, (commits * revealed).sum(-1) / count.clamp(min=1), 1.0)
        reveal = (step.masked & (step.confidence > mean[:, None])) | step.best(
            step.confidence, self.n
        )
        fresh = reveal.sum(-1)
        back = torch.minimum(
            (fresh + 7).div(8, rounding_mode="floor").clamp(min=self.n // 2), fresh - 1
        )
        back = back * (step.masked & ~reveal).any(-1)  # none from a block that is full now
        now = torch.where(step.masked, step.confidence, step.review.confidence)
        moved = torch.where(last >= 0, (now - last).abs(), torch.inf)
        remask = revealed & (step.rank(-moved, revealed) < back[:, None])
        commits.copy_(torch.where(reveal, step.confidence, commits))
        last.copy_(torch.where(step.inside, now, last))
        return Move(reveal, remask)


@register_policy("t2m")
class TokenToMask(Ranged):
    """Reveals all with confidence > γ, at least the best, and masks suspects of earlier steps again
    (T2M, arXiv 2604.18738).

    A token of the block is suspect if its probability, while visible, is below `low`, has fallen by
    more than `drop` since the last step, or if another token is predicted there with more than
    `other`. Each is masked at most `times` times, at most a `share` of the block's tokens (at least
    one) in a step, the least probable first. A full block is reviewed until nothing is taken back,
    at most `post` steps. Tokens are never overwritten; `joint` does that. For models trained to
    predict their visible tokens (LLaDA2.1).

    State: how often each slot was masked again, its token's last probability, steps since the block
    was first full.
    """

    gamma: Chance = 0.9
    low: Chance = 0.1
    other: Chance = 0.9
    drop: Chance = 0.3
    times: int = 3
    share: Chance = 0.25
    post: int = 16
    review = "seen"

    def cap(self, slots: int) -> int:
        """Every slot is filled at most `times` + 1 times, one by one at worst."""
        return slots * (self.times + 1) + self.post

    def select(self, step: Step) -> Move:
        back, last = step.state("t2m back"), step.state("t2m last")  # (R, C)
        after = step.state("t2m after", per="row")  # (R,)
        revealed = step.inside & ~step.masked
        full = ~step.masked.any(-1)
        reveal = step.at_least_best(step.confidence > self.gamma, step.confidence)
        support = step.review.support
        suspect = (support < self.low) | (last - support > self.drop)
        suspect |= (step.review.token != step.token) & (step.review.confidence > self.other)
        editable = revealed & (back < self.times)
        most = (editable.sum(-1) * self.share).long().clamp(min=1)  # (R,)
        suspect &= editable & (after < self.post)[:, None]
        remask = suspect & (step.rank(-support, suspect) < most[:, None])
        back += remask
        last.copy_(
            torch.where(reveal, step.confidence, torch.where(revealed & ~remask, support, 0.0))
        )
        after += full
        filled = ~(step.masked & ~reveal).any(-1)
        again = step.masked.any(-1) | remask.any(-1)
        return Move(reveal, remask, hold=filled & again & (after < self.post))


@register_policy("joint")
class JointThreshold(Ranged):
    """Reveals all slots with confidence > γ, at least the best, and replaces revealed tokens by
    others predicted with more than `edit`.

    LLaDA2.1, arXiv 2602.08676. A full block is edited further until nothing changes, for at most
    `post` steps. γ .5 with `edit` 0 is the paper's speedy mode, .7 with .5 its quality mode. Where
    fewer than `least` slots exceed γ, the `least` best are revealed. A token where the mask itself
    is predicted with more than `edit` is masked again, as in the authors' code, which may go on
    with that for ever; here a block ends after as many steps as it has slots, and `post` more. The
    answer of a block model ends with its first EOS; with `early` no block follows one. For models
    trained to edit; other models re-predict visible tokens poorly.

    State: steps since the block was first full.
    """

    gamma: Chance = 0.5
    edit: Chance = 0.0
    post: int = 16
    least: Count = 1
    early: bool = False
    review = "seen"
    needs = NEEDS
    rewrites = True

    @property
    def course(self) -> Course:
        return Course(stop="block" if self.early else "never", ends_at_stop=True)

    def cap(self, slots: int) -> int:
        return slots + self.post

    def select(self, step: Step) -> Move:
        revealed = step.inside & ~step.masked
        full = ~step.masked.any(-1)
        least = torch.full_like(step.index, self.least)  # (R,)
        fill = chosen(step, lambda confidence: surer_or_first(step, confidence, self.gamma, least))
        assert step.review.mask is not None
        own = step.review.confidence * (1 - step.review.mask)  # (R, C)
        blank = revealed & (step.review.mask > own)
        edit = revealed & ~blank & (step.review.token != step.token) & (own > self.edit)
        remask = blank & (step.review.mask > self.edit)
        after = step.state("joint after", per="row")  # (R,)
        after += full
        fills = ~(step.masked & ~fill).any(-1)
        changed = (fill | edit | remask).any(-1)
        return Move(
            fill,
            remask,
            token=torch.where(edit, step.review.token, step.token),
            confidence=torch.where(edit, step.review.confidence, step.confidence),
            revise=edit,
            hold=fills & changed & (after < self.post),
        )
