"""The slots of a step and the candidates among them: counts, order and selection.

R rows, C slots of the active block, M candidates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from pbcore.base.lazy_torch import Tensor, torch
from pbcore.decoding.prediction import scattered
from pbcore.models.transfer import gather_entries, places

ABSENT: Any = None  # in place of what only a policy that declares it has


@dataclass(slots=True)
class _Counted:
    """What is worked out once of the candidates `masked`."""

    masked: Tensor  # (R, C) bool
    counts: tuple[int, ...] | None = None  # of each row, on the host
    at: Tensor | None = None  # (M,) their places among all slots


@dataclass(slots=True, kw_only=True)
class Candidates:
    """The slots of the rows still being decoded. A row's slots are its target positions (those
    masked at the start) in the active block, in canvas order. Rows with fewer slots are padded on
    the right, where `inside` is False. With `reach = "prefix"` the slots of all earlier blocks come
    first. The candidates are the masked slots.
    """

    inside: Tensor  # (R, C) bool: False at padding
    position: Tensor  # (R, C) long: index among the row's target positions
    column: Tensor  # (R, C) long: index in the canvas
    masked: Tensor  # (R, C) bool: the candidates
    # (R, C) bool: slots that hold a token; `~masked` also has masks that are no candidates now
    visible: Tensor = ABSENT
    _counted: _Counted | None = None
    _order: Tensor | None = None  # (R, C) long: the candidates' order, in place of any score's

    def candidates(self) -> tuple[int, ...]:
        """Each row's number of candidates, on the host."""
        counted = self._of_masked()
        if counted.counts is None:
            counted.counts = tuple(self.masked.sum(-1).tolist())
        return counted.counts

    def of_candidates(self, values: Tensor) -> Tensor:
        """The candidates' part (M, …) of values (R, C, …), in row-major order, as `values[masked]`;
        on a GPU that makes the host wait, and this doesn't.
        """
        return gather_entries(values, self._places())

    def to_candidates(self, values: Tensor, part: Tensor) -> None:
        """Writes the candidates' part (M, …) of values (R, C, …), in place."""
        values.view(-1, *values.shape[2:])[self._places()] = part

    def scatter(self, values: Tensor, fill: float = 0.0) -> Tensor:
        """Puts values (M,) of the candidates into their slots: (R, C), `fill` elsewhere."""
        return scattered(self.masked, values, fill)

    def rank(self, score: Tensor, among: Tensor | None = None) -> Tensor:
        """Rank (R, C) of each slot, from 0, by falling `score` (R, C) among the slots `among` (R,
        C), by default the candidates; slots outside come last, ties go to the lowest position.
        """
        order = self.order(score, self.masked if among is None else among)
        places = torch.arange(order.shape[-1], device=order.device).expand_as(order)
        return torch.empty_like(order).scatter_(-1, order, places)

    def order(self, score: Tensor, among: Tensor) -> Tensor:
        """Slot indices (R, C) by falling `score` of those `among` (R, C), others last whatever
        the scores; ties to the lowest position.
        """
        if self._order is not None and among is self.masked:
            return self._order
        finite = score.clamp(min=torch.finfo(score.dtype).min)  # -inf is below all scores
        return finite.masked_fill(~among, -torch.inf).argsort(dim=-1, descending=True, stable=True)

    def in_order(self, order: Tensor) -> Self:
        """The same with the candidates in `order` (R, C), slot indices, whatever their scores."""
        return replace(self, _order=order)

    def ordered(self, score: Tensor, values: Tensor) -> Tensor:
        """`values` (R, C) sorted by falling `score`, the candidates' first; ignore what follows the
        last candidate.
        """
        return values.gather(-1, self.order(score, self.masked))

    def first(self, score: Tensor, count: Tensor) -> Tensor:
        """The best `count` (R,) candidates by `score` (R, C), at least one in each row that has
        candidates.
        """
        return self.masked & (self.rank(score) < count.clamp(min=1)[:, None])

    def prefix(self, score: Tensor, good: Tensor) -> Tensor:
        """The candidates that come before the first one, by falling `score`, that isn't `good` (R,
        C); at least one.
        """
        return self.first(score, self.ordered(score, good & self.masked).long().cumprod(-1).sum(-1))

    def best_one(self, score: Tensor) -> Tensor:
        """The best candidate of each row by `score` (R, C)."""
        return self.masked & (self.rank(score) < 1)

    def at_least_best(self, reveal: Tensor, score: Tensor) -> Tensor:
        """The candidates in `reveal` (R, C); in a row without any, the best candidate by
        `score`.
        """
        reveal = reveal & self.masked
        return torch.where(reveal.any(-1, keepdim=True), reveal, self.best_one(score))

    def _places(self) -> Tensor:
        counted = self._of_masked()
        if counted.at is None:
            total = None if counted.counts is None else sum(counted.counts)
            counted.at = places(self.masked, total)
        return counted.at

    def _of_masked(self) -> _Counted:
        if self._counted is None or self._counted.masked is not self.masked:
            self._counted = _Counted(self.masked)
        return self._counted


def note_counts(step: Candidates, counts: Sequence[int]) -> None:
    """Notes each row's number of candidates, where the host knows it already."""
    step._counted = _Counted(step.masked, tuple(counts))
