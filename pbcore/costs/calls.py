"""What one call of a network computes for one answer: what its seconds depend on."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from typing import NamedTuple


@dataclass(frozen=True, slots=True, order=True)
class CallShape:
    """The size of one call of the network, as far as one answer takes part in it.

    - `rows`: rows of this answer in the call: 1, more with what-if rows;
    - `tokens`: positions computed in each of these rows, padding of the batch left out;
    - `context`: positions that a cache holds and each row attends to beside its own;
    - `logits`: positions of each row whose logits are worked out;
    - `prefill`: whether the call only stores the prompt, so that nothing is revealed by it.
    """

    rows: int
    tokens: int
    context: int = 0
    logits: int = 0
    prefill: bool = False

    @property
    def positions(self) -> int:
        """Positions computed in the call for this answer."""
        return self.rows * self.tokens


class RowSize(NamedTuple):
    """What a forward computes for one of its rows.

    - `tokens`: columns that are the row's own;
    - `context`: columns that a cache holds and these attend to beside themselves;
    - `logits`: positions whose logits are worked out;
    - `padding`: further columns, which only fill the batch;
    - `call`: which of the forward's calls of the network computes them, if it makes several.
    """

    tokens: int
    context: int
    logits: int
    padding: int = 0
    call: int = 0


def tokens_forwarded(calls: Mapping[CallShape, int]) -> int:
    """Positions computed in all calls of an answer, each shape times how often it was called.
    Prefill is part of it.
    """
    return sum(shape.positions * times for shape, times in calls.items())


def tokens_prefilled(calls: Mapping[CallShape, int]) -> int:
    """The part of `tokens_forwarded` that only stored the prompt."""
    return sum(shape.positions * times for shape, times in calls.items() if shape.prefill)


def summed(calls: Iterable[Mapping[CallShape, int]], most: int = 64) -> dict[CallShape, int]:
    """The calls of several answers together, in the order of their shapes. Beyond `most` shapes,
    neighbours that differ least are merged, weighted by how often each was called, so that sums
    stay the same up to rounding; prefill is never merged with other calls.
    """
    total = Counter[CallShape]()
    for one in calls:
        total.update(one)
    shapes = sorted(total.items(), key=_order)
    while len(shapes) > most:
        apart = [_apart(first, second) for first, second in pairwise(shapes)]
        cheapest = sorted(range(len(apart)), key=apart.__getitem__)[: len(shapes) - most]
        shapes = list(_merged(shapes, set(cheapest)))
    return dict(shapes)


def _order(entry: tuple[CallShape, int]) -> tuple[int, ...]:
    shape, _ = entry
    return shape.prefill, shape.rows, shape.tokens, shape.context, shape.logits


def _apart(first: tuple[CallShape, int], second: tuple[CallShape, int]) -> float:
    """How much merging two neighbours changes."""
    (one, often), (other, seldom) = first, second
    if one.prefill != other.prefill:
        return inf
    distance = (
        abs(one.positions - other.positions)
        + abs(one.rows - other.rows)
        + abs(one.context - other.context)
        + abs(one.logits - other.logits)
    )
    return distance * min(often, seldom)


def _merged(
    shapes: Sequence[tuple[CallShape, int]], cheapest: set[int]
) -> Iterator[tuple[CallShape, int]]:
    """The shapes, each whose number is among the `cheapest` merged with the next; none twice."""
    numbers = iter(range(len(shapes)))
    for number in numbers:
        shape, times = shapes[number]
        if number not in cheapest:
            yield shape, times
            continue
        other, more = shapes[next(numbers)]
        rows, tokens, context, logits = (
            round((times * own + more * theirs) / (times + more))
            for own, theirs in (
                (shape.rows, other.rows),
                (shape.tokens, other.tokens),
                (shape.context, other.context),
                (shape.logits, other.logits),
            )
        )
        yield CallShape(rows, tokens, context, logits, shape.prefill), times + more
