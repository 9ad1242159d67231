"""What one call of a network computes for one answer: what its seconds depend on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True, order=True)
class CallShape:
    """The size of one call of the network, as far as one answer takes part in it.

    - `rows`: rows of this answer in the call: 1, more with what-if rows or guessed canvases;
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
    - `padding`: further columns, which only fill the batch.
    """

    tokens: int
    context: int
    logits: int
    padding: int = 0


def tokens_forwarded(calls: Mapping[CallShape, int]) -> int:
    """Positions computed in all calls of an answer, each shape times how often it was called.
    Prefill is part of it.
    """
    return sum(shape.positions * times for shape, times in calls.items())


def tokens_prefilled(calls: Mapping[CallShape, int]) -> int:
    """The part of `tokens_forwarded` that only stored the prompt."""
    return sum(shape.positions * times for shape, times in calls.items() if shape.prefill)
