"""What a sampler can know while it decodes: states of knowledge, the moves from each, and the draws at each.

A state stands for the answers that agree with the revealed tokens. Positions whose token follows from them are certain:
revealing them costs nothing and tells nothing, so a move names only the others and reveals what is certain along with
them.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol

State = Hashable


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a move can reveal, with its probability in the data, by independent draws at τ = 1, and greedily.

    `after` is the next state; None: a single answer is left.
    """

    data: float
    drawn: float
    greedy: float
    after: State | None


@dataclass(frozen=True, slots=True)
class Move:
    """A set of positions revealed in one step.

    `bits`: their conditional total correlation. `last`: none stays masked. What the probabilities of the outcomes lack
    to 1 goes to tokens that no answer has together.
    """

    last: bool
    bits: float
    outcomes: tuple[Outcome, ...]


@dataclass(frozen=True, slots=True)
class Draw:
    """Tokens predicted at all masked positions, before the sampler chooses which to keep.

    `right`: together they are an answer. `options`: the states after keeping some of them, with a position still
    masked.
    """

    chance: float
    right: bool
    options: frozenset[State | None]


class States(Protocol):
    """The states of one task. `start` is None if it has one answer only."""

    @property
    def start(self) -> State | None: ...

    def moves(self, state: State) -> Sequence[Move]:
        """All sets of uncertain positions, up to symmetry; never empty."""
        ...

    def draws(self, state: State, greedy: bool) -> Sequence[Draw]:
        """All predictions, grouped; the chances add up to 1."""
        ...
