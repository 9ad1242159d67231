"""Drafts that are checked with those before them written, and kept while they pass."""

from pbcore.decoding.policies.block_models import spread, surer_or_first
from pbcore.decoding.policies.places import joined
from pbcore.decoding.policies.probing import numbered
from pbcore.decoding.policies.registry import Chance, Count, NotNegative, Ranged, Whole, register_policy
from pbcore.decoding.prediction import distribution
from pbcore.decoding.step import Move, Step
from pbcore.decoding.what_if import Answers, Probe
from pbcore.lazy_torch import Tensor, torch
from pbcore.models.counter_rng import bernoulli, categorical

ACCEPT, RESIDUAL = 1, 2  # salts of random numbers
CERTAIN = 0.99  # a mask of this confidence lets others go first: it follows in the next step anyway


@register_policy("spec")
class Spec(Ranged):
    """Drafts the surest tokens, and reveals them while each keeps `beta` of its probability once those before it are
    written.

    One forward of at most `rows` nested what-if rows a step: the canvas with its sure tokens, then with one drafted
    token more each. Sure are those whose error probabilities 1 − p add up to at most 1 − `sure` (above 1: none), at
    least the best one, and a last mask beside them; errors that add up to less than 1 leave an answer possible however
    tokens depend on each other (Fréchet). A draft that becomes less probable once others are known conflicts with them;
    it and what follows it wait. So does a draft with less than `near` of the probability of another mask by then: a
    position that has become surer goes first. The what-if row with all revealed tokens serves as the next step's
    forward, so an answer takes one forward more than steps.

    `lossless` is speculative sampling (arXiv 2302.01318): a draft from p is accepted with probability min(1, q/p),
    where q is its distribution once those before it are written, and the first that isn't is replaced by a draw from
    the normalised (q − p)₊. Only tokens of probability 1 are sure. Positions are ordered by their largest
    probability, whatever was drawn, so answers have the law of one token at a time in that order. At temperature 0 a
    distribution is its likeliest token.
    """

    rows: Count = 8
    beta: NotNegative = 0.9
    sure: NotNegative = 0.99
    near: NotNegative = 0.0
    lossless: bool = False
    needs = frozenset({"probe"})

    @property
    def rewrites(self) -> bool:
        return self.lossless

    def select(self, step: Step) -> Move | Probe:
        free, rank = self._drafted(step)  # (R,), (R, C)
        counts = free[:, None] + torch.arange(self.rows, device=free.device)  # (R, B) tokens in each what-if row
        asked = counts <= step.masked.sum(-1, keepdim=True)
        row, count = asked.nonzero()[:, 0], counts[asked]  # (W,) each
        if step.answers is None:
            return Probe(row, step.masked[row] & (rank[row] < count[:, None]), step.token[row])
        end = free + self.rows - (~step.stale).long()  # (R,) rank after the last one to check
        checks = step.masked[row] & (rank[row] == count[:, None]) & (count < end[row])[:, None]  # (W, C)
        passed = torch.zeros_like(asked).masked_scatter(asked, self._passes(step, step.answers, checks))
        streak = passed.long().cumprod(-1).sum(-1)  # (R,)
        take = numbered(asked).gather(1, streak.clamp(max=self.rows - 1)[:, None]).squeeze(1)
        reveal = step.masked & (rank < (free + streak)[:, None])
        if not self.lossless:
            return Move(reveal, take=take)
        failed = checks[take] & (count[take] == free + streak)[:, None]  # (R, C)
        return Move(reveal | failed, token=self._redrawn(step, step.answers, failed, take), take=take)

    def _drafted(self, step: Step) -> tuple[Tensor, Tensor]:
        """How many drafts of each row need no check (R,), and the rank of each draft (R, C)."""
        if "spec" not in step.notes:
            best = step.rowwise(lambda log_probs: log_probs.max(-1).values.exp()) if self.lossless else step.confidence
            errors = step.ordered(best, (1 - best).masked_fill(~step.masked, torch.inf)).cumsum(-1)  # (R, C)
            sure, left = (errors <= (0 if self.lossless else 1 - self.sure)).sum(-1), step.masked.sum(-1)
            free = torch.where(sure == left - 1, left, sure.clamp(min=1))
            step.notes["spec"] = torch.where(step.stale, sure, free), step.rank(best)
        drafted: tuple[Tensor, Tensor] = step.notes["spec"]
        return drafted

    def _passes(self, step: Step, answers: Answers, checks: Tensor) -> Tensor:
        """Whether each what-if row (W,) has a draft to check, and the draft passes."""
        row, token = answers.row, step.token[answers.row]
        if not self.lossless:
            now = answers.probability(checks, token)  # (W, C)
            least = self.beta * step.confidence[row]
            if self.near:
                _, others = answers.predict(answers.masked & ~checks)  # (W, C)
                surest = others.masked_fill(others >= CERTAIN, 0.0).max(-1, keepdim=True).values
                least = least.maximum(self.near * surest)
            return checks.any(-1) & ((now >= least) | ~checks).all(-1)
        place = step.scatter(torch.arange(len(step.logits), device=row.device))  # (R, C) of a slot in step.logits
        p = distribution(step.logits[place[row][checks]], step.temperature)  # (K, V)
        q = distribution(answers.logits(checks), step.temperature)
        passes = torch.zeros_like(row, dtype=torch.bool)
        passes[checks.any(-1)] = _accepted(p, q, token[checks], step.uniform(ACCEPT)[row][checks])
        return passes

    def _redrawn(self, step: Step, answers: Answers, failed: Tensor, take: Tensor) -> Tensor:
        """The drafts (R, C), in the slots `failed` (R, C) replaced by draws from the normalised (q − p)₊."""
        p = distribution(step.logits[failed[step.masked]], step.temperature)  # (K, V)
        slots = torch.zeros_like(answers.masked)
        slots[take] = failed  # what-if rows are in the order of their rows
        q = distribution(answers.logits(slots), step.temperature)
        return step.token.masked_scatter(failed, _redrawn(p, q, step.uniform(RESIDUAL)[failed]))


def _accepted(p: Tensor, q: Tensor, token: Tensor, draws: Tensor) -> Tensor:
    """Whether each draft `token` (K,) from p (K, V) is kept, with probability min(1, q/p)."""
    at = token[:, None]
    return bernoulli((q.gather(1, at) / p.gather(1, at)).squeeze(1), draws)


def _redrawn(p: Tensor, q: Tensor, draws: Tensor) -> Tensor:
    """Tokens (K,) from the normalised (q − p)₊ (K, V)."""
    left = (q - p).clamp(min=0)
    return categorical(torch.where(left.any(-1, keepdim=True), left, q).log(), draws)


@register_policy("s2d2")
class S2d2(Ranged):
    """Drafts a block's masks in one forward, checks the first run of them in a second that reads the block token by
    token, and keeps those that pass (S2D2, arXiv 2603.25702).

    For block models. The second forward predicts each slot of the run from the drafts before it and no slot after it.
    From left to right a draft is kept with probability min(1, q/p), p its probability when drafted and q when checked,
    and the first that isn't is replaced by a draw from the normalised (q − p)₊. So at a temperature the run's tokens
    have the law of the model read token by token; at temperature 0 the likeliest tokens are drafted and checked with
    the probabilities of temperature 1, as in the authors' code. A run shorter than `span` isn't checked. Where fewer
    tokens are written than SDAR's schedule over `steps` says (0: one a step), all others with confidence > γ are
    revealed, or, if these are fewer, the surest up to its count. The authors' code with its rule `mask_span_length`;
    left out are its other rules for when to check, its cache read token by token (SDAR), LLaDA2's edits and Fast-dLLM
    v2's parts.
    """

    gamma: Chance = 0.85
    steps: Whole = 0
    span: Count = 1
    rewrites = True
    needs = frozenset({"probe", "causal"})

    def select(self, step: Step) -> Move | Probe:
        starts = step.masked & ~joined(step)  # (R, C): a run begins
        run = step.masked & (starts.long().cumsum(-1) == 1)  # the first
        checked = run.sum(-1) >= self.span  # (R,)
        if step.answers is None and bool(checked.any()):
            row = checked.nonzero().squeeze(-1)
            return Probe(row, run[row], step.token[row], causal=True)
        written, token = torch.zeros_like(run), step.token
        if step.answers is not None:
            written, token = self._kept(step, step.answers, run & checked[:, None])
        count = spread(step, self.steps or step.size).clamp(min=1)  # (R,)
        left = count.minimum(step.masked.sum(-1)) - written.sum(-1)
        rest = surer_or_first(step, step.confidence.masked_fill(written, -1.0), self.gamma, left)
        return Move(written | (rest & (left > 0)[:, None]), token=token)

    def _kept(self, step: Step, answers: Answers, run: Tensor) -> tuple[Tensor, Tensor]:
        """The slots (R, C) that are written of each row's `run`, and all drafts (R, C) with the redrawn token."""
        hot = step.temperature or 1.0
        p = distribution(step.logits[run[step.masked]], hot)  # (K, V)
        q = distribution(answers.logits(run[answers.row]), hot)  # what-if rows are in the order of their rows
        passes = torch.ones_like(run)
        passes[run] = _accepted(p, q, step.token[run], step.uniform(ACCEPT)[run])
        kept = run & passes.long().cumprod(-1).bool()
        failed = run & ~passes & (kept.sum(-1, keepdim=True) == (run.long().cumsum(-1) - 1))  # the first that fails
        drawn = _redrawn(p[failed[run]], q[failed[run]], step.uniform(RESIDUAL)[failed])
        return kept | failed, step.token.masked_scatter(failed, drawn)
