"""The ideal model for many answers to one sample at once, from a table of its valid answers.

R rows, L canvas positions, M wanted positions, A answers, W positions that differ between answers,
V tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pbcore.models.base import Prompt, Query, Request
from pbcore.models.ideal import NOISE
from pbcore.models.info import ModelInfo
from pbcore.theory.canvas import EOS, MASKED, AnswerDistribution
from pbcore.theory.distributions import Listed, Shuffled

MOST_ENTRIES = 100_000  # answers × tokens that are multiplied at each forward


class TableDenoiser:
    """A Denoiser with the exact marginals and the noise of `ideal`, for one distribution of listed
    answers. All rows are computed together, and the noise (up to ±`noise` in a logit) is drawn anew
    at each forward, so a row's answer depends on its batch; what is drawn has the same
    distribution.
    """

    name = "ideal"
    reviews = frozenset({"hidden"})
    device = torch.device("cpu")
    info: ClassVar[ModelInfo] = {"source": "pbcore", "family": "ideal"}

    def __init__(
        self, distribution: AnswerDistribution, seed: int = 0, noise: float = NOISE
    ) -> None:
        rows, self._texts = listed_rows(distribution)
        self._noise, self.mask_id, self.vocab_size = noise, len(self._texts), len(self._texts) + 1
        self.eos_id = self._texts.index(EOS)
        self.canvas = tuple(
            self.mask_id if token == MASKED else token for token in distribution.canvas.tolist()
        )
        self.answers = frozenset(map(tuple, rows.tolist()))
        self._generator = torch.Generator().manual_seed(seed)
        varying = (rows != rows[0]).any(0).nonzero()[0]  # (W,)
        self._varying = torch.from_numpy(varying)
        self._among = torch.full((len(self.canvas),), -1)  # (L,) index among these
        self._among[self._varying] = torch.arange(len(varying))
        self._fixed = torch.from_numpy(rows[0])  # (L,)
        tokens = torch.from_numpy(rows[:, varying])  # (A, W)
        self._columns = torch.nn.functional.one_hot(tokens, self.vocab_size)  # (A, W, V)
        self._flat = self._columns.flatten(1).float()  # (A, W·V): sums of so few ones are exact

    def encode(self, prompt: Prompt, max_new_tokens: int | None, key: int) -> Request:
        raise NotImplementedError("requests for a table have its canvas")

    def text(self, token_ids: Sequence[int]) -> str:
        return "".join(self._texts[i] for i in token_ids if i not in (self.mask_id, self.eos_id))

    def prepare(
        self, requests: Sequence[Request], *, cache: str | None, seed: int
    ) -> TableDenoiser:
        return self

    def keep(self, rows: Tensor) -> None:
        """Nothing is kept of a row."""

    def marginals(self, canvas: Tensor) -> Tensor:
        """p(token | revealed tokens) (R, L, V) for canvases (R, L)."""
        result = (
            torch.nn.functional.one_hot(self._fixed, self.vocab_size)
            .double()
            .repeat(len(canvas), 1, 1)
        )
        result[:, self._varying] = self._chances(canvas)
        return result

    def _chances(self, canvas: Tensor) -> Tensor:
        """The marginals (R, W, V) of the positions that differ between answers."""
        seen = canvas[:, self._varying]  # (R, W)
        hidden = seen == self.mask_id
        shown = torch.nn.functional.one_hot(seen, self.vocab_size).float()
        shown[hidden] = 0.0
        agreeing = shown.flatten(1) @ self._flat.T  # (R, A): revealed tokens that the answer has
        alive = (agreeing > (~hidden).sum(-1, keepdim=True) - 0.5).float()
        dead = (alive.sum(-1) == 0).nonzero()[:, 0]
        if len(dead):
            alive[dead] = self._skipping(seen[dead])
        counts = (alive @ self._flat).view(len(canvas), len(self._varying), self.vocab_size)
        return counts.double() / alive.sum(-1).double()[:, None, None]

    def _skipping(self, seen: Tensor) -> Tensor:
        """The answers (R, A) that agree with tokens (R, W), those left out that are impossible
        given ones before.
        """
        kept = torch.ones(len(seen), len(self._columns))
        for column, tokens in zip(self._columns.unbind(1), seen.unbind(1), strict=True):
            narrower = kept * column.T[tokens]
            possible = (tokens != self.mask_id) & (narrower.sum(-1) > 0)
            kept = torch.where(possible[:, None], narrower, kept)
        return kept

    def logits(self, query: Query) -> Tensor:
        row, place = query.want.nonzero(as_tuple=True)  # (M,) each
        return self._logits(query.canvas, row, place)

    def logits_and_review(self, query: Query) -> tuple[Tensor, Tensor]:
        assert query.review is not None
        row, place = query.review.nonzero(as_tuple=True)  # (N,) each
        masked, every = query.canvas[row], torch.arange(len(row))  # (N, L)
        masked[every, place] = self.mask_id
        return self.logits(query), self._logits(masked, every, place)

    def _logits(self, canvas: Tensor, row: Tensor, place: Tensor) -> Tensor:
        """Logits (M, V) at places (M,) of rows (M,). A position's only token has logit 0, which
        noise can't change.
        """
        among = self._among[place]
        open_ = among >= 0
        result = torch.full((len(place), self.vocab_size), -torch.inf, dtype=torch.double)
        result.scatter_(1, self._fixed[place][:, None], 0.0)
        chances = self._chances(canvas)[row[open_], among[open_]]  # (M', V)
        noise = torch.rand(chances.shape, generator=self._generator, dtype=torch.double)
        result[open_] = chances.log() + self._noise * (2 * noise - 1)
        return result


def listed_rows(distribution: AnswerDistribution) -> tuple[NDArray[np.int64], list[str]]:
    """The answers (A, L) of a distribution that `fits`, as indices into the texts; those that agree
    with its given tokens.
    """
    if isinstance(distribution, Shuffled):
        places = tuple(range(len(distribution.slots)))
        orders = [
            order for order in permutations(places) if distribution.identity or order != places
        ]
        fixed = distribution.marginals(distribution.canvas).argmax(-1)  # (L,)
        rows = np.repeat(fixed[None], len(orders), axis=0)
        rows[:, distribution.slots] = distribution.people[np.array(orders)]  # (A, n, w)
    else:
        assert isinstance(distribution, Listed)
        rows = distribution.rows
    given = distribution.canvas != MASKED
    rows = rows[(rows[:, given] == distribution.canvas[given]).all(-1)]
    return rows, list(distribution.vocabulary)


def fits(distribution: AnswerDistribution) -> bool:
    """Whether the answers of a distribution are few enough for a table."""
    if isinstance(distribution, Shuffled):
        return len(distribution.slots) <= 6
    return (
        isinstance(distribution, Listed)
        and len(distribution.rows) * len(distribution.vocabulary) <= MOST_ENTRIES
    )
