"""What-if rows: canvases that a policy asks about before it moves, forwarded as one batch.

R rows, W what-if rows, L canvas positions, C slots of the active block, N masked positions of all
what-if rows, V tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from pbcore.base.lazy_torch import Tensor
from pbcore.decoding.prediction import Law, predict, probability, scattered
from pbcore.models.transfer import places


@dataclass(frozen=True, slots=True)
class Probe:
    """What a policy with `needs = {"probe"}` returns to see some canvases before it moves.

    Each of the W what-if rows is a copy of one `row` of the step in which `token` stands at the
    slots in `write`; `step.mask_id` as a token masks a slot. A row of the step may have any number
    of them. The loop forwards all of them in one batch and calls `select` again with
    `step.answers`. A what-if row without masks isn't forwarded.

    With `causal` (block models, `needs = {"probe", "causal"}`) the model reads the active block
    token by token, and what it answers is its prediction of each slot in `write`, given the slots
    before it and none after it; no such row can be taken.
    """

    row: Tensor  # (W,) long
    write: Tensor  # (W, C) bool
    token: Tensor  # (W, C) long
    causal: bool = False


@dataclass(frozen=True, slots=True)
class Forwards:
    """Canvases that were forwarded and what the model said of them."""

    canvas: Tensor  # (W, L)
    at: Tensor  # (W, L) row of `logits` of each position, -1 where nothing is known
    logits: Tensor  # (N, V)
    within: int | None = None  # how many of `logits` are of the step's slots

    def select(self, rows: Tensor) -> Forwards:
        """Only the given rows; `rows` (W',) are indices."""
        return Forwards(self.canvas[rows], self.at[rows], self.logits)

    def knows(self, want: Tensor) -> Tensor:
        """The rows (W,) of which all positions in `want` (W, L), at least one, are known."""
        return want.any(-1) & ~(want & (self.at < 0)).any(-1)


@dataclass(frozen=True, slots=True)
class Answers:
    """What the model says of the what-if rows of a Probe, in its order. `row` (W,) is the row of
    the step that each copies, and `masked` (W, C) the slots that are masked in it. The methods take
    `slots` (W, C) bool, some of `masked`, and read only their distributions.
    """

    row: Tensor  # (W,) long
    masked: Tensor  # (W, C) bool
    _forwards: Forwards
    _where: Tensor  # (W, C) canvas index of each slot
    _law: Law
    _draws: Tensor | None  # (W, C)
    _check: Callable[[Tensor, Tensor], None]
    causal: bool = False  # of a causal Probe, whose slots in `write` are its `masked`

    @property
    def canvas(self) -> Tensor:
        """The canvases (W, L) that were asked about."""
        return self._forwards.canvas

    def logits(self, slots: Tensor, count: int | None = None) -> Tensor:
        """Logits (M, V) of the marked slots, in row-major order; -inf for the mask token. Their
        `count`, where the policy knows it, spares a wait for the GPU.
        """
        return self._logits(self._places(slots) if count is None else places(slots, count))

    def _logits(self, at: Tensor) -> Tensor:
        return self._forwards.logits[self._forwards.at.gather(1, self._where).flatten()[at]]

    def _places(self, slots: Tensor) -> Tensor:
        """Where the marked slots (M,) are among all. Of `masked` the host knows their number."""
        return places(slots, self._forwards.within if slots is self.masked else None)

    def probability(self, slots: Tensor, token: Tensor) -> Tensor:
        """The probability (W, C) of `token` (W, C) at the marked slots, under the softmax of their
        logits; 0 elsewhere.
        """
        at = self._places(slots)
        return self._checked(slots, at, probability(self._logits(at), token.flatten()[at]))

    def predict(self, slots: Tensor) -> tuple[Tensor, Tensor]:
        """Predicted token and its probability (W, C) at the marked slots, 0 elsewhere. At a
        temperature each slot draws with the random number that drew its `step.token`.
        """
        at = self._places(slots)
        draws = None if self._draws is None else self._draws.flatten()[at]
        token, confidence = predict(self._logits(at), self._law, draws)
        return scattered(slots, token), self._checked(slots, at, confidence)

    def _checked(self, slots: Tensor, at: Tensor, chances: Tensor) -> Tensor:
        self._check(chances, self.row[at // slots.shape[1]])
        return scattered(slots, chances)

    def taken(self, take: Tensor, canvas: Tensor, mask_id: int) -> Forwards:
        """What the next step needs of the what-if rows that a move takes.

        Args:
            take: (R,) what-if rows; −1 for none.
            canvas: (R, L) after the move; only what is still masked there is kept.
            mask_id: the mask token.
        """
        part = self._forwards.select(take.clamp(min=0))
        known = (canvas == mask_id) & (take >= 0)[:, None] & (part.at >= 0)
        return replace(part, at=part.at.masked_fill(~known, -1))
