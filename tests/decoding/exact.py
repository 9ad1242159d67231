"""The exact law of a sampler's answers: every run of it, each with its probability.

All random choices of the loop and of `spec` go through two functions. Each is made to branch: a run
replays a tape of choices and takes the first possible one after its end; the tape's last choice
that has another one after it is turned next.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor

from pbcore.ceilings.table import TableDenoiser
from pbcore.decoding import denoise
from pbcore.decoding.policies import drafts
from pbcore.decoding.samplers import of_name
from pbcore.models.base import Query, Request
from pbcore.names import parse
from pbcore.theory.canvas import AnswerDistribution

PATCHED = ("pbcore.decoding.prediction.categorical", "pbcore.decoding.policies.drafts.categorical")


class ExactTable(TableDenoiser):
    """A table of answers whose logits have no noise: exact marginals."""

    def logits(self, query: Query) -> Tensor:
        marginals: Tensor = self.marginals(query.canvas).log()[query.want]
        return marginals


@dataclass
class Tape:
    """One run's choices: the place taken among the possible ones, of how many, and with what
    probability.
    """

    choices: list[tuple[int, int, float]] = field(default_factory=list)
    at: int = 0

    def choose(self, chances: list[float]) -> int:
        """One of several outcomes."""
        possible = [i for i, chance in enumerate(chances) if chance > 0]
        if self.at == len(self.choices):
            self.choices.append((0, len(possible), chances[possible[0]]))
        place = self.choices[self.at][0]
        self.choices[self.at] = (place, len(possible), chances[possible[place]])
        self.at += 1
        return possible[place]

    def categorical(self, logits: Tensor, uniforms: Tensor) -> Tensor:
        return torch.tensor(
            [self.choose(row) for row in logits.double().softmax(-1).tolist()], dtype=torch.long
        )

    def bernoulli(self, chances: Tensor, uniforms: Tensor) -> Tensor:
        accepted = [
            self.choose([min(1.0, one), 1 - min(1.0, one)]) == 0 for one in chances.tolist()
        ]
        return torch.tensor(accepted, dtype=torch.bool)


def runs() -> Iterator[Tape]:
    """Tapes until every choice has been taken; each is to be used before the next."""
    tape = Tape()
    while True:
        yield tape
        left = tape.choices[: tape.at]
        while left and left[-1][0] + 1 == left[-1][1]:
            left.pop()
        if not left:
            return
        place, count, _ = left.pop()
        tape = Tape([*left, (place + 1, count, 0.0)])


def law(
    distribution: AnswerDistribution, sampler: str, monkeypatch: pytest.MonkeyPatch
) -> dict[tuple[int, ...], float]:
    """Answer → probability."""
    table = ExactTable(distribution)
    name = parse(sampler)
    result = defaultdict[tuple[int, ...], float](float)
    for tape in runs():
        for place in PATCHED:
            monkeypatch.setattr(place, tape.categorical)
        monkeypatch.setattr(drafts, "bernoulli", tape.bernoulli)
        [answer] = denoise(table, [Request((), table.canvas, 0)], of_name(name).policy, name)
        result[answer.token_ids] += math.prod(chance for _, _, chance in tape.choices[: tape.at])
    return dict(result)
