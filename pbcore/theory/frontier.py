"""The optimal frontier: the best that samplers can do which keep independently drawn tokens, in T
steps or in a mean number of them.

It bounds samplers that write only predicted tokens, each drawn from its exact marginal
independently of the others of its step, and keep every token. Two kinds:

- `order`: it chooses positions before it looks at a predicted token, or at noise that tells it
  (random, left to right, entropy, margin …).
- `seen`: it sees the tokens predicted at all positions before it chooses (confidence, threshold …).
  It contains the first kind.

It doesn't bound others: a sampler that draws the tokens of a step together answers a shuffle in one
step, and one that takes tokens back or tries canvases learns from further forwards. Dynamic
programming over states of knowledge (`knowledge`): what is revealed next may depend on what was
revealed. Both kinds know all valid answers, so a frontier is a bound, not a recipe; that of `seen`
is reached on shuffle by keeping one position per predicted token (1 + 1/2 + … + 1/n steps on
average).
"""

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import pairwise
from math import inf

import numpy as np

from pbcore.base.errors import InputError
from pbcore.theory.answers import DETERMINISTIC, answer_table, check_operation
from pbcore.theory.enumerated import Enumerated
from pbcore.theory.knowledge import (
    JointPrediction,
    KnowledgeState,
    PlaceAmongNeighbours,
    Replace,
    Reveal,
    Shuffle,
    States,
)

# Concave trade-offs of steps against value, mixtures of samplers included: the corners (mean steps,
# value), from the fewest steps on, each with a higher value at a falling slope. More steps than the
# last corner's gain nothing.
Corner = tuple[float, float]
Hull = tuple[Corner, ...]
TINY = 1e-12

# The most items (the side of a square) for which the frontier is computed.
MOST = {
    "shuffle": 40,
    "replace_random": 40,
    "insert_random": 12,
    "remove_random": 12,
    "shuffle_changed": 4,
    "latin_square": 3,
}
# Any answer can be turned into any other by exchanging positions and renaming tokens.
ALIKE = ("shuffle", "replace_random", "latin_square")
RIGHT: Hull = ((0.0, 1.0),)
WRONG: Hull = ((0.0, 0.0),)


@cache
def states(op: str, n: int) -> States:
    """The states of knowledge of an operation on n items (a Latin square of side n). Raises
    InputError for an unknown operation, and for more items than `MOST`.
    """
    check_operation(op, n)
    if op in DETERMINISTIC or (n == 1 and op != "insert_random"):
        return Shuffle(1)
    if n > MOST[op]:
        raise InputError(
            f"{op}, n = {n}: the frontier is computed up to n = {MOST[op]}; give a smaller n"
        )
    if op == "shuffle":
        return Shuffle(n)
    if op == "replace_random":
        return Replace(n)
    if op == "insert_random":
        return PlaceAmongNeighbours(n + 1, new=True)
    if op == "remove_random":
        return PlaceAmongNeighbours(n, new=False)
    return Enumerated(answer_table(op, n))


def best_accuracy(op: str, n: int, T: int, *, greedy: bool = False, seen: bool = False) -> float:
    """The best expected accuracy in at most T steps.

    Args:
        op: the list operation.
        n: the length of the list.
        T: the number of steps.
        greedy: whether tokens are the likeliest ones, not drawn at τ = 1.
        seen: whether positions are chosen after the tokens are predicted.
    """
    _check_steps(T)
    return frontier_of(states(op, n), T, greedy=greedy, seen=seen)[-1]


def frontier_of(
    known: States, most: int, *, greedy: bool = False, seen: bool = False
) -> list[float]:
    """The best expected accuracies in at most 1, 2 … `most` steps.

    Args:
        known: the states of knowledge of a task.
        most: the largest number of steps.
        greedy: whether tokens are the likeliest ones, not drawn at τ = 1.
        seen: whether positions are chosen after the tokens are predicted.
    """

    @cache
    def value(state: KnowledgeState | None, left: int) -> float:
        if state is None or left < 1:
            return float(left >= 1)
        if seen:
            return sum(
                draw.chance * after_draw(draw, left - 1) for draw in known.draws(state, greedy)
            )
        return max(after_move(move, left - 1) for move in known.moves(state))

    def after_draw(draw: JointPrediction, left: int) -> float:
        if draw.right:
            return 1.0
        return max(value(option, left) for option in draw.options)

    def after_move(move: Reveal, left: int) -> float:
        if move.last:
            return sum(outcome.chance(greedy) for outcome in move.outcomes)
        return sum(outcome.chance(greedy) * value(outcome.after, left) for outcome in move.outcomes)

    return [min(1.0, value(known.start, T)) for T in range(1, most + 1)]


def least_bits(op: str, n: int, T: int) -> float:
    """The fewest bits that a decision tree of at most T steps loses: KL(data ‖ sampler) at τ = 1.

    In a tree the positions of a step follow from the tokens revealed before. Fixed partitions are
    trees, so the result is at most L*_T (Theorem 2). A sampler that chooses among trees at random
    can lose less still, but never less than −log₂ of `best_accuracy`.

    Args:
        op: the list operation.
        n: the length of the list.
        T: the number of steps.
    """
    _check_steps(T)
    known = states(op, n)

    @cache
    def value(state: KnowledgeState | None, left: int) -> float:
        if state is None or left < 1:
            return 0.0 if left >= 1 else inf
        return min(move.bits + later_bits(move, left - 1) for move in known.moves(state))

    def later_bits(move: Reveal, left: int) -> float:
        if move.last:
            return 0.0
        return sum(outcome.data * value(outcome.after, left) for outcome in move.outcomes)

    return max(0.0, value(known.start, T))


@cache
def accuracy_hull(op: str, n: int, *, greedy: bool = False, seen: bool = False) -> Hull:
    """The best expected accuracy over the mean number of steps, mixtures of samplers included.

    A sampler may stop trying: reveal all at once where that pays.

    Args:
        op: the list operation.
        n: the length of the list.
        greedy: whether tokens are the likeliest ones, not drawn at τ = 1.
        seen: whether positions are chosen after the tokens are predicted.
    """
    known = states(op, n)

    @cache
    def hull(state: KnowledgeState | None) -> Hull:
        if state is None:
            return ((1.0, 1.0),)
        if seen:
            return _shifted(
                _mean_of([(draw.chance, kept(draw)) for draw in known.draws(state, greedy)]), 1
            )
        return _best_of(_shifted(after(move), 1) for move in known.moves(state))

    def kept(draw: JointPrediction) -> Hull:
        return RIGHT if draw.right else _best_of([WRONG, *map(hull, draw.options)])

    def after(move: Reveal) -> Hull:
        """After a mistake the rest is revealed in one step."""
        chances = [outcome.chance(greedy) for outcome in move.outcomes]
        if move.last:
            return ((0.0, sum(chances)),)
        hulls = [
            (chance, hull(outcome.after))
            for chance, outcome in zip(chances, move.outcomes, strict=True)
            if chance
        ]
        return _shifted(_mean_of(hulls), max(0.0, 1 - sum(chances)))

    return hull(known.start)


def value_at(hull: Hull, steps: float) -> float:
    """The best value in at most this many steps on average. Raises ValueError below the fewest
    steps.
    """
    if steps < hull[0][0] - 1e-9:
        raise ValueError(f"{steps:g} steps: it takes at least {hull[0][0]:g}")
    return float(np.interp(steps, [corner[0] for corner in hull], [corner[1] for corner in hull]))


def steps_for(hull: Hull, value: float) -> float:
    """The fewest mean steps that reach a value, or the hull's highest if that is lower."""
    return float(np.interp(value, [corner[1] for corner in hull], [corner[0] for corner in hull]))


def _best_of(hulls: Iterable[Sequence[Corner]]) -> Hull:
    """The concave curve above all corners."""
    corners: list[Corner] = []
    distinct = {corner for hull in hulls for corner in hull}
    for corner in sorted(distinct, key=lambda corner: (corner[0], -corner[1])):
        if corners and corner[1] <= corners[-1][1] + TINY:
            continue
        while (
            len(corners) > 1
            and _slope(corners[-2], corners[-1]) <= _slope(corners[-2], corner) + TINY
        ):
            corners.pop()
        corners.append(corner)
    return tuple(corners)


def _mean_of(weighted: Sequence[tuple[float, Hull]]) -> Hull:
    """The trade-off where chance decides which of several applies: steps go first to where they
    gain most. The weights may add up to less than 1; what they lack takes no steps and has value 0.
    """
    steps = sum(weight * hull[0][0] for weight, hull in weighted)
    value = sum(weight * hull[0][1] for weight, hull in weighted)
    edges = [
        (weight * (b[0] - a[0]), weight * (b[1] - a[1]))
        for weight, hull in weighted
        if weight > TINY
        for a, b in pairwise(hull)
    ]
    corners = [(steps, value)]
    for longer, more in sorted(edges, key=lambda edge: -edge[1] / edge[0]):
        steps = steps + longer
        value = value + more
        corners.append((steps, value))
    return tuple(corners)


def _shifted(hull: Hull, steps: float) -> Hull:
    return tuple((s + steps, value) for s, value in hull)


def _slope(a: Corner, b: Corner) -> float:
    return (b[1] - a[1]) / (b[0] - a[0])


def _check_steps(T: int) -> None:
    if type(T) is not int or T < 1:
        raise InputError(f"T is the number of steps, a whole number of at least 1, not {T!r}")
