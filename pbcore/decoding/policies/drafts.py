"""Branches and drafts that one forward of what-if rows tries before they are written."""

from dataclasses import replace
from typing import Annotated

from pbcore.base.lazy_torch import Tensor, torch
from pbcore.decoding.policies.block_models import spread, surer_or_first
from pbcore.decoding.policies.places import after_mask
from pbcore.decoding.policies.registry import (
    Count,
    NotNegative,
    Ranged,
    Span,
    TunedChance,
    Whole,
    register_policy,
)
from pbcore.decoding.prediction import distribution, pieces_of, running_numbers, scattered
from pbcore.decoding.step import Move, Step
from pbcore.decoding.what_if import Answers, Probe
from pbcore.models.counter_rng import bernoulli, categorical
from pbcore.models.transfer import on_device, places

ACCEPT, RESIDUAL = 1, 2  # salts of random numbers
CERTAIN = 0.99  # a mask of this confidence lets others go first: it follows in the next step anyway


@register_policy("lopa", look=10)
class Lopa(Ranged):
    """Tries all above γ (at least the best) alone and with one further token each, and goes on with
    the branch whose masks are surest in the mean (LoPA, arXiv 2512.16229).

    The further tokens are the next surest, one for each of the other `branches`. All branches are
    one forward of what-if rows, and the chosen one's answer is the next step's forward. A branch
    that another token would complete isn't tried, since nothing would judge it. Ties go to the
    fewest and surest tokens.
    """

    branches: Annotated[Count, Span(2, 8, "log")] = 3
    gamma: TunedChance = 0.9
    needs = frozenset({"probe"})

    @property
    def what_if_rows(self) -> int:
        return self.branches

    def select(self, step: Step) -> Move | Probe:
        base = step.at_least_best(step.confidence > self.gamma, step.confidence)  # (R, C)
        rest = step.masked & ~base
        rank = step.rank(step.confidence, rest)
        # (B,): −1 is the base alone
        extra = torch.arange(-1, self.branches - 1, device=rank.device)
        several = rest.sum(-1, keepdim=True) > 1  # (R, 1)
        tried = (extra < 0) | (extra < rest.sum(-1, keepdim=True)) & several  # (R, B)
        row, branch = marked_places(step, tried)  # (W,) each
        write = base[row] | (rest[row] & (rank[row] == extra[branch][:, None]))  # (W, C)
        if step.answers is None:
            return Probe(row, write, step.token[row])
        masked = step.answers.masked
        _, confidence = step.answers.predict(masked)  # (W, C)
        mean = (confidence * masked).sum(-1) / masked.sum(-1).clamp(min=1)  # (W,)
        best = scattered(tried, mean, -1.0).argmax(-1, keepdim=True)  # the first of equals
        take = running_numbers(tried).gather(1, best).squeeze(1)  # (R,)
        return Move(write[take], take=take)


@register_policy("freedave", look=23)
class FreeDave(Ranged):
    """The answers of `confidence-k1` in fewer forwards: drafts its next `drafts` steps and keeps
    those that it would take (FreeDave, arXiv 2510.00294).

    Draft j has the j + 1 surest tokens. The first is what one token a step would write; the next
    follows while the answer to the one before names its last token as the surest. The longest draft
    reached is taken, with its answer as the next step's forward. Drafts without a mask aren't
    forwarded; the authors forward them, too. At a temperature drafts and answers draw by the same
    random numbers.
    """

    drafts: Annotated[Count, Span(2, 8, "log")] = 4
    needs = frozenset({"probe"})

    @property
    def what_if_rows(self) -> int:
        return self.drafts

    def select(self, step: Step) -> Move | Probe:
        rank = step.rank(step.confidence)
        counts = 1 + torch.arange(self.drafts, device=rank.device)  # (K,) tokens of each draft
        asked = counts <= step.masked.sum(-1, keepdim=True)  # (R, K)
        row, draft = marked_places(step, asked)  # (W,) each
        if step.answers is None:
            return Probe(
                row, step.masked[row] & (rank[row] < counts[draft][:, None]), step.token[row]
            )
        # (W, C): the next draft's last token
        follows = step.masked[row] & (rank[row] == counts[draft][:, None])
        token, confidence = step.answers.predict(step.answers.masked)  # (W, C) each
        # Of ties the lowest position.
        surest = confidence.masked_fill(~step.answers.masked, -1).argmax(-1, keepdim=True)
        hit = (follows & (token == step.token[row])).gather(1, surest).squeeze(1)  # (W,)
        goes_on = torch.zeros_like(asked).masked_scatter(asked, hit)
        streak = goes_on.long().cumprod(-1).sum(-1).clamp(max=self.drafts - 1)  # (R,)
        take = running_numbers(asked).gather(1, streak[:, None]).squeeze(1)
        return Move(step.masked & (rank <= streak[:, None]), take=take)


@register_policy("punt", look=27)
class Punt(Ranged):
    """Reveals tokens that leave each other's distributions as they are, up to KL ε, found by
    halving (PUNT, arXiv 2510.21961).

    Candidates are ranked by falling confidence. For each bit of the ranks, highest first, one
    what-if row has the tokens of those whose bit is 0; of the others those leave whose distribution
    moved by more than ε. What is left is revealed. A bit that doesn't tell the remaining ones apart
    takes no forward. So a step takes at most 1 + ⌈log₂ m⌉ forwards for m masks.
    """

    epsilon: Annotated[NotNegative, Span(0.005, 0.5, "log")] = 0.05
    needs = frozenset({"probe"})
    what_if_rows = 1

    def select(self, step: Step) -> Tensor | Probe:
        notes = step.notes
        if step.answers is None:
            notes.update(
                left=step.masked,
                bit=max(0, max(step.candidates()) - 1).bit_length(),
                rank=step.rank(step.confidence),
            )
        else:
            moved = _moved(step, step.answers, notes["ones"], notes["moving"], self.epsilon)
            notes["left"] = notes["left"] & ~moved
        while notes["bit"]:
            notes["bit"] -= 1
            bit_is_set = (notes["rank"] >> notes["bit"]) % 2 == 1
            zeros, notes["ones"] = notes["left"] & ~bit_is_set, notes["left"] & bit_is_set
            splits = zeros.any(-1) & notes["ones"].any(-1)  # (R,)
            told, sizes = torch.stack([splits, notes["ones"].sum(-1)]).tolist()
            rows = [number for number, split in enumerate(told) if split]
            notes["moving"] = sum(sizes[number] for number in rows)
            if rows:
                row = on_device(rows, splits.device)  # (W,)
                return Probe(row, zeros[row], step.token[row])
        left: Tensor = notes["left"]
        return left


def marked_places(step: Step, asked: Tensor) -> tuple[Tensor, Tensor]:
    """Row and column (W,) of each marked entry (R, B), which a policy asks about in every call of a
    step; the host waits for them once.
    """
    if "marks" not in step.notes:
        step.notes["marks"] = asked.nonzero(as_tuple=True)
    row, column = step.notes["marks"]
    return row, column


def _moved(step: Step, answers: Answers, slots: Tensor, count: int, bound: float) -> Tensor:
    """Of the marked slots (R, C), `count` in the asked rows, those whose distribution moved there
    by KL(before ‖ now) > `bound`, in nats.
    """
    asked = torch.zeros_like(slots)
    asked[answers.row] = slots[answers.row]
    at = places(asked, count)  # (N,)
    before = step.logits[running_numbers(step.masked).flatten()[at]]  # (N, V)
    now = answers.logits(slots[answers.row], count)  # (N, V)
    parts = []
    for old, new in zip(pieces_of(before), pieces_of(now), strict=True):
        p = torch.log_softmax(old, -1)
        q = torch.log_softmax(new, -1)
        parts.append((p.exp() * (p - q)).masked_fill(p == -torch.inf, 0.0).sum(-1) > bound)
    return torch.zeros_like(slots).masked_scatter(asked, torch.cat(parts))


@register_policy("spec", look=9)
class Spec(Ranged):
    """Drafts the surest tokens, and reveals them while each keeps `beta` of its probability once
    those before it are written.

    One forward of at most `rows` nested what-if rows a step: the canvas with its sure tokens, then
    with one drafted token more each. Sure are those whose error probabilities 1 − p add up to at
    most 1 − `sure` (above 1: none), at least the best one, and a last mask beside them; errors that
    add up to less than 1 leave an answer possible however tokens depend on each other (Fréchet);
    the last mask's error isn't in that sum, so a low `sure` may end an answer wrongly. A draft that
    becomes less probable once others are known conflicts with them; it and what follows it wait. So
    does a draft with less than `near` of the probability of another mask by then: a position that
    has become surer goes first. The what-if row with all revealed tokens serves as the next step's
    forward, so an answer takes one forward more than steps.

    `lossless` is speculative sampling (arXiv 2302.01318): a draft from p is accepted with
    probability min(1, q/p), where q is its distribution once those before it are written, and the
    first that isn't is replaced by a draw from the normalised (q − p)₊. Only tokens of probability
    1 are sure. Positions are ordered by their largest probability, whatever was drawn, so answers
    have the law of one token at a time in that order. At temperature 0 a distribution is its
    likeliest token.
    """

    rows: Annotated[Count, Span(4, 16, "log")] = 8
    beta: NotNegative = 0.9
    sure: NotNegative = 0.99
    near: NotNegative = 0.0
    lossless: bool = False
    needs = frozenset({"probe"})

    @property
    def what_if_rows(self) -> int:
        return self.rows

    @property
    def rewrites(self) -> bool:
        return self.lossless

    def select(self, step: Step) -> Move | Probe:
        free, rank = self._drafted(step)  # (R,), (R, C)
        # (R, B) tokens in each what-if row
        counts = free[:, None] + torch.arange(self.rows, device=free.device)
        asked = counts <= step.masked.sum(-1, keepdim=True)
        row, place = marked_places(step, asked)  # (W,) each
        count = counts[row, place]  # (W,)
        if step.answers is None:
            return Probe(row, step.masked[row] & (rank[row] < count[:, None]), step.token[row])
        end = free + self.rows - (~step.stale).long()  # (R,) rank after the last one to check
        checked = (count < end[row])[:, None]  # (W, 1)
        checks = step.masked[row] & (rank[row] == count[:, None]) & checked  # (W, C)
        passed = torch.zeros_like(asked).masked_scatter(
            asked, self._passes(step, step.answers, checks)
        )
        streak = passed.long().cumprod(-1).sum(-1)  # (R,)
        take = running_numbers(asked).gather(1, streak.clamp(max=self.rows - 1)[:, None]).squeeze(1)
        reveal = step.masked & (rank < (free + streak)[:, None])
        if not self.lossless:
            return Move(reveal, take=take)
        failed = checks[take] & (count[take] == free + streak)[:, None]  # (R, C)
        return Move(
            reveal | failed, token=self._redrawn(step, step.answers, failed, take), take=take
        )

    def _drafted(self, step: Step) -> tuple[Tensor, Tensor]:
        """How many drafts of each row need no check (R,), and the rank of each draft (R, C)."""
        if "spec" not in step.notes:
            if self.lossless:
                best = step.rowwise(lambda log_probs: log_probs.max(-1).values.exp())
                most = 0.0
            else:
                best = step.confidence
                most = 1 - self.sure
            doubts = (1 - best).masked_fill(~step.masked, torch.inf)
            errors = step.ordered(best, doubts).cumsum(-1)  # (R, C)
            sure = (errors <= most).sum(-1)
            left = step.masked.sum(-1)
            free = torch.where(sure == left - 1, left, sure.clamp(min=1))
            step.notes["spec"] = torch.where(step.stale, sure, free), step.rank(best)
        drafted: tuple[Tensor, Tensor] = step.notes["spec"]
        return drafted

    def _passes(self, step: Step, answers: Answers, checks: Tensor) -> Tensor:
        """Whether each what-if row (W,) has a draft to check, and the draft passes."""
        row = answers.row
        token = step.token[answers.row]
        if not self.lossless:
            now = answers.probability(checks, token)  # (W, C)
            least = self.beta * step.confidence[row]
            if self.near:
                _, others = answers.predict(answers.masked & ~checks)  # (W, C)
                surest = others.masked_fill(others >= CERTAIN, 0.0).max(-1, keepdim=True).values
                least = least.maximum(self.near * surest)
            return checks.any(-1) & ((now >= least) | ~checks).all(-1)
        # (R, C) of a slot in step.logits
        place = step.scatter(torch.arange(len(step.logits), device=row.device))
        p = distribution(step.logits[place[row][checks]], step.decoding.law)  # (K, V)
        q = distribution(answers.logits(checks), step.decoding.law)
        passes = torch.zeros_like(row, dtype=torch.bool)
        passes[checks.any(-1)] = _accepted(p, q, token[checks], step.uniform(ACCEPT)[row][checks])
        return passes

    def _redrawn(self, step: Step, answers: Answers, failed: Tensor, take: Tensor) -> Tensor:
        """The drafts (R, C), in the slots `failed` (R, C) replaced by draws from the normalised (q
        − p)₊.
        """
        p = distribution(step.logits[failed[step.masked]], step.decoding.law)  # (K, V)
        slots = torch.zeros_like(answers.masked)
        slots[take] = failed  # what-if rows are in the order of their rows
        q = distribution(answers.logits(slots), step.decoding.law)
        return step.token.masked_scatter(failed, _redrawn(p, q, step.uniform(RESIDUAL)[failed]))


def _accepted(p: Tensor, q: Tensor, token: Tensor, draws: Tensor) -> Tensor:
    """Whether each draft `token` (K,) from p (K, V) is kept, with probability min(1, q/p)."""
    at = token[:, None]
    return bernoulli((q.gather(1, at) / p.gather(1, at)).squeeze(1), draws)


def _redrawn(p: Tensor, q: Tensor, draws: Tensor) -> Tensor:
    """Tokens (K,) from the normalised (q − p)₊ (K, V)."""
    left = (q - p).clamp(min=0)
    return categorical(torch.where(left.any(-1, keepdim=True), left, q).log(), draws)


@register_policy("s2d2", look=45)
class S2d2(Ranged):
    """Drafts a block's masks in one forward, checks the first run of them in a second that reads
    the block token by token, and keeps those that pass (S2D2, arXiv 2603.25702).

    For block models. The second forward predicts each slot of the run from the drafts before it and
    no slot after it. From left to right a draft is kept with probability min(1, q/p), p its
    probability when drafted and q when checked, and the first that isn't is replaced by a draw from
    the normalised (q − p)₊. So at a temperature the run's tokens have the law of the model read
    token by token; at temperature 0 the likeliest tokens are drafted and checked with the
    probabilities of temperature 1, as in the authors' code. A run shorter than `span` isn't
    checked. Where fewer tokens are written than SDAR's schedule over `steps` says (0: one a step),
    all others with confidence > γ are revealed, or, if these are fewer, the surest up to its count.
    The authors' code with its rule `mask_span_length`; left out are its other rules for when to
    check, its cache read token by token (SDAR), LLaDA2's edits and Fast-dLLM v2's parts.
    """

    gamma: TunedChance = 0.85
    steps: Whole = 0
    span: Count = 1
    rewrites = True
    needs = frozenset({"probe", "causal"})
    what_if_rows = 1

    def select(self, step: Step) -> Move | Probe:
        starts = step.masked & ~after_mask(step)  # (R, C): a run begins
        run = step.masked & (starts.long().cumsum(-1) == 1)  # the first
        checked = run.sum(-1) >= self.span  # (R,)
        if step.answers is None and bool(checked.any()):
            row = checked.nonzero().squeeze(-1)
            return Probe(row, run[row], step.token[row], causal=True)
        written = torch.zeros_like(run)
        token = step.token
        if step.answers is not None:
            written, token = self._kept(step, step.answers, run & checked[:, None])
        count = spread(step, self.steps or step.size).clamp(min=1)  # (R,)
        left = count.minimum(step.masked.sum(-1)) - written.sum(-1)
        rest = surer_or_first(step, step.confidence.masked_fill(written, -1.0), self.gamma, left)
        return Move(written | (rest & (left > 0)[:, None]), token=token)

    def _kept(self, step: Step, answers: Answers, run: Tensor) -> tuple[Tensor, Tensor]:
        """The slots (R, C) that are written of each row's `run`, and all drafts (R, C) with the
        redrawn token.
        """
        hot = replace(step.decoding.law, temperature=step.temperature or 1.0)
        p = distribution(step.logits[run[step.masked]], hot)  # (K, V)
        # What-if rows are in the order of their rows.
        q = distribution(answers.logits(run[answers.row]), hot)
        passes = torch.ones_like(run)
        passes[run] = _accepted(p, q, step.token[run], step.uniform(ACCEPT)[run])
        kept = run & passes.long().cumprod(-1).bool()
        # The first that fails.
        failed = run & ~passes & (kept.sum(-1, keepdim=True) == (run.long().cumsum(-1) - 1))
        drawn = _redrawn(p[failed[run]], q[failed[run]], step.uniform(RESIDUAL)[failed])
        return kept | failed, step.token.masked_scatter(failed, drawn)
