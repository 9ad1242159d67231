"""States of knowledge by listing: a state is the set of answers that agree with what is revealed,
as a bit mask.

For few answers only: Latin squares of side 3, or a table of your own. The counted states of
`knowledge` are tested against it.
"""

from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbcore.base.errors import InputError
from pbcore.theory.knowledge import (
    JointPrediction,
    KnowledgeState,
    Reveal,
    RevealOutcome,
    entropy_bits,
)

MOST_ANSWERS = 62  # the bits of a machine word
MOST_OPEN = 12  # 2^positions moves
MOST_DRAWS = 1 << 18

TokenAnswers = dict[int, int]  # token → the answers that have it, as a mask


class Enumerated:
    """The states of equally likely answers (A, P), rows of integers. Raises InputError for more
    than 62 different answers or 12 uncertain positions.
    """

    def __init__(self, answers: NDArray[Any]) -> None:
        rows = np.unique(np.asarray(answers), axis=0)
        varying = (rows != rows[0]).any(0)
        if len(rows) > MOST_ANSWERS or varying.sum() > MOST_OPEN:
            raise InputError(
                f"{len(rows)} answers with {varying.sum()} uncertain positions: at most"
                f" {MOST_ANSWERS} and {MOST_OPEN}"
            )
        self._columns = []
        for place in np.flatnonzero(varying):
            column: TokenAnswers = defaultdict(int)
            for answer, token in enumerate(rows[:, place].tolist()):
                column[token] |= 1 << answer
            self._columns.append(column)
        self.start: KnowledgeState | None = (1 << len(rows)) - 1 if len(rows) > 1 else None

    def _open(self, alive: int) -> list[TokenAnswers]:
        """The uncertain positions: token → the answers left that have it."""
        columns = [
            {t: mask & alive for t, mask in column.items() if mask & alive}
            for column in self._columns
        ]
        return [column for column in columns if len(column) > 1]

    @cache  # noqa: B019  # lives as long as the states
    def moves(self, state: int) -> Sequence[Reveal]:
        """All sets of uncertain positions."""
        columns = self._open(state)
        sets = [
            [column for i, column in enumerate(columns) if chosen >> i & 1]
            for chosen in range(1, 1 << len(columns))
        ]
        return [_move(state, some, len(some) == len(columns)) for some in sets]

    @cache  # noqa: B019  # lives as long as the states
    def draws(self, state: int, greedy: bool) -> Sequence[JointPrediction]:
        """Raises InputError for more than 2^18 combinations of tokens."""
        columns = self._open(state)
        tokens = [_likeliest(column) if greedy else _marginals(column) for column in columns]
        if prod(map(len, tokens)) > MOST_DRAWS:
            raise InputError(
                f"more than {MOST_DRAWS} combinations of tokens can be drawn: too many to list"
            )
        chances: defaultdict[tuple[bool, frozenset[KnowledgeState | None]], float] = defaultdict(
            float
        )
        for combination in product(*(choices.items() for choices in tokens)):
            reached = {state}
            everything = state
            for column, (token, _) in zip(columns, combination, strict=True):
                reached |= {left & column[token] for left in reached if left & column[token]}
                everything &= column[token]
            chances[bool(everything), frozenset(map(_undecided, reached - {state}))] += prod(
                p for _, p in combination
            )
        return [
            JointPrediction(chance, right, options) for (right, options), chance in chances.items()
        ]


def _move(alive: int, columns: Sequence[TokenAnswers], last: bool) -> Reveal:
    """Reveals these positions; an outcome for each combination of tokens that some answer has."""
    marginals = [_marginals(c) for c in columns]
    likeliest = [_likeliest(c) for c in columns]
    found: dict[tuple[int, ...], int] = {(): alive}  # tokens → the answers that have them all
    for column in columns:
        found = {
            (*tokens, token): left & mask
            for tokens, left in found.items()
            for token, mask in column.items()
            if left & mask
        }
    outcomes = [
        RevealOutcome(
            left.bit_count() / alive.bit_count(),
            prod(marginal[token] for marginal, token in zip(marginals, tokens, strict=True)),
            prod(top.get(token, 0.0) for top, token in zip(likeliest, tokens, strict=True)),
            _undecided(left),
        )
        for tokens, left in found.items()
    ]
    bits = sum(entropy_bits(marginal.values()) for marginal in marginals) - entropy_bits(
        outcome.data for outcome in outcomes
    )
    return Reveal(last, max(0.0, bits), tuple(outcomes))


def _undecided(left: int) -> int | None:
    """The state of these answers; None: a single one is left."""
    return left if left.bit_count() > 1 else None


def _marginals(column: TokenAnswers) -> dict[int, float]:
    total = sum(mask.bit_count() for mask in column.values())
    return {token: mask.bit_count() / total for token, mask in column.items()}


def _likeliest(column: TokenAnswers) -> dict[int, float]:
    """The likeliest tokens; the noise chooses between equal ones."""
    top = max(mask.bit_count() for mask in column.values())
    tokens = [token for token, mask in column.items() if mask.bit_count() == top]
    return dict.fromkeys(tokens, 1 / len(tokens))
