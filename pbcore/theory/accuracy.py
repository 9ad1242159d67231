"""The exact expected accuracy of the ideal model on the list operations, by a small Markov
recursion (ParallelBench, Section 4.2).

The ideal model's logits are exact conditional log-marginals plus zero-mean noise whose size goes to
0, so that it only breaks ties, at random. All positions are then equivalent. The state of a canvas
is the number m of items left, how many of them, b, are in the active block, and the steps done in
this block.

- shuffle: with m items left each position is uniform over them, so a step that reveals j is right
  with probability P(m, j) / m^j (Eq. 5).
- replace_random: until the new item is placed, each position takes it with probability 1/m. A step
  that places exactly one decides the rest, one that places two or more makes the answer wrong, and
  one that places none leaves m − j items.
"""

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import cache
from math import comb, perm

from pbcore.base.errors import InputError
from pbcore.names import SamplerName, parse
from pbcore.theory.answers import DETERMINISTIC, check_operation

LIST_OPS = ("copy", "replace_index", "replace_random", "shuffle")
DERIVED = (*DETERMINISTIC, "replace_random", "shuffle")
# Policies whose choice of positions ignores the drawn tokens.
BLIND = ("random", "left_to_right", "margin", "entropy")
MOST_ITEMS = 200

# Candidates of equal confidence: its numerator and denominator, their number, and the probability
# that the noise lifts one above it; the highest confidence first.
TiedCandidates = tuple[int, int, int, float]
# (groups, candidates, step) → (number revealed, probability); the most confident are revealed
# first.
Reveals = Callable[[Sequence[TiedCandidates], int, int], Iterator[tuple[int, float]]]


def accuracy(op: str, n: int, sampler: str) -> float:
    """The expected accuracy of the ideal model on `list_ops` under a sampler, as its noise goes to
    0.

    Where a confidence equals a threshold, the noise decides.

    Args:
        op: copy, replace_index, replace_random or shuffle; or another operation with a single
            answer, where the accuracy is 1.
        n: the length of the list, at most 200.
        sampler: random, confidence, left_to_right, margin or entropy top-k (or `+s2_1_1`,
            `+linear4` schedules), threshold or factor, with `+bN` and `+tX`.

    Returns:
        A probability in [0, 1].

    Raises:
        InputError: for an operation, sampler or block length without a derivation, or n above 200.
    """
    check_operation(op, n)
    if op not in DERIVED:
        raise InputError(
            f"{op}: the accuracy is derived for {', '.join(DERIVED)}; for others decode with the"
            " model `ideal`"
        )
    name = parse(sampler)
    reveals = _rule(name)
    if op in DETERMINISTIC:
        return 1.0
    if n > MOST_ITEMS:
        raise InputError(f"{op}, n = {n}: the recursion goes up to n = {MOST_ITEMS}")
    block = name.block or n
    if n % block:
        raise InputError(
            f"sampler {sampler}: block length {block} doesn't divide the {n} tokens of {op}, n"
            f" = {n}"
        )

    @cache
    def value(m: int, b: int, step: int) -> float:
        """The probability that decoding goes on to a correct answer."""
        if m == 0:
            return float(op == "shuffle")
        if b == 0:
            return value(m, block, 0)
        if op == "shuffle":
            reached = _shuffled(name, reveals, m, b, step)
            return sum(
                (p * (perm(m, j) / m**j) * value(m - j, b - j, step + 1) for j, p in reached), 0.0
            )
        total = 0.0
        for kept, placed, p in _replaced(name, reveals, m, b, step):
            if placed == 1:
                total += p
            elif placed == 0 and p:
                total += p * value(m - kept, b - kept, step + 1)
        return total

    return min(1.0, value(n, block, 0))


def _shuffled(
    name: SamplerName, reveals: Reveals, m: int, b: int, step: int
) -> Iterator[tuple[int, float]]:
    """(number revealed, probability). All confidences are 1/m; noise lifts a greedy token's, and
    half of the drawn.
    """
    return reveals([(1, m, b, 1.0 if name.temperature == 0 and m > 1 else 0.5)], b, step)


def _replaced(
    name: SamplerName, reveals: Reveals, m: int, b: int, step: int
) -> Iterator[tuple[int, int, float]]:
    """(positions that keep their item, positions that take the new one, probability). Positions
    that drew their own item have confidence (m−1)/m and are revealed first; those that drew the new
    one have 1/m. With two items left both tokens have probability ½, so each revealed position is a
    fair coin.
    """
    if m == 1:
        yield 0, 1, 1.0
        return
    if m == 2:
        for j, p in _shuffled(name, reveals, 2, b, step):
            for placed in range(j + 1):
                yield j - placed, placed, p * comb(j, placed) / 2**j
        return
    new = 0.0
    if name.temperature:
        ratio = (1 / (m - 1)) ** (1 / name.temperature)
        new = ratio / (1 + ratio)
    for drawn in range(b + 1):
        p = comb(b, drawn) * new**drawn * (1 - new) ** (b - drawn)
        if not p:
            continue
        if name.policy in BLIND:
            ((j, _),) = reveals([], b, step)
            for placed in range(max(0, j - (b - drawn)), min(j, drawn) + 1):
                chosen = comb(drawn, placed) * comb(b - drawn, j - placed) / comb(b, j)
                yield j - placed, placed, p * chosen
        else:
            for j, q in reveals([(m - 1, m, b - drawn, 0.5), (1, m, drawn, 0.5)], b, step):
                kept = min(j, b - drawn)
                yield kept, j - kept, p * q


def _rule(name: SamplerName) -> Reveals:
    """What a sampler reveals. Raises InputError for samplers without a derivation."""
    gap = f"gap{name.gap}" if name.gap else ""
    adas = "" if name.adas is None else f"adas{name.adas:g}"
    if name.prophet:
        raise InputError(f"sampler {name}: no accuracy is derived for an early exit; leave it out")
    if name.adaptive:
        raise InputError(
            f"sampler {name}: no accuracy is derived for blocks chosen while decoding; give +b or"
            " leave them out"
        )
    if name.cuts and name.temperature:
        raise InputError(
            f"sampler {name}: no accuracy is derived for draws that +p and +top cut; leave them out"
        )
    if extra := name.cache or name.remask or adas or name.together or gap:
        raise InputError(
            f"sampler {name}: no accuracy is derived for caches, remasking, ADAS, joint draws or"
            f" gaps; leave +{extra} out"
        )
    scheduled = name.counts is not None or name.schedule is not None
    if name.policy in (*BLIND, "confidence"):
        return _schedule(name) if scheduled else _top_k(name)
    if name.policy not in ("threshold", "factor"):
        raise InputError(
            f"sampler {name}: the accuracy is derived for"
            f" {', '.join((*BLIND, 'confidence', 'threshold', 'factor'))}; for others decode with"
            " the model `ideal`"
        )
    derived = _threshold(name) if name.policy == "threshold" else _factor(name)
    if scheduled:
        raise InputError(
            f"sampler {name}: {name.policy} determines the number of tokens itself; leave the"
            " schedule out"
        )
    return derived


def _top_k(name: SamplerName) -> Reveals:
    k = _parameter(name, "k")
    if k.denominator != 1 or k < 1:
        raise InputError(
            f"sampler {name}: k is the number of tokens per step, a whole number of at least 1"
        )
    return lambda groups, left, step: iter([(min(int(k), left), 1.0)])


def _schedule(name: SamplerName) -> Reveals:
    """`+s…` as given; `+linearS` reveals ⌊m/S⌋ + [i < m mod S] = ⌈left / steps left⌉; the last step
    all the rest.
    """
    if name.arguments:
        raise InputError(f"sampler {name}: give k or a schedule, not both")
    if name.schedule not in (None, "linear"):
        raise InputError(
            f"sampler {name}: the accuracy isn't derived for the schedule {name.schedule}; use"
            " +linear8 or +s2_1_1"
        )

    def reveals(
        groups: Sequence[TiedCandidates], left: int, step: int
    ) -> Iterator[tuple[int, float]]:
        steps = name.schedule_steps if name.counts is None else len(name.counts)
        if step >= steps - 1:
            yield left, 1.0
        else:
            yield (
                (
                    -(-left // (steps - step))
                    if name.counts is None
                    else min(name.counts[step], left)
                ),
                1.0,
            )

    return reveals


def _threshold(name: SamplerName) -> Reveals:
    """All with confidence ≥ γ, at least one. At equality the noise decides for each position
    independently.
    """
    gamma = _parameter(name, "gamma")

    def reveals(
        groups: Sequence[TiedCandidates], left: int, step: int
    ) -> Iterator[tuple[int, float]]:
        sure = 0
        for numerator, denominator, members, lift in groups:
            confidence = Fraction(numerator, denominator)
            if confidence > gamma or (confidence == gamma and numerator == denominator):
                sure += members
            elif confidence == gamma:
                for more in range(members + 1):
                    yield (
                        max(1, sure + more),
                        comb(members, more) * lift**more * (1 - lift) ** (members - more),
                    )
                return
        yield max(1, sure), 1.0

    return reveals


def _factor(name: SamplerName) -> Reveals:
    """The largest n with (n + 1)(1 − cₙ) < f, at least one. At equality n counts if noise lifts the
    n-th confidence.
    """
    f = _parameter(name, "f")

    def reveals(
        groups: Sequence[TiedCandidates], left: int, step: int
    ) -> Iterator[tuple[int, float]]:
        remaining = 1.0
        above = left
        for numerator, denominator, members, lift in reversed(groups):
            start = above - members
            for n in range(above, start, -1):
                cost = (n + 1) * (1 - Fraction(numerator, denominator))
                holds = 1.0 if cost < f else 0.0
                if cost == f:  # the probability that at least n − start of the members are lifted
                    lifted = range(n - start, members + 1)
                    holds = sum(
                        comb(members, k) * lift**k * (1 - lift) ** (members - k) for k in lifted
                    )
                if holds:
                    yield n, remaining * holds
                    remaining *= 1 - holds
                if not remaining:
                    return
            above = start
        yield 1, remaining

    return reveals


def _parameter(name: SamplerName, word: str) -> Fraction:
    words = ("k",) if word == "k" else ("", word)
    if len(name.arguments) != 1 or name.arguments[0][0] not in words or not name.arguments[0][1]:
        usual = "k2" if word == "k" else "0.9"
        raise InputError(
            f"sampler {name}: the accuracy is derived for one parameter, such as"
            f" {name.policy}-{usual}"
        )
    return Fraction(name.arguments[0][1])
