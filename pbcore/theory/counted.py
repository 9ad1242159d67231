"""States of knowledge as numbers, for the list operations: answers that look alike up to renaming are one state.

- shuffle: the m items left. They can stand in any order, so neither positions nor items differ.
- replace_random: the m places where the new item can still be. Once it is found, or one place is left, all is certain.
- insert_random, remove_random: a revealed token says on which side the new item, or the gap, is. So its possible places
  are a run of K neighbours, and only K matters.

Moves of the last two are sets of positions within the run: 2^K.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from math import comb, factorial, log2, perm

from pbcore.theory.knowledge import Draw, Move, Outcome, State

Sides = tuple[float, float, float]  # P(token says: the place is before, here, after this position)


@dataclass(frozen=True)
class One:
    """A single answer: every position is certain from the beginning."""

    start: State | None = None

    def moves(self, state: State) -> Sequence[Move]:
        raise ValueError("a task with one answer has no uncertain position")

    def draws(self, state: State, greedy: bool) -> Sequence[Draw]:
        raise ValueError("a task with one answer has no uncertain position")


@dataclass(frozen=True)
class _Counted:
    """A state is how many of the n places or items are left."""

    n: int

    @property
    def start(self) -> int | None:
        return _open(self.n)


class _Alike(_Counted):
    """The m places left are alike: only how many are revealed matters, `_move(m, j)`."""

    def moves(self, state: State) -> Sequence[Move]:
        m = _number(state)
        return [self._move(m, j) for j in range(1, m + 1)]

    def _move(self, m: int, j: int) -> Move:
        raise NotImplementedError


@dataclass(frozen=True)
class Shuffle(_Alike):
    """All orders of n items; each position is uniform over the m items left, greedily too (ties fall at random)."""

    def draws(self, state: State, greedy: bool) -> Sequence[Draw]:
        """Of the items drawn d are distinct; of equal ones a sampler can keep one."""
        m = _number(state)
        return [
            Draw(
                perm(m, d) * _partitions(m, d) / m**m,
                d == m,
                frozenset(_open(m - j) for j in range(1, min(d, m - 1) + 1)),
            )
            for d in range(1, m + 1)
        ]

    def _move(self, m: int, j: int) -> Move:
        right = perm(m, j) / m**j
        return Move(j == m, -log2(right), (Outcome(1.0, right, right, _open(m - j)),))


@dataclass(frozen=True)
class Replace(_Alike):
    """One of n items replaced; each of m places takes the new item with probability 1/m. Greedy keeps the item where
    m > 2."""

    def draws(self, state: State, greedy: bool) -> Sequence[Draw]:
        return _all_or_one_more(self._move(_number(state), _number(state)), greedy)

    def _move(self, m: int, j: int) -> Move:
        new, old = 1 / m, (m - 1) / m
        kept = 0.5**j if m == 2 else 1.0
        found = Outcome(j / m, j * new * old ** (j - 1), j * 0.5**j if m == 2 else 0.0, None)
        bits = j * entropy([new, old]) - entropy([new] * j + [(m - j) / m])
        if j == m:
            return Move(True, bits, (found,))
        return Move(False, bits, (found, Outcome((m - j) / m, old**j, kept, _open(m - j))))


@dataclass(frozen=True)
class Places(_Counted):
    """The new item, or the gap, is at one of n places, equally likely. `new`: a position can hold the new item itself.

    With the new item, position i of K says before, here or after; a gap is before or after each of K − 1 tokens.
    """

    new: bool

    def moves(self, state: State) -> Sequence[Move]:
        """Sets of positions; of two that mirror each other, one."""
        return _place_moves(self, _number(state))

    def draws(self, state: State, greedy: bool) -> Sequence[Draw]:
        places = _number(state)
        return _all_or_one_more(self.move(places, range(self.width(places))), greedy)

    def width(self, places: int) -> int:
        """The number of positions whose token depends on the place."""
        return places if self.new else places - 1

    def move(self, places: int, chosen: Sequence[int]) -> Move:
        """Reveals these positions, in ascending order."""
        width = self.width(places)
        sides = [self._sides(places, i) for i in chosen]
        likeliest = [_ties(side) for side in sides]
        outcomes, start = [], 0
        for number, stop in enumerate((*chosen, width)):
            run = stop - start + (not self.new)  # places before this position and after the one before it
            if run:
                outcomes.append(
                    Outcome(run / places, _gap(sides, number), _gap(likeliest, number), run if run > 1 else None)
                )
            if self.new and number < len(chosen):
                here = _gap(sides, number, here=True), _gap(likeliest, number, here=True)
                outcomes.append(Outcome(1 / places, *here, None))
            start = stop + 1
        bits = sum(map(entropy, sides)) - entropy([outcome.data for outcome in outcomes])
        return Move(len(chosen) == width, max(0.0, bits), tuple(outcomes))

    def _sides(self, places: int, i: int) -> Sides:
        if self.new:
            return i / places, 1 / places, (places - 1 - i) / places
        return (i + 1) / places, 0.0, (places - 1 - i) / places


@cache
def _place_moves(task: Places, places: int) -> list[Move]:
    width = task.width(places)
    sets = [[i for i in range(width) if chosen >> i & 1] for chosen in range(1, 1 << width)]
    return [task.move(places, chosen) for chosen in sets if chosen <= [width - 1 - i for i in reversed(chosen)]]


def _gap(sides: Sequence[Sides], number: int, here: bool = False) -> float:
    """The chance that all positions agree on the place between the positions number − 1 and number, or at `number`."""
    chance = 1.0
    for before_place in range(number):
        chance *= sides[before_place][2]
    if here:
        chance *= sides[number][1]
    for after_place in range(number + here, len(sides)):
        chance *= sides[after_place][0]
    return chance


def _ties(side: Sides) -> Sides:
    """The likeliest tokens, equally likely."""
    top = max(side)
    found = [float(chance == top) for chance in side]
    before, here, after = (one / sum(found) for one in found)
    return before, here, after


def _all_or_one_more(everything: Move, greedy: bool) -> list[Draw]:
    """Whatever is predicted at all positions, some of it agrees with exactly one answer, so one more step ends it.

    replace_random: one new item, or all but one of the kept ones. insert_random: the new item; without one, the first
    position that says "before" and those in front of it, but for the last of these. remove_random: the first that says
    "before" and all in front of it.
    Nothing else can be better, since anything but an answer needs another step.
    """
    right = sum(outcome.greedy if greedy else outcome.drawn for outcome in everything.outcomes)
    settled = frozenset([None])
    return [Draw(right, True, settled), Draw(1 - right, False, settled)]


def _number(state: State) -> int:
    if not isinstance(state, int):
        raise TypeError(f"state {state!r} is not a number")
    return state


def _open(left: int) -> int | None:
    return left if left > 1 else None


def entropy(chances: Iterable[float]) -> float:
    """In bits."""
    return -sum(chance * log2(chance) for chance in chances if chance > 0)


@cache
def _partitions(m: int, d: int) -> int:
    """The ways to part m things into d groups (Stirling's numbers of the second kind)."""
    terms = [comb(d, i) * int(i**m) for i in range(d + 1)]
    return (sum(terms[d::-2]) - sum(terms[d - 1 :: -2])) // factorial(d)
