"""What-if rows: canvases that a policy asks about before it moves, forwarded as one batch.

R rows, W what-if rows, L canvas positions, C slots of the active block, N masked positions of all what-if rows, V
tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from pbcore.decoding.prediction import predict, probability
from pbcore.lazy_torch import Tensor, torch


@dataclass(frozen=True, slots=True)
class Probe:
    """What a policy with `needs = {"probe"}` returns to see some canvases before it moves.

    Each of the W what-if rows is a copy of one `row` of the step in which `token` stands at the slots in `write`;
    `step.mask_id` as a token masks a slot. A row of the step may have any number of them. The loop forwards all of them
    in one batch and calls `select` again with `step.answers`. A what-if row without masks isn't forwarded.

    With `causal` (block models, `needs = {"probe", "causal"}`) the model reads the active block token by token, and
    what it answers is its prediction of each slot in `write`, given the slots before it and none after it; no such row
    can be taken.
    """

    row: Tensor  # (W,) long
    write: Tensor  # (W, C) bool
    token: Tensor  # (W, C) long
    causal: bool = False


@dataclass(frozen=True, slots=True)
class Answers:
    """What the model says of the what-if rows of a Probe, in its order.

    `row` (W,) is the row of the step that each copies, and `masked` (W, C) the slots that are masked in it. The methods
    take `slots` (W, C) bool, some of `masked`, and read only their distributions.
    """

    row: Tensor  # (W,) long
    masked: Tensor  # (W, C) bool
    canvas: Tensor  # (W, L) long
    _where: Tensor  # (W, C) canvas index of each slot
    _at: Tensor  # (W, L) row of `_logits` of each position, -1 where nothing is predicted
    _logits: Tensor  # (N, V)
    _temperature: float
    _draws: Tensor | None  # (W, C)
    _check: Callable[[Tensor, Tensor], None]
    causal: bool = False  # of a causal Probe, whose slots in `write` are its `masked`

    def logits(self, slots: Tensor) -> Tensor:
        """Logits (M, V) of the marked slots, in row-major order; -inf for the mask token."""
        return self._logits[self._at.gather(1, self._where)[slots]]

    def probability(self, slots: Tensor, token: Tensor) -> Tensor:
        """The probability (W, C) of `token` (W, C) at the marked slots (softmax at temperature 1); 0 elsewhere."""
        chances = probability(self.logits(slots), token[slots])
        self._check(chances, self.row[slots.nonzero()[:, 0]])
        return torch.zeros(slots.shape, dtype=chances.dtype, device=slots.device).masked_scatter(slots, chances)

    def predict(self, slots: Tensor) -> tuple[Tensor, Tensor]:
        """Predicted token and its probability (W, C) at the marked slots, 0 elsewhere.

        At a temperature each slot draws with the random number that drew its `step.token`.
        """
        token, confidence = predict(
            self.logits(slots), self._temperature, None if self._draws is None else self._draws[slots]
        )
        self._check(confidence, self.row[slots.nonzero()[:, 0]])
        tokens = torch.zeros(slots.shape, dtype=torch.long, device=slots.device).masked_scatter(slots, token)
        numbers = torch.zeros(slots.shape, dtype=confidence.dtype, device=slots.device)
        return tokens, numbers.masked_scatter(slots, confidence)

    def taken(self, take: Tensor, canvas: Tensor, mask_id: int) -> Kept:
        """What the next step needs of the what-if rows `take` (R,), −1 for none, whose moves led to `canvas` (R, L)."""
        at = torch.where(canvas == mask_id, self._at[take.clamp(min=0)], -1)
        at = at.masked_fill((take < 0)[:, None], -1)
        known = at >= 0
        rows = at[known]  # (N',)
        at[known] = torch.arange(len(rows), device=at.device)
        return Kept(self.canvas[take.clamp(min=0)], at, _rows_of(self._logits, rows))


@dataclass(frozen=True, slots=True)
class Kept:
    """Forwards of what-if rows that were taken, which the next step reads instead of running its own."""

    canvas: Tensor  # (R, L) as forwarded
    at: Tensor  # (R, L) row of `logits` of each position, -1 where unknown
    logits: Tensor  # (N, V)

    def select(self, rows: Tensor) -> Kept:
        """Only the given rows; `rows` (R',) are indices."""
        return replace(self, canvas=self.canvas[rows], at=self.at[rows])

    def knows(self, want: Tensor) -> Tensor:
        """The rows (R,) of which all positions in `want` (R, L), at least one, are known."""
        return want.any(-1) & ~(want & (self.at < 0)).any(-1)

    def of(self, want: Tensor) -> Tensor:
        """Logits (M, V) of the positions in `want` (R, L), all of them known."""
        return _rows_of(self.logits, self.at[want])


@dataclass(frozen=True, slots=True)
class Foreseen:
    """Forwards of one row: of the canvas that it had, and of guesses of those that it comes to have."""

    canvas: Tensor  # (W, L)
    nfe: Tensor  # (W,) earlier forwards that lead there without looking ahead
    at: Tensor  # (W, L) row of `logits` of each position, -1 where unknown
    logits: Tensor  # (N, V)

    def exact(self, canvas: Tensor, nfe: Tensor, want: Tensor) -> int | None:
        """The forward of just this `canvas` (L,) after `nfe` others that knows all positions in `want` (L,)."""
        same = (self.nfe == nfe) & (self.canvas == canvas).all(-1) & ~(want & (self.at < 0)).any(-1)
        return int(same.int().argmax()) if bool(same.any()) else None

    def closest(self, canvas: Tensor, want: Tensor, mask_id: int) -> int | None:
        """The forward with the most of this canvas's tokens and no others that knows all positions in `want` (L,)."""
        masks = self.canvas == mask_id  # (W, L)
        within = (masks | (self.canvas == canvas)).all(-1) & ~(want & (self.at < 0)).any(-1)
        count = masks.sum(-1).masked_fill(~within, canvas.shape[0] + 1)
        return int(count.argmin()) if bool(within.any()) else None

    def of(self, place: int, want: Tensor) -> Tensor:
        """Logits (M, V) of the positions in `want` (L,), all of them known, from forward `place`."""
        return _rows_of(self.logits, self.at[place][want])


def _rows_of(logits: Tensor, rows: Tensor) -> Tensor:
    """Some rows of logits (N, V), without a copy where these are all."""
    every = len(rows) == len(logits) and bool((rows == torch.arange(len(rows), device=rows.device)).all())
    return logits if every else logits[rows]
