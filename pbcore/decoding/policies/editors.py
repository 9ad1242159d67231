"""Policies that mask or replace revealed tokens again."""

from typing import Annotated, Literal

from pbcore.base.lazy_torch import Tensor, torch
from pbcore.decoding.policies.block_models import NEEDS, choose_slots, surer_or_first
from pbcore.decoding.policies.registry import (
    Chance,
    Count,
    OptionalChance,
    Ranged,
    Span,
    TunedChance,
    register_policy,
)
from pbcore.decoding.protocol import Course
from pbcore.decoding.step import Move, Step

NEVER = -1.0  # stands for the confidence of a slot that never had a token
THETA = {"low_prob": 0.1, "t2t_remask": 0.9, "logit_diff": 0.3}  # of T2M's strategies


@register_policy("wino", look=13)
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

    gamma: TunedChance = 0.6
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
        support = step.review.support
        narrow = step.visible & (support < self.back) & (drafted > 1)[:, None]
        narrow &= step.rank(-support, step.visible) < (last - 1)[:, None]
        last.copy_(drafted)
        return Move(draft, narrow)


@register_policy("saber", look=11)
class Saber(Ranged):
    """Reveals all above the mean confidence at which tokens were committed so far, at least `n`;
    then takes back those whose confidence fell most or rose least (Saber, arXiv 2510.18165).

    The mean is over the positions of all blocks that ever had a token, each with the confidence of
    its last commit, those taken back since included; before the first token the threshold is 1. A
    step that reveals m tokens and leaves masks takes back min(max(⌊n/2⌋, ⌈m/8⌉), m − 1), those of
    smallest change: the probability of the slot's likeliest token now, less the same at the last
    step. That is 0 for the first step, and for a slot that enters with its block. Tokens revealed
    in this step and those of earlier blocks are candidates, too, and a block ends once no mask is
    left up to its end. Each step keeps at least one token more, so a block of n slots ends within n
    steps. The authors' code, but where fewer than n masks are left: there its top-k goes on to
    slots that hold a token already, whose confidences are all −∞, and which of them it takes is
    left to the implementation of top-k; here no visible slot is revealed again.

    State: each slot's confidence when last committed; the confidence of each slot's likeliest token
    at the last step.
    """

    n: Annotated[Count, Span(2, 8, "log")] = 2
    review = "seen"
    reach = "prefix"

    def cap(self, slots: int) -> int:
        return slots

    def select(self, step: Step) -> Move:
        commits = step.state("saber commits", NEVER, over="answer")  # (R, C)
        last = step.state("saber last", over="answer")  # (R, C)
        committed = commits > NEVER
        count = committed.sum(-1)  # (R,)
        total = commits.where(committed, 0.0).sum(-1)
        mean = torch.where(count > 0, total / count.clamp(min=1), 1.0)
        reveal = step.masked & (step.confidence > mean[:, None])
        reveal |= step.best(step.confidence, self.n)
        fresh = reveal.sum(-1)
        back = (fresh + 7).div(8, rounding_mode="floor").clamp(min=self.n // 2)
        back = torch.minimum(back, fresh - 1)
        back = back * (step.masked & ~reveal).any(-1)  # none where no mask is left
        now = torch.where(step.visible, step.review.confidence, step.confidence)
        present = step.visible | reveal
        remask = present & (step.rank(last - now, present) < back[:, None])
        commits.copy_(torch.where(reveal, step.confidence, commits))
        last.copy_(torch.where(step.inside, now, last))
        return Move(reveal, remask)


@register_policy("t2m", look=29)
class TokenToMask(Ranged):
    """Reveals all with confidence > γ, at least the best, and masks suspects of earlier steps again
    (T2M, arXiv 2604.18738).

    The strategy says which tokens of the block are suspect. `low_prob`: those whose probability,
    while visible, is below θ, the least probable first. `t2t_remask`: those where another token is
    predicted with more than θ, the most probable of these first. `logit_diff`: those whose
    probability fell by more than θ since the last step, the largest fall first. θ is .1 for
    `low_prob` (the paper's runs), .9 for `t2t_remask` and .3 for `logit_diff` (the authors'
    defaults).

    Each slot is masked again at most `times` times, and in a step at most max(1, ⌊ratio · visible⌋)
    of the block's visible tokens. A full block is reviewed until nothing is taken back, at most
    `post` steps. Tokens are never overwritten; `joint` does that. For models trained to predict
    their visible tokens (LLaDA2.1). The rules of the authors' code.

    State: how often each slot was masked again, its token's last probability, steps since the block
    was first full.
    """

    gamma: TunedChance = 0.9
    theta: OptionalChance = None
    strategy: Literal["low_prob", "t2t_remask", "logit_diff"] = "low_prob"
    times: int = 3
    ratio: Chance = 0.25
    post: int = 16
    review = "seen"

    def cap(self, slots: int) -> int:
        """Every slot is filled at most `times` + 1 times, one by one at worst."""
        return slots * (self.times + 1) + self.post

    def select(self, step: Step) -> Move:
        back, last = step.state("t2m back"), step.state("t2m last")  # (R, C)
        after = step.state("t2m after", per="row")  # (R,)
        full = ~step.masked.any(-1)
        reveal = step.at_least_best(step.confidence > self.gamma, step.confidence)
        suspect, doubt = self._suspects(step, last)
        suspect &= step.visible & (back < self.times) & (after < self.post)[:, None]
        most = (step.visible.sum(-1).double() * self.ratio).long().clamp(min=1)  # (R,)
        remask = suspect & (step.rank(doubt, suspect) < most[:, None])
        back += remask
        support = step.review.support.where(step.visible & ~remask, 0.0)
        last.copy_(torch.where(reveal, step.confidence, support))
        after += full
        filled = ~(step.masked & ~reveal).any(-1)
        again = step.masked.any(-1) | remask.any(-1)
        return Move(reveal, remask, hold=filled & again & (after < self.post))

    def _suspects(self, step: Step, last: Tensor) -> tuple[Tensor, Tensor]:
        """Suspect slots (R, C) by the strategy, and the doubt (R, C) by which they are ranked;
        `last` (R, C) are the tokens' probabilities at the last step.
        """
        review = step.review
        theta = THETA[self.strategy] if self.theta is None else self.theta
        if self.strategy == "low_prob":
            return review.support < theta, -review.support
        if self.strategy == "t2t_remask":
            other = review.token != step.token
            return other & (review.confidence > theta), review.confidence
        fall = last - review.support
        return fall > theta, fall


@register_policy("joint", look=21)
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

    gamma: TunedChance = 0.5
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
        revealed = step.visible
        full = ~step.masked.any(-1)
        least = torch.full_like(step.index, self.least)  # (R,)
        fill = choose_slots(
            step, lambda confidence: surer_or_first(step, confidence, self.gamma, least)
        )
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
