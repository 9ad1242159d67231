"""Lemma 1 and Theorem 3 of ParallelBench, on any distribution over answers
(`bounds.answers_entropy`).
"""

from collections.abc import Collection, Mapping
from typing import Any

from pbcore.base.errors import InputError
from pbcore.theory.bounds import EntropyOf, least_bound


def conditional_total_correlation(
    entropy: EntropyOf, together: Collection[int], known: Collection[int] = ()
) -> float:
    """E[C(A | Z)] = Σ_{i ∈ A} H(yᵢ | Z) − H(A | Z): the loss of revealing A together.

    Args:
        entropy: the entropy in bits of a subset of the positions.
        together: the positions A of one step.
        known: the positions Z revealed before.

    Returns:
        Bits.
    """
    given = frozenset(known)
    base = entropy(given)
    alone = sum(entropy(given | {position}) - base for position in frozenset(together))
    return max(0.0, alone - (entropy(given | frozenset(together)) - base))


def lemma1(
    entropy: EntropyOf, first: Collection[int], second: Collection[int], known: Collection[int] = ()
) -> tuple[float, float]:
    """Both sides of Lemma 1: E[C(A ∪ B | Z)] ≥ E[C(A | Z)] + E[C(B | Z, A)].

    So a step that is divided into two never loses more.

    Args:
        entropy: the entropy in bits of a subset of the positions.
        first: A.
        second: B.
        known: Z; A, B and Z are disjoint.

    Returns:
        Left and right side, in bits.

    Raises:
        InputError: for positions that occur twice.
    """
    whole = [*first, *second]
    if len({*whole, *known}) < len(whole) + len(known):
        raise InputError(
            f"{sorted(first)}, {sorted(second)} and {sorted(known)} must have no position in common"
        )
    divided = conditional_total_correlation(entropy, first, known)
    divided += conditional_total_correlation(entropy, second, [*known, *first])
    return conditional_total_correlation(entropy, whole, known), divided


def theorem3(
    entropies: Mapping[Any, EntropyOf], shares: Mapping[Any, float], count: int, T: int
) -> float:
    """L*_T where the partition may differ by input: E_x[min over partitions of L_T(x)] (Theorem 3).

    It is at most the least loss of one partition for all inputs (`one_partition`), and like it
    falls with T.

    Args:
        entropies: input x → the entropy function of its answers.
        shares: input x → its probability.
        count: how many positions an answer has.
        T: the number of steps.

    Returns:
        Bits.

    Raises:
        InputError: for a T outside 1 … count, and for more than 10 positions.
    """
    _check(entropies, shares)
    return sum(shares[x] * least_bound(entropy, count, T) for x, entropy in entropies.items())


def one_partition(
    entropies: Mapping[Any, EntropyOf], shares: Mapping[Any, float], count: int, T: int
) -> float:
    """L*_T of one partition for all inputs: min over partitions of E_x[L_T(x)] (Theorem 2).

    Args:
        entropies: input x → the entropy function of its answers.
        shares: input x → its probability.
        count: how many positions an answer has.
        T: the number of steps.

    Returns:
        Bits.

    Raises:
        InputError: as `theorem3`.
    """
    _check(entropies, shares)

    def mean_entropy(known: frozenset[int]) -> float:
        return sum(shares[x] * bits(known) for x, bits in entropies.items())

    return least_bound(mean_entropy, count, T)


def _check(entropies: Mapping[Any, EntropyOf], shares: Mapping[Any, float]) -> None:
    if entropies.keys() != shares.keys() or abs(sum(shares.values()) - 1) > 1e-9:
        raise InputError(
            "each input needs its entropy function and its probability, and these add up to 1"
        )
