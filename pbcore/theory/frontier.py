"""The optimal frontier: the best that samplers can do which keep independently drawn tokens, in T steps or in a mean
number of them.

It bounds samplers that write only predicted tokens, each drawn from its exact marginal independently of the others of
its step, and keep every token. Two kinds:

- `order`: it chooses positions before it looks at a predicted token, or at noise that tells it (random, left to right,
  entropy, margin …).
- `seen`: it sees the tokens predicted at all positions before it chooses (confidence, threshold …). It contains the
  first kind.

It doesn't bound others: a sampler that draws the tokens of a step together answers a shuffle in one step, and one that
takes tokens back or tries canvases learns from further forwards. Dynamic programming over states of knowledge
(`knowledge`): what is revealed next may depend on what was revealed. Both kinds know all valid answers, so a frontier
is a bound, not a recipe; the one of `seen` is reached on shuffle by keeping one position per predicted token
(`fewest mean steps` 1 + 1/2 + … + 1/n).
"""

from collections.abc import Callable
from functools import cache
from math import inf, log2

from pbcore.errors import InputError
from pbcore.theory.answers import DETERMINISTIC, answer_table, check_operation
from pbcore.theory.concave_hull import Hull, best_of, mean_of, shifted
from pbcore.theory.counted import One, Places, Replace, Shuffle
from pbcore.theory.enumerated import Enumerated
from pbcore.theory.knowledge import Draw, Move, Outcome, State, States

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
    """The states of knowledge of an operation on n items (a Latin square of side n).

    Raises InputError for an unknown operation, and for more items than `MOST`.
    """
    check_operation(op, n)
    if op in DETERMINISTIC or (n == 1 and op != "insert_random"):
        return One()
    if n > MOST[op]:
        raise InputError(f"{op}, n = {n}: the frontier is computed up to n = {MOST[op]}; give a smaller n")
    if op == "shuffle":
        return Shuffle(n)
    if op == "replace_random":
        return Replace(n)
    if op == "insert_random":
        return Places(n + 1, new=True)
    return Places(n, new=False) if op == "remove_random" else Enumerated(answer_table(op, n))


def best_accuracy(op: str, n: int, T: int, *, greedy: bool = False, seen: bool = False) -> float:
    """The best expected accuracy in at most T steps, at τ = 1 or greedily."""
    _check_steps(T)
    return frontier_of(states(op, n), T, greedy=greedy, seen=seen)[-1]


def frontier_of(known: States, most: int, *, greedy: bool = False, seen: bool = False) -> list[float]:
    """The best expected accuracies in at most 1, 2 … `most` steps."""

    @cache
    def value(state: State | None, left: int) -> float:
        if state is None or left < 1:
            return float(left >= 1)
        if seen:
            return sum(
                draw.chance * (1.0 if draw.right else max(value(option, left - 1) for option in draw.options))
                for draw in known.draws(state, greedy)
            )
        return max(
            sum(
                _chance(outcome, greedy) * (1.0 if move.last else value(outcome.after, left - 1))
                for outcome in move.outcomes
            )
            for move in known.moves(state)
        )

    return [min(1.0, value(known.start, T)) for T in range(1, most + 1)]


def least_bits(op: str, n: int, T: int) -> float:
    """The fewest bits that a decision tree of at most T steps loses: KL(data ‖ sampler) at τ = 1, where the positions
    of a step follow from the tokens revealed before. Fixed partitions are trees, so it is at most L*_T (Theorem 2).

    A sampler that chooses among trees at random can lose less still; `fewest_bits` is the bound for those.
    """
    _check_steps(T)
    known = states(op, n)

    @cache
    def value(state: State | None, left: int) -> float:
        if state is None or left < 1:
            return 0.0 if left >= 1 else inf
        return min(
            move.bits
            + sum(outcome.data * (0.0 if move.last else value(outcome.after, left - 1)) for outcome in move.outcomes)
            for move in known.moves(state)
        )

    return max(0.0, value(known.start, T))


def fewest_bits(op: str, n: int, T: int, *, seen: bool = False) -> float:
    """−log₂ of the best accuracy at τ = 1: no sampler of its kind loses fewer bits in T steps, random orders included.

    Jensen: KL = −E log₂(q(y) A) ≥ −log₂ Σ q(y) over the A valid answers y. Equality needs the same q for all, which a
    random exchange of positions and names brings about for the operations in `ALIKE`; for others it is a lower bound.
    """
    return max(0.0, -log2(best_accuracy(op, n, T, seen=seen)))


@cache
def accuracy_hull(op: str, n: int, *, greedy: bool = False, seen: bool = False) -> Hull:
    """The best expected accuracy over the mean number of steps; mixtures of samplers included.

    A sampler may stop trying: reveal all at once where that pays.
    """
    known = states(op, n)

    @cache
    def hull(state: State | None) -> Hull:
        if state is None:
            return ((1.0, 1.0),)
        if seen:
            return shifted(mean_of([(draw.chance, kept(draw)) for draw in known.draws(state, greedy)]), 1)
        return best_of(shifted(_after(move, greedy, hull), 1) for move in known.moves(state))

    def kept(draw: Draw) -> Hull:
        return RIGHT if draw.right else best_of([WRONG, *(hull(option) for option in draw.options)])

    return hull(known.start)


def _after(move: Move, greedy: bool, hull: Callable[[State | None], Hull]) -> Hull:
    """What follows a move; after a mistake the rest is revealed in one step."""
    chances = [_chance(outcome, greedy) for outcome in move.outcomes]
    if move.last:
        return ((0.0, sum(chances)),)
    wrong = max(0.0, 1 - sum(chances))
    return shifted(
        mean_of(
            [(chance, hull(outcome.after)) for chance, outcome in zip(chances, move.outcomes, strict=True) if chance]
        ),
        wrong,
    )


def _chance(outcome: Outcome, greedy: bool) -> float:
    return outcome.greedy if greedy else outcome.drawn


def _check_steps(T: int) -> None:
    if type(T) is not int or T < 1:
        raise InputError(f"T is the number of steps, a whole number of at least 1, not {T!r}")
