"""Shuffles as states of knowledge, by counting free slots, and the problem of any distribution."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from functools import lru_cache
from math import comb, factorial, perm

import numpy as np
from numpy.typing import NDArray

from pbcore.theory.canvas import MASKED, AnswerDistribution
from pbcore.theory.distributions import Listed, Shuffled
from pbcore.theory.problems import (
    ExchangeablePositions,
    ListedProblem,
    NotExact,
    Problem,
    prediction_chances,
    targets,
)

# an excluded order among so many shifts a probability by less than the ideal model's noise
TIED = 1_000_000


def problem(distribution: AnswerDistribution, parts: NDArray[np.int64]) -> Problem:
    """The problem of a distribution; `parts` (L,) numbers the part of each masked position from 0.
    Raises NotExact for shuffles of many people some of whom have their place already.
    """
    masked = targets(distribution)
    sizes = tuple(np.bincount(parts[masked]).tolist()) if len(masked) else ()
    if isinstance(distribution, Shuffled):
        if (distribution.canvas[distribution.slots] != MASKED).any():
            raise NotExact("some people of the shuffle have their place in the given canvas")
        return ShuffledProblem(distribution, parts, sizes)
    assert isinstance(distribution, Listed)
    return ListedProblem(distribution, parts, sizes)


ShuffleState = tuple[tuple[int, ...], bool]


class ShuffledProblem:
    """Orders of people by counting. A state is the number of free slots of each type (the parts
    that a slot's names belong to), and whether all people placed so far stand where they stood in a
    list that is not an answer.
    """

    def __init__(
        self, distribution: Shuffled, parts: NDArray[np.int64], sizes: tuple[int, ...]
    ) -> None:
        self.sizes = sizes
        kinds = Counter(tuple(sorted(parts[slot].tolist())) for slot in distribution.slots)
        self._kinds = tuple(kinds)
        self.start: ShuffleState = (tuple(kinds.values()), not distribution.identity)

    def solved(self, state: ShuffleState) -> bool:
        free, excluded = state
        return sum(free) <= (2 if excluded else 1)

    def groups(self, state: ShuffleState, part: int) -> tuple[ExchangeablePositions, ...]:
        free, excluded = state
        count = sum(
            number * kind.count(part) for number, kind in zip(free, self._kinds, strict=True)
        )
        return (
            ()
            if self.solved(state) or not count
            else (ExchangeablePositions(_people(sum(free), excluded), count),)
        )

    @lru_cache(maxsize=1 << 14)  # noqa: B019  # lives as long as the problem
    def moves(
        self, state: ShuffleState, part: int, counts: tuple[int, ...] | int, temperature: float
    ) -> Mapping[ShuffleState, float]:
        count = counts if isinstance(counts, int) else sum(counts)
        if not count:
            return {state: 1.0}
        n = sum(state[0])
        excluded = state[1]
        positions = self.groups(state, part)[0].positions
        predicted = prediction_chances(_people(n, excluded), temperature)
        other = predicted[0]
        home = predicted[-1]
        # (revealed, those at home, slots at home, slots elsewhere, slots of each type) → ways
        table: dict[tuple[int, int, int, int, tuple[int, ...]], int] = {(0, 0, 0, 0, ()): 1}
        for free, kind in zip(state[0], self._kinds, strict=True):
            width = kind.count(part)
            after: defaultdict[tuple[int, int, int, int, tuple[int, ...]], int] = defaultdict(int)
            for (used, at_home, stay, go, slots), ways in table.items():
                for j, same, m, moved, more in _hits(free, width, count - used, excluded):
                    after[
                        used + same + moved, at_home + same, stay + j, go + m, (*slots, j + m)
                    ] += ways * more
            table = after
        result: defaultdict[ShuffleState, float] = defaultdict(float)
        for (used, at_home, stay, go, slots), ways in table.items():
            if used != count:
                continue
            left = tuple(free - hit for free, hit in zip(state[0], slots, strict=True))
            if excluded and not go and sum(left) < 2:
                continue  # the list itself
            # The ways to put different people into the slots elsewhere, none of them into the own
            # one.
            stuck = range(go + 1 if excluded else 1)
            assigned = sum((-1) ** i * comb(go, i) * perm(n - stay - i, go - i) for i in stuck)
            chance = home**at_home * other ** (used - at_home)
            if assigned and chance:
                result[left, excluded and not go] += (
                    ways * assigned * chance / comb(positions, count)
                )
        return result


def _people(n: int, excluded: bool) -> tuple[float, ...]:
    """The probabilities of n free people in a slot; its own person's is the last."""
    if not excluded or factorial(n - 1) > TIED:
        return (1 / n,) * n
    orders = factorial(n) - 1
    return (factorial(n - 1) / orders,) * (n - 1) + ((factorial(n - 1) - 1) / orders,)


@lru_cache(maxsize=1 << 12)
def _hits(
    free: int, width: int, most: int, excluded: bool
) -> tuple[tuple[int, int, int, int, int], ...]:
    """Ways to reveal up to `most` of `width` names in each of `free` slots: (slots at home, their
    names, slots elsewhere, their names, ways). Without an excluded order all slots count as
    elsewhere.
    """
    found = []
    for j in range(free + 1 if excluded and width else 1):
        for m in range(free - j + 1 if width else 1):
            for same in range(j, min(j * width, most) + 1):
                for moved in range(m, min(m * width, most - same) + 1):
                    ways = (
                        comb(free, j)
                        * comb(free - j, m)
                        * _covers(j, width, same)
                        * _covers(m, width, moved)
                    )
                    if ways:
                        found.append((j, same, m, moved, ways))
    return tuple(found)


def _covers(slots: int, width: int, names: int) -> int:
    """The ways to choose `names` of slots × width names with at least one in each slot."""
    return sum(
        (-1) ** i * comb(slots, i) * comb(width * (slots - i), names) for i in range(slots + 1)
    )
