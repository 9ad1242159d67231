"""Nested what-if rows: each drafted token is checked with those before it written."""

from dataclasses import dataclass, field
from typing import ClassVar

from pbcore.decoding.policies.registry import register_policy
from pbcore.decoding.prediction import distribution
from pbcore.decoding.step import Move, Step
from pbcore.decoding.what_if import Answers, Probe
from pbcore.lazy_torch import Tensor, torch
from pbcore.models.counter_rng import bernoulli, categorical

ACCEPT, RESIDUAL = 1, 2  # salts of random numbers
CERTAIN = 0.99  # a mask of this confidence lets others go first: it follows in the next step anyway


@register_policy("spec")
@dataclass(frozen=True)
class Spec:
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

    rows: int = 8
    beta: float = 0.9
    sure: float = 0.99
    near: float = 0.0
    lossless: bool = False
    rewrites: bool = field(default=False, init=False, repr=False)
    needs: ClassVar[frozenset[str]] = frozenset({"probe"})

    def __post_init__(self) -> None:
        if self.rows < 1 or min(self.beta, self.sure, self.near) < 0:
            raise ValueError(f"spec takes at least 1 what-if row, and numbers of at least 0, not {self}")
        object.__setattr__(self, "rewrites", self.lossless)

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
        places = torch.full_like(counts, -1).masked_scatter(asked, torch.arange(len(row), device=row.device))
        take = places.gather(1, streak.clamp(max=self.rows - 1)[:, None]).squeeze(1)
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
                least = least.maximum(self.near * _surest_other(step, answers, checks))
            return checks.any(-1) & ((now >= least) | ~checks).all(-1)
        place = step.scatter(torch.arange(len(step.logits), device=row.device))  # (R, C) of a slot in step.logits
        p = distribution(step.logits[place[row][checks]], step.temperature)  # (K, V)
        q = distribution(answers.logits(checks), step.temperature)
        at = token[checks][:, None]  # (K, 1)
        ratio = (q.gather(1, at) / p.gather(1, at)).squeeze(1)
        passes = torch.zeros_like(row, dtype=torch.bool)
        passes[checks.any(-1)] = bernoulli(ratio, step.uniform(ACCEPT)[row][checks])
        return passes

    def _redrawn(self, step: Step, answers: Answers, failed: Tensor, take: Tensor) -> Tensor:
        """The drafts (R, C), in the slots `failed` (R, C) replaced by draws from the normalised (q − p)₊."""
        p = distribution(step.logits[failed[step.masked]], step.temperature)  # (K, V)
        slots = torch.zeros_like(answers.masked)
        slots[take] = failed  # what-if rows are in the order of their rows
        q = distribution(answers.logits(slots), step.temperature)
        left = (q - p).clamp(min=0)
        left = torch.where(left.any(-1, keepdim=True), left, q)
        return step.token.masked_scatter(failed, categorical(left.log(), step.uniform(RESIDUAL)[failed]))


def _surest_other(step: Step, answers: Answers, checks: Tensor) -> Tensor:
    """The largest probability (W, 1) among the masks of each what-if row that aren't sure and have no check."""
    _, confidence = answers.predict(answers.masked & ~checks)
    return confidence.masked_fill(confidence >= CERTAIN, 0.0).max(-1, keepdim=True).values
