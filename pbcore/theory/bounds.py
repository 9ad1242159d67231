"""Lower bounds, in bits, on the loss of T parallel steps: total correlation (Eq. 1), Theorem 1's
bound, and its minimum (Theorem 2).

Everything follows from the entropies of subsets of positions: L_T = Σᵢ Σ_{j ∈ Sᵢ} [H(S_<i ∪ {j}) −
H(S_<i)] − H(Y), because the joint terms telescope. The answers are uniform, so a subset's entropy
follows from counts. Equations are those of ParallelBench (arXiv 2510.04767).
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache, lru_cache
from itertools import combinations, pairwise
from math import factorial, inf, log2, perm
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbcore.base.errors import InputError
from pbcore.theory.answers import (
    DETERMINISTIC,
    answer_table,
    check_operation,
    count_latin_squares,
    positions,
)

# Operations with interchangeable positions: the bound depends on step sizes only. For the others it
# depends on the positions per step.
EXCHANGEABLE = (*DETERMINISTIC, "replace_random", "shuffle", "shuffle_changed")
MOST_POSITIONS = 10

EntropyOf = Callable[[frozenset[int]], float]


def total_correlation(op: str, n: int) -> float:
    """C(Y|X) = Σ H(yᵢ|X) − H(Y|X) in bits (Eq. 1; Eq. 3 for replace_random, Eq. 4 for shuffle): the
    least loss of a single step.

    `op` is one of `answers.OPERATIONS`: the list operations (`shuffle` includes the list itself;
    `shuffle_changed`, the waiting line's, excludes it), `latin_square` (side n ≤ 9), `sudoku`.
    Raises InputError for an unknown `op`, or an n outside its range.
    """
    check_operation(op, n)
    if op == "latin_square":
        return n * n * log2(n) - log2(count_latin_squares(n))
    return step_bound(op, n, steps=[range(positions(op, n))])


def step_bound(
    op: str,
    n: int,
    sizes: Sequence[int] | None = None,
    *,
    steps: Sequence[Collection[int]] | None = None,
) -> float:
    """L_T in bits: the least KL divergence from the data of T parallel steps (Theorem 1, Eq. 2).

    The exact marginals reach it at τ = 1. It holds for a fixed partition; a random order loses no
    more than the average of its partitions' bounds. Give either `sizes` or `steps`.

    Args:
        op: the list operation.
        n: the length of the list.
        sizes: the number of tokens per step, for operations in `bounds.EXCHANGEABLE`.
        steps: the positions revealed at each step, for any operation.

    Returns:
        Bits.

    Raises:
        InputError: for sizes or steps that don't cover each position once, and if there are too
            many answers to list.
    """
    count = positions(op, n)
    if (sizes is None) == (steps is None):
        raise InputError("give either sizes, e.g. [2, 2], or steps, e.g. steps=[[0, 2], [1]]")
    if sizes is not None:
        if op not in EXCHANGEABLE:
            raise InputError(
                f"{op}: the bound depends on the positions of each step; give steps=[[0, 2], [1]],"
                " not sizes"
            )
        if not isinstance(sizes, Iterable):
            raise InputError(
                f"{op}: sizes is a list of tokens per step, such as [2, 2], not {sizes!r}"
            )
        if any(type(size) is not int or size < 1 for size in sizes) or sum(sizes) != count:
            raise InputError(
                f"{op}: sizes {list(sizes)} must be integers of at least 1 that add up to the"
                f" {count} positions"
            )
        ends = np.cumsum([0, *sizes]).tolist()
        steps = [range(start, end) for start, end in pairwise(ends)]
    assert steps is not None
    return partition_bound(_entropy(op, n), _checked(steps, count, op))


def optimal_bound(op: str, n: int, T: int) -> float:
    """L*_T in bits: the least L_T over all partitions into T nonempty steps (Theorem 2).

    It falls from C(Y|X) at T = 1 to 0.

    Args:
        op: the list operation.
        n: the length of the list.
        T: the number of steps.

    Returns:
        Bits.

    Raises:
        InputError: for a T outside 1 … positions, and for more than 10 positions that are not
            interchangeable.
    """
    where = f"{op}, n = {n}: "
    return least_bound(
        _entropy(op, n), positions(op, n), T, exchangeable=op in EXCHANGEABLE, where=where
    )


def least_bound(
    entropy: EntropyOf, count: int, T: int, *, exchangeable: bool = False, where: str = ""
) -> float:
    """L*_T in bits by dynamic programming over the revealed positions.

    Args:
        entropy: the entropy in bits of a subset of the positions.
        count: how many positions there are.
        T: the number of steps.
        exchangeable: whether positions are alike, so that only their number matters.
        where: how error messages begin.

    Returns:
        Bits.

    Raises:
        InputError: as `optimal_bound`.
    """
    if type(T) is not int or not 1 <= T <= count:
        raise InputError(f"{where}T is the number of steps, 1 to {count}, not {T!r}")
    if not exchangeable and count > MOST_POSITIONS:
        raise InputError(
            f"{where}{count} positions have too many partitions; at most {MOST_POSITIONS} are"
            " searched"
        )
    everything = frozenset(range(count))
    by_size = [entropy(frozenset(range(size))) for size in range(count + 1)]

    def sizes(known: int) -> list[tuple[int, float]]:
        new = by_size[known + 1] - by_size[known] if known < count else 0.0
        return [(size, (size - known) * new) for size in range(known + 1, count + 1)]

    @cache
    def subsets(known: frozenset[int]) -> list[tuple[frozenset[int], float]]:
        free = sorted(everything - known)
        new = {j: entropy(known | {j}) - entropy(known) for j in free}
        reached = []
        for size in range(1, len(free) + 1):
            for step in combinations(free, size):
                reached.append((known.union(step), sum(new[j] for j in step)))
        return reached

    steps: Callable[[Any], list[tuple[Any, float]]]
    # What is revealed, as a number of positions or as a set of them.
    nothing: Any
    all_revealed: Any
    if exchangeable:
        steps = sizes
        nothing, all_revealed = 0, count
    else:
        steps = subsets
        nothing, all_revealed = frozenset(), everything
    # What is revealed → the least bits lost.
    best: dict[Any, float] = {nothing: 0.0}
    for _ in range(T):
        after: dict[Any, float] = {}
        for known, lost in best.items():
            for reached, bits in steps(known):
                after[reached] = min(lost + bits, after.get(reached, inf))
        best = after
    return max(0.0, best[all_revealed] - by_size[count])


def partition_bound(entropy: EntropyOf, steps: Sequence[Collection[int]]) -> float:
    """L_T of a partition in bits; `entropy` gives the entropy of a subset of positions."""
    known: frozenset[int] = frozenset()
    total = 0.0
    for step in steps:
        base = entropy(known)
        total += sum(entropy(known | {position}) - base for position in step)
        known |= frozenset(step)
    return max(0.0, total - entropy(known))


def answers_entropy(answers: NDArray[Any], chances: Sequence[float] | None = None) -> EntropyOf:
    """A function that gives the entropy in bits of a subset of positions of the answers (A, P). All
    answers are equally likely, unless `chances` (A,) says otherwise. Raises InputError for chances
    that don't fit the answers, are negative or don't add up to 1.
    """
    weights = None if chances is None else np.asarray(chances, dtype=np.float64)
    if weights is not None and (
        weights.shape != (len(answers),) or (weights < 0).any() or abs(weights.sum() - 1) > 1e-9
    ):
        raise InputError(
            f"{len(answers)} answers need as many probabilities that add up to 1, not"
            f" {weights[:8].tolist()}"
        )

    @lru_cache(maxsize=1 << 16)
    def entropy(subset: frozenset[int]) -> float:
        if not subset:
            return 0.0
        _, labels = np.unique(answers[:, sorted(subset)], axis=0, return_inverse=True)
        return label_entropy(labels.reshape(-1), weights)

    return entropy


def label_entropy(labels: NDArray[np.int64], weights: NDArray[np.float64] | None = None) -> float:
    """Bits of the label of a random answer, from the answers' labels (A,) and weights."""
    counts = np.bincount(labels, weights)
    counts = counts[counts > 0]
    total = counts.sum()
    return float(log2(total) - (counts * np.log2(counts)).sum() / total)


@lru_cache(maxsize=64)
def _entropy(op: str, n: int) -> EntropyOf:
    """The entropy function of an operation: a closed form if there is one, else from the listed
    answers.
    """
    if op in DETERMINISTIC:
        return lambda subset: 0.0
    if op == "shuffle":
        return lambda subset: log2(perm(n, len(subset)))
    if op == "replace_random":
        return lambda subset: _replace_entropy(n, len(subset))
    if op == "shuffle_changed":
        return lambda subset: changed_entropy(n, len(subset))
    return answers_entropy(answer_table(op, n))


def _replace_entropy(n: int, size: int) -> float:
    """Entropy in bits: the new item is at one of the `size` positions (1/n each), or elsewhere."""
    elsewhere = (n - size) / n
    return size / n * log2(n) - (elsewhere * log2(elsewhere) if elsewhere else 0.0)


def changed_entropy(n: int, size: int) -> float:
    """In bits: each ordered choice of `size` items has (n − size)! completions, the list's own
    beginning one fewer.
    """
    answers = factorial(n) - 1
    completions = factorial(n - size)
    others = factorial(n) // completions - 1
    total = others * (completions / answers) * log2(answers / completions)
    if completions > 1:
        total += (completions - 1) / answers * log2(answers / (completions - 1))
    return total


def _checked(steps: Sequence[Collection[int]], count: int, op: str) -> list[list[int]]:
    """The steps as lists, each position from 0 to count − 1 once."""
    if not isinstance(steps, Iterable) or not all(isinstance(step, Iterable) for step in steps):
        raise InputError(
            f"{op}: steps is a list of lists of positions, such as [[0, 2], [1]], not {steps!r}"
        )
    result = [list(step) for step in steps]
    positions = [position for step in result for position in step]
    no_empty_step = all(result)
    whole_numbers = all(type(position) is int for position in positions)
    # Others may not compare with one another.
    each_once = whole_numbers and sorted(positions) == list(range(count))
    if not (no_empty_step and each_once):
        raise InputError(
            f"{op}: steps {result} must have each position from 0 to {count - 1} once, and no empty"
            " step"
        )
    return result
