"""How far each decision of a decoding is from another one.

R rows, C slots of the active block, M candidates, V tokens.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from pbcore.decoding import Sampler
from pbcore.decoding.protocol import Traits
from pbcore.decoding.step import Step

FAR = math.inf  # the margin of a decision without an alternative


@dataclass(slots=True)
class Decisions:
    """The margins of a row's decisions, one of each kind a step.

    `token`: the smallest gap, in logits, between a revealed token and its runner-up. `place`: how
    far the last place taken is from the first one left out, in log-odds of their confidences; with
    a threshold how far the nearest confidence is from it. `chance`: the same in probabilities.
    Where entropy ranks places, these are of its logarithm, and of itself in nats. `masked`: whether
    the mask token, were it allowed, would change the step. `outside`: whether confidences over all
    tokens, the mask among them, choose the same places. `stored` is the smallest gap of tokens that
    storing forwards predict.
    """

    token: list[float] = field(default_factory=list)
    place: list[float] = field(default_factory=list)
    chance: list[float] = field(default_factory=list)
    masked: list[bool] = field(default_factory=list)
    outside: list[bool] = field(default_factory=list)
    stored: float = FAR

    @property
    def smallest(self) -> float:
        """The smallest margin in logits or log-odds."""
        return min([*self.token, *self.place, self.stored])

    def until(self, step: int) -> Decisions:
        """Those of the first steps: later ones don't touch an answer that has ended."""
        kinds = ("token", "place", "chance", "masked", "outside")
        cut: dict[str, Any] = {kind: getattr(self, kind)[:step] for kind in kinds}
        return Decisions(**cut, stored=self.stored)

    def safety(self, other: Decisions) -> float:
        """The smallest ratio of a margin to how far it is from that of the same decision in another
        run.
        """
        pairs = [
            *zip(self.token, other.token, strict=False),
            *zip(self.place, other.place, strict=False),
            (self.stored, other.stored),
        ]
        ratios = [one / abs(one - two) for one, two in pairs if one != two]
        return min(ratios, default=FAR)


class Watched:
    """A policy that keeps the margins of another one's decisions, by the rows' keys."""

    def __init__(self, sampler: Sampler) -> None:
        self._policy = sampler.policy
        self._name = sampler.name
        declared = sampler.declared
        self.declared: Traits = replace(
            declared, reads="distributions", needs=declared.needs | {"mask"}
        )
        self.rows: dict[int, Decisions] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._policy, name)

    def select(self, step: Step) -> Any:
        """What the other policy selects."""
        chosen: Any = self._policy.select(step)
        assert step.mask is not None
        logits = step.logits.double()  # (M, V)
        top = logits.topk(2, dim=-1)
        best = top.values[:, 0]
        rest = logits.scatter(-1, top.indices[:, :1], -torch.inf).logsumexp(-1)
        gap = step.scatter(best - top.values[:, 1], FAR)  # (R, C)
        odds = step.scatter(best - rest)  # (R, C), log-odds of the confidence
        picked = chosen & step.masked
        left = step.masked & ~picked
        chance = torch.sigmoid(odds)
        mask = step.mask.double()
        over_all = chance * (1 - mask)  # over all tokens, the mask among them
        first = step.masked & (mask > over_all)
        allowed = torch.maximum(mask, over_all)
        if self._name.policy == "entropy":
            chance = -step.entropy().double()
            odds = -(-chance).log()
            over_all = allowed = chance * (1 - mask) - _entropy_of(mask)
        threshold = self._threshold
        bound = None if threshold is None else math.log(threshold / (1 - threshold))
        tokens = gap.masked_fill(~picked, FAR).amin(-1)  # (R,)
        places = _margin(odds, picked, left, bound)
        chances = _margin(chance, picked, left, threshold)
        outside = _margin(over_all, picked, left, threshold) > 0
        free = _margin(allowed, picked, left, threshold) > 0
        masked = (first & picked).any(-1) | ~free
        columns = (step.key, tokens, places, chances, outside, masked)
        for key, token, place, of_chance, same, counts in zip(
            *(column.tolist() for column in columns), strict=True
        ):
            kept = self.rows.setdefault(int(key), Decisions())
            kept.token.append(token)
            kept.place.append(place)
            kept.chance.append(of_chance)
            kept.outside.append(same)
            kept.masked.append(counts)
        return chosen

    @property
    def _threshold(self) -> float | None:
        numbers = dict(self._name.arguments)
        return float(numbers[""]) if self._name.policy == "threshold" else None


def _entropy_of(chance: Tensor) -> Tensor:
    """The entropy, in nats, of whether something of these probabilities happens."""
    entropy: Tensor = torch.special.entr(chance) + torch.special.entr(1 - chance)
    return entropy


def _margin(score: Tensor, taken: Tensor, left: Tensor, bound: float | None) -> Tensor:
    """How far the choice of the slots `taken` from those and the ones `left` (R, C) is from another
    one (R,); negative for scores (R, C) that would choose otherwise.
    """
    lowest = score.masked_fill(~taken, torch.inf).amin(-1)
    highest = score.masked_fill(~left, -torch.inf).amax(-1)
    apart = lowest - highest
    if bound is None:
        return apart
    alone = (taken.sum(-1) == 1) & (lowest < bound)  # none is sure: the best one
    return torch.where(
        alone, torch.minimum(apart, bound - lowest), torch.minimum(lowest - bound, bound - highest)
    )
