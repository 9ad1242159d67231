"""What a policy sees at one step, and what it may answer. R rows, C slots of the active block, M candidates, V tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from pbcore.decoding.draws import uniform
from pbcore.decoding.prediction import pieces_of, predict


@dataclass(frozen=True, slots=True)
class Move:
    """A policy's answer where revealing the predicted tokens is not all: (R, C) each, but for `hold` (R,).

    `remask` puts slots back to the mask; a slot in both `reveal` and `remask` is masked. `token` is what is revealed instead of the
    prediction, and `confidence` what is noted of it. `revise` writes `token` over tokens revealed before. `hold` keeps a row in its block
    for another step though no mask is left there.
    """

    reveal: Tensor
    remask: Tensor | None = None
    token: Tensor | None = None
    confidence: Tensor | None = None
    revise: Tensor | None = None
    hold: Tensor | None = None


@dataclass(frozen=True, slots=True)
class Review:
    """What the model says of the tokens revealed before in the active block: (R, C) each, 0 elsewhere.

    `token` is its prediction there, `confidence` that prediction's probability, `support` the probability of the token that is there.
    """

    token: Tensor
    confidence: Tensor
    support: Tensor


@dataclass(slots=True)
class Step:
    """One forward's outcome for the rows still decoding.

    The slots of a row are the positions asked for in its active block, in canvas order; rows with fewer are padded on the right,
    where `inside` is false; a policy with `reach = "prefix"` also gets those of the blocks before. `slots` counts the active block's own.
    `masked` are the candidates. `token` and `confidence` are the model's prediction there, the latter its
    probability under the un-noised softmax, 0 elsewhere. `quota`, where a schedule sets it, is how many to reveal. `review` is there for
    policies that ask for one (`review = "seen"` or `"hidden"`), `frequencies` where the model has them.
    """

    masked: Tensor  # (R, C) bool
    inside: Tensor  # (R, C) bool: slots that the row has
    token: Tensor  # (R, C) long; the present token where not masked
    confidence: Tensor  # (R, C) float
    position: Tensor  # (R, C) long: place among all the row's asked positions
    index: Tensor  # (R,) long: steps this row has had in this block
    nfe: Tensor  # (R,) long: forwards before this one
    logits: Tensor  # (M, V) float, one row per candidate in row-major order
    quota: Tensor | None  # (R,) long
    slots: Tensor  # (R,) long
    asked: int  # A, the batch's widest canvas in asked positions
    seed: int
    key: Tensor  # (R,) long
    column: Tensor  # (R, C) long: place in the canvas
    kept: dict[str, Tensor] = field(default_factory=dict)
    temperature: float = 0.0
    review: Review | None = None
    frequencies: Tensor | None = None  # (V,) background probabilities of the tokens

    def scatter(self, values: Tensor, fill: float = 0.0) -> Tensor:
        """Values (M,) of the candidates in their slots (R, C), `fill` elsewhere."""
        out = values.new_full(self.masked.shape, fill)
        out[self.masked] = values
        return out

    def rowwise(self, function: Callable[[Tensor], Tensor]) -> Tensor:
        """`function` of log-probabilities (m, V) → (m,), over all candidates in pieces that bound memory; returns slots (R, C)."""
        pieces = [function(torch.log_softmax(piece, dim=-1)) for piece in pieces_of(self.logits)]
        return self.scatter(torch.cat(pieces) if pieces else self.confidence.new_zeros(0))

    def log_probs(self) -> Tensor:
        """Log-probabilities of the candidates (M, V)."""
        return torch.log_softmax(self.logits, dim=-1)

    def predict(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Token and confidence (R, C) that logits (M, V) in place of the model's would give, with the same draws."""
        draws = self.uniform(-1)[self.masked] if self.temperature else None
        token, confidence = predict(logits, self.temperature, draws)
        return self.token.masked_scatter(self.masked, token), self.scatter(confidence)

    def uniform(self, salt: int = 0) -> Tensor:
        """A fresh U(0, 1) for every slot (R, C); the same for a row whatever its batch."""
        return uniform(self.seed, self.key, self.nfe, self.position, salt + 1)

    def best(self, score: Tensor, k: int | Tensor | None) -> Tensor:
        """The k candidates of highest `score` (R, C) in each row, ties to the lowest position; the schedule's count where there is one."""
        count = self.quota if self.quota is not None else k
        if count is None:
            raise ValueError("this policy needs k (e.g. -k2) or a schedule (+s2_1_1, +linear8, +cosine8)")
        limit = count[:, None] if isinstance(count, Tensor) else count
        return self.masked & (self.rank(score) < limit)

    def rank(self, score: Tensor, among: Tensor | None = None) -> Tensor:
        """Each slot's place (R, C) when the row's slots of `among` (R, C), the candidates unless given, are sorted by `score`.

        Best = 0, ties to the lowest position; the other slots come last.
        """
        order = self._order(score, self.masked if among is None else among)
        places = torch.arange(order.shape[-1], device=order.device).expand_as(order)
        return torch.empty_like(order).scatter_(-1, order, places)

    def _order(self, score: Tensor, among: Tensor) -> Tensor:
        """Slots (R, C) by falling `score`, those not in `among` last."""
        return score.masked_fill(~among, -torch.inf).argsort(dim=-1, descending=True, stable=True)

    def at_least_best(self, reveal: Tensor, score: Tensor) -> Tensor:
        """`reveal`, and the best candidate of every row in which it takes none."""
        reveal = reveal & self.masked
        return torch.where(reveal.any(-1, keepdim=True), reveal, self.best_one(score))

    def ordered(self, score: Tensor, values: Tensor) -> Tensor:
        """`values` (R, C) of the candidates sorted by `score`, best first; what follows the last candidate is no candidate's."""
        return values.gather(-1, self._order(score, self.masked))

    def first(self, score: Tensor, count: Tensor) -> Tensor:
        """The first `count` (R,) candidates by `score` (R, C), at least one in each row that has any."""
        return self.masked & (self.rank(score) < count.clamp(min=1)[:, None])

    def best_one(self, score: Tensor) -> Tensor:
        """The best candidate of each row by `score` (R, C)."""
        return self.masked & (self.rank(score) < 1)

    def memory(self, name: str, fill: float, *, per_slot: bool = True) -> Tensor:
        """A tensor that stays with the row over its steps: one number per asked position (R, A), or per row (R,).

        Change it in place, or assign with `remember`. It starts as `fill`.
        """
        if name not in self.kept:
            shape = (self.masked.shape[0], self.asked) if per_slot else (self.masked.shape[0],)
            self.kept[name] = torch.full(shape, fill, dtype=self.confidence.dtype, device=self.confidence.device)
        return self.kept[name]

    def store(self, memory: Tensor, values: Tensor, where: Tensor) -> None:
        """Writes `values` (R, C) of the slots in `where` to a per-slot memory (R, A)."""
        row, slot = where.nonzero(as_tuple=True)
        memory[row, self.position[row, slot]] = values[row, slot].to(memory.dtype)

    def remember(self, name: str, value: Tensor) -> None:
        """Keeps `value` (R, …) with the rows for their next step."""
        self.kept[name] = value
