"""States of knowledge by listing: a state is the set of answers that agree with what is revealed, as a bit mask.

For few answers only: Latin squares of side 3, or a table of your own. The numbers of `counted` are tested against it.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbcore.errors import InputError
from pbcore.theory.counted import entropy
from pbcore.theory.knowledge import Draw, Move, Outcome, State

MOST_ANSWERS = 62  # the bits of a machine word
MOST_OPEN = 12  # 2^positions moves
MOST_DRAWS = 1 << 18

Column = dict[int, int]  # token → the answers that have it, as a mask


class Enumerated:
    """The states of equally likely answers (A, P), rows of integers.

    Raises InputError for more than 62 different answers or 12 uncertain positions.
    """

    def __init__(self, answers: NDArray[Any]) -> None:
        rows = np.unique(np.asarray(answers), axis=0)
        varying = (rows != rows[0]).any(0)
        if len(rows) > MOST_ANSWERS or varying.sum() > MOST_OPEN:
            raise InputError(
                f"{len(rows)} answers with {varying.sum()} uncertain positions: at most {MOST_ANSWERS} and {MOST_OPEN}"
            )
        self._columns = [_column(rows[:, place]) for place in np.flatnonzero(varying)]
        self.start: State | None = (1 << len(rows)) - 1 if len(rows) > 1 else None
        self._known: dict[int, Sequence[Move]] = {}
        self._drawn: dict[tuple[int, bool], Sequence[Draw]] = {}

    def _open(self, alive: int) -> list[Column]:
        """The uncertain positions: token → the answers left that have it."""
        columns = [{t: mask & alive for t, mask in column.items() if mask & alive} for column in self._columns]
        return [column for column in columns if len(column) > 1]

    def moves(self, state: State) -> Sequence[Move]:
        """All sets of uncertain positions."""
        assert isinstance(state, int)
        if state not in self._known:
            self._known[state] = self._moves(state)
        return self._known[state]

    def draws(self, state: State, greedy: bool) -> Sequence[Draw]:
        """Raises InputError for more than 2^18 combinations of tokens."""
        assert isinstance(state, int)
        if (state, greedy) not in self._drawn:
            self._drawn[state, greedy] = self._draws(state, greedy)
        return self._drawn[state, greedy]

    def _moves(self, state: int) -> Sequence[Move]:
        columns = self._open(state)
        return [
            _move(
                state,
                [column for i, column in enumerate(columns) if chosen >> i & 1],
                chosen == (1 << len(columns)) - 1,
            )
            for chosen in range(1, 1 << len(columns))
        ]

    def _draws(self, state: int, greedy: bool) -> Sequence[Draw]:
        columns = self._open(state)
        tokens = [_likeliest(column) if greedy else _marginals(column) for column in columns]
        if prod(map(len, tokens)) > MOST_DRAWS:
            raise InputError(f"more than {MOST_DRAWS} combinations of tokens can be drawn: too many to list")
        chances: defaultdict[tuple[bool, frozenset[State | None]], float] = defaultdict(float)
        for combination in product(*(choices.items() for choices in tokens)):
            masks = [column[token] for column, (token, _) in zip(columns, combination, strict=True)]
            chances[_kept(state, masks)] += prod(chance for _, chance in combination)
        return [Draw(chance, right, options) for (right, options), chance in chances.items()]


def _column(values: NDArray[Any]) -> Column:
    column: Column = {}
    for answer, token in enumerate(values.tolist()):
        column[token] = column.get(token, 0) | 1 << answer
    return column


def _move(alive: int, columns: Sequence[Column], last: bool) -> Move:
    """Reveals these positions; an outcome for each combination of tokens that some answer has."""
    marginals, likeliest = [_marginals(c) for c in columns], [_likeliest(c) for c in columns]
    outcomes = []
    for tokens, left in _combinations(alive, columns):
        outcomes.append(
            Outcome(
                left.bit_count() / alive.bit_count(),
                prod(marginal[token] for marginal, token in zip(marginals, tokens, strict=True)),
                prod(top.get(token, 0.0) for top, token in zip(likeliest, tokens, strict=True)),
                left if left.bit_count() > 1 else None,
            )
        )
    bits = sum(entropy(marginal.values()) for marginal in marginals) - entropy(outcome.data for outcome in outcomes)
    return Move(last, max(0.0, bits), tuple(outcomes))


def _combinations(alive: int, columns: Sequence[Column]) -> Iterator[tuple[tuple[int, ...], int]]:
    """(tokens, the answers that have them all), for each combination that some answer has."""
    found: dict[tuple[int, ...], int] = {(): alive}
    for column in columns:
        found = {
            (*tokens, token): left & mask
            for tokens, left in found.items()
            for token, mask in column.items()
            if left & mask
        }
    yield from found.items()


def _kept(alive: int, masks: Sequence[int]) -> tuple[bool, frozenset[State | None]]:
    """Whether the tokens drawn are an answer together, and the states after keeping some of them."""
    reached, everything = {alive}, alive
    for mask in masks:
        reached |= {state & mask for state in reached if state & mask}
        everything &= mask
    return bool(everything), frozenset(state if state.bit_count() > 1 else None for state in reached - {alive})


def _marginals(column: Column) -> dict[int, float]:
    total = sum(mask.bit_count() for mask in column.values())
    return {token: mask.bit_count() / total for token, mask in column.items()}


def _likeliest(column: Column) -> dict[int, float]:
    """The likeliest tokens; the noise chooses between equal ones."""
    top = max(mask.bit_count() for mask in column.values())
    tokens = [token for token, mask in column.items() if mask.bit_count() == top]
    return dict.fromkeys(tokens, 1 / len(tokens))
