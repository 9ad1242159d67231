"""Lemma 1 and Theorem 3 of ParallelBench, on any distribution over answers.

P positions, A answers with probabilities that need not be equal.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from math import log2
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbcore.errors import InputError
from pbcore.theory.bounds import Entropy, _least_by_subset, partition_bound

MOST_POSITIONS = 10


def entropy_of(answers: NDArray[Any], chances: Sequence[float]) -> Entropy:
    """The entropy in bits of a subset of positions, for answers (A, P) with probabilities (A,).

    Raises InputError for probabilities that don't fit the answers, are negative or don't add up to 1.
    """
    weights = np.asarray(chances, dtype=np.float64)
    if weights.shape != (len(answers),) or (weights < 0).any() or abs(weights.sum() - 1) > 1e-9:
        raise InputError(f"{len(answers)} answers need as many probabilities that add up to 1, not {list(chances)[:8]}")

    @lru_cache(maxsize=1 << 16)
    def entropy(subset: frozenset[int]) -> float:
        if not subset:
            return 0.0
        _, label = np.unique(answers[:, sorted(subset)], axis=0, return_inverse=True)
        shares = np.bincount(label.reshape(-1), weights)
        return -sum((share * log2(share) for share in shares.tolist() if share), 0.0)

    return entropy


def conditional_total_correlation(entropy: Entropy, together: Collection[int], known: Collection[int] = ()) -> float:
    """E[C(A | Z)] = Σ_{i ∈ A} H(yᵢ | Z) − H(A | Z) in bits: the loss of revealing the positions A together."""
    given = frozenset(known)
    base = entropy(given)
    alone = sum(entropy(given | {position}) - base for position in frozenset(together))
    return max(0.0, alone - (entropy(given | frozenset(together)) - base))


def lemma1(
    entropy: Entropy, first: Collection[int], second: Collection[int], known: Collection[int] = ()
) -> tuple[float, float]:
    """Both sides of Lemma 1: E[C(A ∪ B | Z)] ≥ E[C(A | Z)] + E[C(B | Z, A)], in bits; A, B and Z are disjoint.

    A step that is divided into two never loses more. Raises InputError for positions that occur twice.
    """
    parts = [frozenset(first), frozenset(second), frozenset(known)]
    if len(frozenset().union(*parts)) < sum(map(len, parts)):
        raise InputError(f"{sorted(first)}, {sorted(second)} and {sorted(known)} must have no position in common")
    one, two, given = parts
    whole = conditional_total_correlation(entropy, one | two, given)
    return whole, conditional_total_correlation(entropy, one, given) + conditional_total_correlation(
        entropy, two, given | one
    )


def theorem3(entropies: Mapping[Any, Entropy], shares: Mapping[Any, float], count: int, T: int) -> float:
    """L*_T in bits where the partition may be chosen for each input x: E_x[min over partitions of L_T(x)] (Theorem 3).

    `entropies` has the entropy function of the answers to each input, over `count` positions; `shares` the inputs'
    probabilities. It is at most the least loss of one partition for all inputs (`one_partition`), and like it falls
    with T. Raises InputError for a T outside 1 … count, and for more than 10 positions.
    """
    _check(entropies, shares, count, T)
    return sum(shares[x] * _least_by_subset(entropy, count, T) for x, entropy in entropies.items())


def one_partition(entropies: Mapping[Any, Entropy], shares: Mapping[Any, float], count: int, T: int) -> float:
    """L*_T in bits of one partition for all inputs: min over partitions of E_x[L_T(x)] (Theorem 2). Errors as above."""
    _check(entropies, shares, count, T)

    def mean(subset: frozenset[int]) -> float:
        return sum(shares[x] * entropy(subset) for x, entropy in entropies.items())

    return _least_by_subset(mean, count, T)


def expected_bound(
    entropies: Mapping[Any, Entropy], shares: Mapping[Any, float], steps: Mapping[Any, Sequence[Collection[int]]]
) -> float:
    """E_x[L_T(x)] in bits for a partition of each input."""
    return sum(shares[x] * partition_bound(entropy, steps[x]) for x, entropy in entropies.items())


def _check(entropies: Mapping[Any, Entropy], shares: Mapping[Any, float], count: int, T: int) -> None:
    if entropies.keys() != shares.keys() or abs(sum(shares.values()) - 1) > 1e-9:
        raise InputError("each input needs its entropy function and its probability, and these add up to 1")
    if not 1 <= count <= MOST_POSITIONS:
        raise InputError(f"{count} positions: partitions are searched for 1 to {MOST_POSITIONS}")
    if type(T) is not int or not 1 <= T <= count:
        raise InputError(f"T is the number of steps, 1 to {count}, not {T!r}")
