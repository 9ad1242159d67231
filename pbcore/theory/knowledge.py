"""What a sampler can know while it decodes: states of knowledge, the moves from each, and the draws
at each.

A state stands for the answers that agree with the revealed tokens. Positions whose token follows
from them are certain: revealing them costs nothing and tells nothing, so a move names only the
others and reveals what is certain along with them. For the list operations, answers that look alike
up to renaming are one state, which is a number:

- shuffle: the m items left. They can stand in any order, so neither positions nor items differ.
- replace_random: the m places where the new item can still be. Once it is found, or one place is
  left, all is certain.
- insert_random, remove_random: a revealed token says on which side the new item, or the gap, is. So
  its possible places are a run of K neighbours, and only K matters. Moves are sets of positions
  within the run: 2^K.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from math import log2, perm, prod
from typing import Any, Protocol

KnowledgeState = Any  # hashable
Sides = tuple[float, float, float]  # P(token says: the place is before, here, after this position)


@dataclass(frozen=True, slots=True)
class RevealOutcome:
    """What a move can reveal, with its probability in the data, by independent draws at τ = 1, and
    greedily. `after` is the next state; None: a single answer is left.
    """

    data: float
    drawn: float
    greedy: float
    after: KnowledgeState | None

    def chance(self, greedy: bool) -> float:
        """Its probability, with greedy or with drawn tokens."""
        return self.greedy if greedy else self.drawn


@dataclass(frozen=True, slots=True)
class Reveal:
    """A set of positions revealed in one step. `bits`: their conditional total correlation. `last`:
    none stays masked. What the probabilities of the outcomes lack to 1 goes to tokens that no
    answer has together.
    """

    last: bool
    bits: float
    outcomes: tuple[RevealOutcome, ...]


@dataclass(frozen=True, slots=True)
class JointPrediction:
    """Tokens predicted at all masked positions, before the sampler chooses which to keep. `right`:
    together they are an answer. `options`: the states after keeping some of them, with a position
    still masked.
    """

    chance: float
    right: bool
    options: frozenset[KnowledgeState | None]


class States(Protocol):
    """The states of one task. `start` is None if it has one answer only."""

    @property
    def start(self) -> KnowledgeState | None: ...

    def moves(self, state: KnowledgeState) -> Sequence[Reveal]:
        """All sets of uncertain positions, up to symmetry; never empty."""

    def draws(self, state: KnowledgeState, greedy: bool) -> Sequence[JointPrediction]:
        """All predictions, grouped; the chances add up to 1."""


@dataclass(frozen=True)
class _CountState:
    """A state is how many of the n places or items are left."""

    n: int

    @property
    def start(self) -> int | None:
        return _open(self.n)


class Shuffle(_CountState):
    """All orders of n items; each position is uniform over the m items left, greedily too (ties
    fall at random).
    """

    def moves(self, m: int) -> Sequence[Reveal]:
        rights = [perm(m, j) / m**j for j in range(1, m + 1)]
        return [
            Reveal(j == m, -log2(right), (RevealOutcome(1.0, right, right, _open(m - j)),))
            for j, right in enumerate(rights, 1)
        ]

    def draws(self, m: int, greedy: bool) -> Sequence[JointPrediction]:
        """Of the items drawn d are distinct; of equal ones a sampler can keep one."""
        from scipy.special import stirling2

        ways = [perm(m, d) * stirling2(m, d, exact=True) for d in range(1, m + 1)]
        return [
            JointPrediction(
                some / m**m, d == m, frozenset(_open(m - j) for j in range(1, min(d, m - 1) + 1))
            )
            for d, some in enumerate(ways, 1)
        ]


class Replace(_CountState):
    """One of n items replaced; each of m places takes the new one with probability 1/m. Greedy
    keeps it if m > 2.
    """

    def moves(self, m: int) -> Sequence[Reveal]:
        return [self._move(m, j) for j in range(1, m + 1)]

    def draws(self, m: int, greedy: bool) -> Sequence[JointPrediction]:
        return _all_or_one_more(self._move(m, m), greedy)

    def _move(self, m: int, j: int) -> Reveal:
        new = 1 / m
        old = (m - 1) / m
        kept = 0.5**j if m == 2 else 1.0
        found = RevealOutcome(j / m, j * new * old ** (j - 1), j * 0.5**j if m == 2 else 0.0, None)
        bits = j * entropy_bits([new, old]) - entropy_bits([new] * j + [(m - j) / m])
        if j == m:
            return Reveal(True, bits, (found,))
        return Reveal(False, bits, (found, RevealOutcome((m - j) / m, old**j, kept, _open(m - j))))


@dataclass(frozen=True)
class PlaceAmongNeighbours(_CountState):
    """The new item, or the gap, is at one of n places, equally likely. `new`: a position can hold
    the new item itself. With the new item, position i of K says before, here or after; a gap is
    before or after each of K − 1 tokens.
    """

    new: bool

    @cache  # noqa: B019  # `states` keeps it, too
    def moves(self, places: int) -> Sequence[Reveal]:
        """Sets of positions; of two that mirror each other, one."""
        width = self._width(places)
        sets = [[i for i in range(width) if chosen >> i & 1] for chosen in range(1, 1 << width)]
        return [
            self._move(places, chosen)
            for chosen in sets
            if chosen <= [width - 1 - i for i in reversed(chosen)]
        ]

    def draws(self, places: int, greedy: bool) -> Sequence[JointPrediction]:
        return _all_or_one_more(self._move(places, range(self._width(places))), greedy)

    def _width(self, places: int) -> int:
        return places if self.new else places - 1

    def _move(self, places: int, chosen: Sequence[int]) -> Reveal:
        """Reveals these positions, in ascending order."""
        width = self._width(places)
        sides = [self._sides(places, i) for i in chosen]
        likeliest = [_ties(side) for side in sides]
        outcomes = []
        start = 0
        for number, stop in enumerate((*chosen, width)):
            # Places before this position and after the one before it.
            run = stop - start if self.new else stop - start + 1
            if run:
                gaps = _gap(sides, number), _gap(likeliest, number)
                outcomes.append(RevealOutcome(run / places, *gaps, _open(run)))
            if self.new and number < len(chosen):
                here = _gap(sides, number, here=True), _gap(likeliest, number, here=True)
                outcomes.append(RevealOutcome(1 / places, *here, None))
            start = stop + 1
        bits = sum(map(entropy_bits, sides)) - entropy_bits([outcome.data for outcome in outcomes])
        return Reveal(len(chosen) == width, max(0.0, bits), tuple(outcomes))

    def _sides(self, places: int, i: int) -> Sides:
        if self.new:
            return i / places, 1 / places, (places - 1 - i) / places
        return (i + 1) / places, 0.0, (places - 1 - i) / places


def _gap(sides: Sequence[Sides], number: int, here: bool = False) -> float:
    """The chance that all positions agree on the place between the positions number − 1 and number,
    or at `number`.
    """
    after = [side[2] for side in sides[:number]]
    before = [side[0] for side in sides[number + here :]]
    chance = prod(after) * prod(before)
    if here:
        chance *= sides[number][1]
    return chance


def _ties(side: Sides) -> Sides:
    """The likeliest tokens, equally likely."""
    top = max(side)
    before, here, after = ((chance == top) / side.count(top) for chance in side)
    return before, here, after


def _all_or_one_more(everything: Reveal, greedy: bool) -> list[JointPrediction]:
    """Whatever is predicted at all positions, some of it agrees with exactly one answer, so one
    more step ends it, and nothing else is better. replace_random: one new item, or all but one of
    the kept ones. insert_random: the new item; without one, the first position that says "before"
    and those in front of it, but for the last of these. remove_random: the first that says "before"
    and all in front of it.
    """
    right = sum(outcome.chance(greedy) for outcome in everything.outcomes)
    settled = frozenset([None])
    return [JointPrediction(right, True, settled), JointPrediction(1 - right, False, settled)]


def _open(left: int) -> int | None:
    return left if left > 1 else None


def entropy_bits(chances: Iterable[float]) -> float:
    """In bits."""
    return -sum(chance * log2(chance) for chance in chances if chance > 0)
