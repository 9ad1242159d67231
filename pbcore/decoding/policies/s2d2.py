"""Self-speculation of block models: drafts by denoising, checked token by token."""

from dataclasses import dataclass
from typing import ClassVar

from pbcore.decoding.policies.registry import register_policy
from pbcore.decoding.policies.sdar_dynamic import surer_or_first
from pbcore.decoding.policies.sdar_static import check_steps, spread
from pbcore.decoding.prediction import distribution
from pbcore.decoding.step import Move, Step
from pbcore.decoding.what_if import Answers, Probe
from pbcore.lazy_torch import Tensor, torch
from pbcore.models.counter_rng import bernoulli, categorical

ACCEPT, RESIDUAL = 1, 2  # salts of random numbers


@register_policy("s2d2")
@dataclass(frozen=True)
class S2d2:
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

    gamma: float = 0.85
    steps: int = 0
    span: int = 1
    rewrites: ClassVar[bool] = True
    needs: ClassVar[frozenset[str]] = frozenset({"probe", "causal"})

    def __post_init__(self) -> None:
        check_steps(self.steps or 1)
        if not 0 <= self.gamma <= 1 or self.span < 1:
            raise ValueError(f"s2d2 takes a threshold in [0, 1] and runs of at least 1 slot, not {self}")

    def select(self, step: Step) -> Move | Probe:
        run = _first_run(step)  # (R, C)
        checked = run.sum(-1) >= self.span  # (R,)
        if step.answers is None and bool(checked.any()):
            row = checked.nonzero().squeeze(-1)
            return Probe(row, run[row], step.token[row], causal=True)
        written, token = torch.zeros_like(run), step.token
        if step.answers is not None:
            written, token = self._kept(step, step.answers, run & checked[:, None])
        left = torch.minimum(self._count(step), step.masked.sum(-1)) - written.sum(-1)  # (R,)
        rest = surer_or_first(step, step.confidence.masked_fill(written, -1.0), self.gamma, left)
        return Move(written | (rest & (left > 0)[:, None]), token=token)

    def _count(self, step: Step) -> Tensor:
        """How many tokens (R,) the schedule reveals now, at least one."""
        return spread(step, self.steps or step.size).clamp(min=1)

    def _kept(self, step: Step, answers: Answers, run: Tensor) -> tuple[Tensor, Tensor]:
        """The slots (R, C) that are written of each row's `run`, and all drafts (R, C) with the redrawn token."""
        hot = step.temperature or 1.0
        p = distribution(step.logits[run[step.masked]], hot)  # (K, V)
        q = distribution(answers.logits(run[answers.row]), hot)  # what-if rows are in the order of their rows
        at = step.token[run][:, None]  # (K, 1)
        ratio = (q.gather(1, at) / p.gather(1, at)).squeeze(1)
        passes = torch.ones_like(run)
        passes[run] = bernoulli(ratio, step.uniform(ACCEPT)[run])
        kept = run & passes.long().cumprod(-1).bool()
        failed = run & ~passes & (kept.sum(-1, keepdim=True) == (run.long().cumsum(-1) - 1))  # the first that fails
        excess = (q - p).clamp(min=0)[failed[run]]
        excess = torch.where(excess.any(-1, keepdim=True), excess, q[failed[run]])
        drawn = categorical(excess.log(), step.uniform(RESIDUAL)[failed])
        return kept | failed, step.token.masked_scatter(failed, drawn)


def _first_run(step: Step) -> Tensor:
    """The first masks (R, C) that stand side by side in the canvas."""
    apart = step.masked[:, 1:] & ~(step.masked[:, :-1] & (step.column[:, 1:] == step.column[:, :-1] + 1))
    starts = torch.cat([step.masked[:, :1], apart], dim=-1)  # (R, C): a run begins
    return step.masked & (starts.long().cumsum(-1) == 1)
