"""The canvases of a decoding, from what its record keeps."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pbcore.results.record import FormerToken, SampleRecord

Canvas = tuple[int, ...]


class Revealed(NamedTuple):
    """A token that a step revealed."""

    at: int
    token: int
    confidence: float


class NoCanvases(Exception):
    """A record doesn't tell the canvases of its answer; the text says why."""


@dataclass(frozen=True, slots=True)
class Taken:
    """The steps that a decoding took.

    - `empty`: the canvas that it began with, L tokens.
    - `ids`: the tokens of its answer, at most L; `steps` and `confidences` when each was revealed.
    - `former`: those that did not stay, each with its id.
    """

    empty: Canvas
    ids: Canvas
    steps: Sequence[int]
    confidences: Sequence[float]
    former: Sequence[FormerToken]
    mask_id: int

    @property
    def count(self) -> int:
        """How many steps there were."""
        last = [*self.steps, *(token.until for token in self.former), -1]
        return max(last) + 1

    def canvas(self, step: int) -> Canvas:
        """The canvas before a step (0-based); with `count`, the answer."""
        canvas = list(self.empty)
        final = step == self.count
        for place, (token, when) in enumerate(zip(self.ids, self.steps, strict=True)):
            if final or 0 <= when < step:
                canvas[place] = token
        for former in self.former:
            if former.step < step <= former.until and former.id is not None:
                canvas[former.at] = former.id
        return tuple(canvas)

    def begun(self, step: int) -> int:
        """How many tokens stand before a step where the empty canvas has masks."""
        pairs = zip(self.empty, self.canvas(step), strict=True)
        return sum(asked == self.mask_id != token for asked, token in pairs)

    def shown(self, step: int) -> dict[int, tuple[int, float]]:
        """When each token that stands before a step was revealed, and its confidence then."""
        when = {}
        for place, at in enumerate(self.steps):
            if at < step:
                when[place] = at, self.confidences[place]
        for former in self.former:
            if former.step < step <= former.until:
                when[former.at] = former.step, former.confidence
        return when

    def revealed(self, step: int) -> list[Revealed]:
        """The tokens that stand after a step where masks were before."""
        before = self.canvas(step)
        after = self.canvas(step + 1)
        confidences = dict(enumerate(self.confidences))
        for former in self.former:
            if former.step == step:
                confidences[former.at] = former.confidence
        fresh = []
        for place, (old, new) in enumerate(zip(before, after, strict=True)):
            if old == self.mask_id != new:
                fresh.append(Revealed(place, new, confidences.get(place, 1.0)))
        return fresh

    def took_back(self, step: int) -> bool:
        """Whether a step masked or replaced tokens."""
        pairs = zip(self.canvas(step), self.canvas(step + 1), strict=True)
        return any(old not in (self.mask_id, new) for old, new in pairs)


def taken(record: SampleRecord, empty: Canvas, mask_id: int) -> Taken:
    """The steps of a recorded answer.

    Args:
        record: with the ids of its tokens.
        empty: the canvas of its request.
        mask_id: the model's.

    Raises:
        NoCanvases: if the record doesn't tell them.
    """
    ids = record.token_ids
    if not record.steps:
        raise NoCanvases("its model doesn't tell its steps")
    if not ids:
        raise NoCanvases("its record lacks the ids of its tokens")
    former = record.former or []
    if any(token.id is None for token in former):
        raise NoCanvases("its record lacks the ids of tokens that did not stay")
    repeated = [ids[-1]] * (len(record.steps) - len(ids))
    size = min(len(empty), len(record.steps))
    whole = tuple([*ids, *repeated][:size])
    if mask_id in whole:
        raise NoCanvases("its answer holds masks")
    kept = [token for token in former if token.at < size]
    return Taken(empty, whole, record.steps[:size], record.confidences[:size], kept, mask_id)


def first_stop(canvas: Canvas, stops: Collection[int]) -> int:
    """The place of the first token that ends an answer; the length without one."""
    for place, token in enumerate(canvas):
        if token in stops:
            return place
    return len(canvas)
