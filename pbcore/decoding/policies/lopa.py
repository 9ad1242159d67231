"""Branches that look one step ahead."""

from dataclasses import dataclass
from typing import ClassVar

from pbcore.decoding.policies.registry import register_policy
from pbcore.decoding.step import Move, Step
from pbcore.decoding.what_if import Probe
from pbcore.lazy_torch import torch


@register_policy("lopa")
@dataclass(frozen=True, slots=True)
class Lopa:
    """Tries all above γ (at least the best) alone and with one further token each, and goes on with the branch whose
    masks are surest in the mean (LoPA, arXiv 2512.16229).

    The further tokens are the next surest, one for each of the other `branches`. All branches are one forward of
    what-if rows, and the chosen one's answer is the next step's forward. A branch that another token would complete
    isn't tried, since nothing would judge it. Ties go to the fewest and surest tokens.
    """

    branches: int = 3
    gamma: float = 0.9
    needs: ClassVar[frozenset[str]] = frozenset({"probe"})

    def __post_init__(self) -> None:
        if self.branches < 1 or not 0 <= self.gamma <= 1:
            raise ValueError(f"lopa takes at least 1 branch and a threshold in [0, 1], not {self}")

    def select(self, step: Step) -> Move | Probe:
        base = step.at_least_best(step.confidence > self.gamma, step.confidence)  # (R, C)
        rest = step.masked & ~base
        rank = step.rank(step.confidence, rest)
        extra = torch.arange(-1, self.branches - 1, device=rank.device)  # (B,): −1 is the base alone
        tried = (extra < 0) | (extra < rest.sum(-1, keepdim=True)) & (rest.sum(-1, keepdim=True) > 1)  # (R, B)
        row, branch = tried.nonzero(as_tuple=True)  # (W,) each
        write = base[row] | (rest[row] & (rank[row] == extra[branch][:, None]))  # (W, C)
        if step.answers is None:
            return Probe(row, write, step.token[row])
        masked = step.answers.masked
        _, confidence = step.answers.predict(masked)  # (W, C)
        mean = (confidence * masked).sum(-1) / masked.sum(-1).clamp(min=1)  # (W,)
        scores = torch.full(tried.shape, -1.0, dtype=mean.dtype, device=mean.device).masked_scatter(tried, mean)
        best = scores.argmax(-1, keepdim=True)  # the first of equals
        places = torch.full_like(best.expand_as(tried), -1).masked_scatter(tried, torch.arange(len(row)))
        take = places.gather(1, best).squeeze(1)  # (R,)
        return Move(write[take], take=take)
