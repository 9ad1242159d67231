"""The number of positions that a sampler reveals in one step, given its candidates in groups of equal confidence."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import comb

from pbcore.errors import InputError
from pbcore.names import SamplerName

# (numerator, denominator, members, probability that the noise lifts a member above num/den), highest confidence first.
Group = tuple[int, int, int, float]
Counts = Callable[[Sequence[Group], int, int], Iterator[tuple[int, float]]]

BLIND = ("random", "left_to_right", "margin", "entropy")
STATIC = (*BLIND, "confidence")
ADAPTIVE = ("threshold", "factor")


@dataclass(frozen=True)
class Rule:
    """A sampler's decoding rule in the theory.

    `reveals(groups, candidates, step)` yields (number revealed, probability); the most confident are revealed first.
    `blind`: the choice of positions doesn't depend on the drawn tokens. `block` is None for one block.
    """

    reveals: Counts
    blind: bool
    block: int | None
    temperature: float

    @property
    def greedy(self) -> bool:
        return self.temperature == 0

    def tempered(self, one: float, others: float) -> float:
        """The probability of `one` against `others` (unnormalised) at this temperature."""
        ratio: float = (one / others) ** (1 / self.temperature)
        return ratio / (1 + ratio)


def rule(name: SamplerName) -> Rule:
    """The rule of a sampler name. Raises InputError for samplers without a derivation."""
    gap, adas = f"gap{name.gap}" if name.gap else "", "" if name.adas is None else f"adas{name.adas:g}"
    extra = name.cache or name.remask or adas or name.together or gap
    if extra:
        raise InputError(
            f"sampler {name}: no accuracy is derived for caches, remasking, ADAS, joint draws or gaps; leave +{extra} "
            "out"
        )
    if name.policy in STATIC:
        counts = _static(name)
    elif name.policy == "threshold":
        counts = _threshold(_parameter(name, ("", "gamma")))
    elif name.policy == "factor":
        counts = _factor(_parameter(name, ("", "f")))
    else:
        raise InputError(
            f"sampler {name}: the accuracy is derived for {', '.join((*STATIC, *ADAPTIVE))}; for others decode with "
            "the model `ideal`"
        )
    if name.policy in ADAPTIVE and (name.counts is not None or name.schedule):
        raise InputError(
            f"sampler {name}: {name.policy} determines the number of tokens itself; leave the schedule out"
        )
    return Rule(counts, name.policy in BLIND, name.block, name.temperature)


def _static(name: SamplerName) -> Counts:
    """Top-k, or a schedule; the last step of a schedule reveals all that is left."""
    if name.counts is not None or name.schedule is not None:
        if name.arguments:
            raise InputError(f"sampler {name}: give k or a schedule, not both")
        if name.schedule not in (None, "linear"):
            raise InputError(
                f"sampler {name}: the accuracy isn't derived for the schedule {name.schedule}; use +linear8 or +s2_1_1"
            )
        return lambda groups, left, step: iter([(_scheduled(name, left, step), 1.0)])
    k = _parameter(name, ("k",))
    if k.denominator != 1 or k < 1:
        raise InputError(f"sampler {name}: k is the number of tokens per step, a whole number of at least 1")
    return lambda groups, left, step: iter([(min(int(k), left), 1.0)])


def _scheduled(name: SamplerName, left: int, step: int) -> int:
    """`+s…` as given; `+linearS` reveals ⌊m/S⌋ + [i < m mod S], which equals ⌈left / steps left⌉."""
    if name.counts is not None:
        return left if step >= len(name.counts) - 1 else min(name.counts[step], left)
    return left if step >= name.schedule_steps - 1 else -(-left // (name.schedule_steps - step))


def _threshold(gamma: Fraction) -> Counts:
    """All with confidence ≥ γ, at least one. At equality the noise decides for each position independently."""

    def counts(groups: Sequence[Group], left: int, step: int) -> Iterator[tuple[int, float]]:
        sure = 0
        for numerator, denominator, members, lift in groups:
            confidence = Fraction(numerator, denominator)
            if confidence > gamma or (confidence == gamma and numerator == denominator):
                sure += members
            elif confidence == gamma:
                for more in range(members + 1):
                    yield max(1, sure + more), comb(members, more) * lift**more * (1 - lift) ** (members - more)
                return
        yield max(1, sure), 1.0

    return counts


def _factor(f: Fraction) -> Counts:
    """The largest n with (n + 1)(1 − cₙ) < f, at least one.

    At equality n counts if the noise lifts the n-th confidence.
    """

    def counts(groups: Sequence[Group], left: int, step: int) -> Iterator[tuple[int, float]]:
        remaining, above = 1.0, left
        for numerator, denominator, members, lift in reversed(groups):
            start = above - members
            for n in range(above, start, -1):
                cost = (n + 1) * (1 - Fraction(numerator, denominator))
                holds = 1.0 if cost < f else _at_least(n - start, members, lift) if cost == f else 0.0
                if holds:
                    yield n, remaining * holds
                    remaining *= 1 - holds
                if not remaining:
                    return
            above = start
        yield 1, remaining

    return counts


def _at_least(least: int, members: int, chance: float) -> float:
    """The probability that at least `least` of `members` independent events happen."""
    return sum(comb(members, k) * chance**k * (1 - chance) ** (members - k) for k in range(least, members + 1))


def _parameter(name: SamplerName, words: tuple[str, ...]) -> Fraction:
    """The policy's one parameter, exactly as written."""
    if len(name.arguments) != 1 or name.arguments[0][0] not in words or not name.arguments[0][1]:
        usual = "k2" if words == ("k",) else "0.9"
        raise InputError(f"sampler {name}: the accuracy is derived for one parameter, such as {name.policy}-{usual}")
    return Fraction(name.arguments[0][1])
