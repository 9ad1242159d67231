"""Tunings of samplers whose loss is known, many at once: how often one is recommended.

The reference is right on 90 % of the questions; a sampler loses and gains at fixed rates on those
that it has right and wrong, independently of others. Then a round needs only counts, which are
drawn for all races together; the rules and the tests are those of the command. The choice of
docs/which-sampler.md is simulated with the same samplers and draws (`benches/which_sampler.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from pbcore.analysis.noninferiority import p_worse
from pbcore.analysis.paired import holm
from pbcore.extras.tune.questions import kept, proof_questions, round_sizes
from pbcore.extras.tune.race import LEVEL, Standing, cut

RIGHT = 0.9  # of the reference's answers
FLIPS = ((0.03, 0.0), (0.04, 0.01), (0.055, 0.025), (0.08, 0.05))  # lost and gained: 3 points worse


@dataclass(frozen=True, slots=True)
class Known:
    """A sampler that loses and gains these shares of all answers, at a share `cost` of the
    reference's forwards.
    """

    lost: float
    gained: float
    cost: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of all tunings, the share that recommends one of the watched samplers; the share in which one
    of them reached the proof; and answers taken against those of all samplers on all questions.
    """

    recommended: float
    reached: float
    taken: float


@dataclass(frozen=True, slots=True)
class Scenario:
    """Samplers, and those whose recommendation is counted."""

    name: str
    samplers: Mapping[str, Known]
    watched: Sequence[str]


def crowd(number: int, lost: float, gained: float, dearest: float = 0.9) -> dict[str, Known]:
    """Samplers of the same loss and gain, at costs spread evenly.

    Args:
        number: how many.
        lost: share of all answers that each loses.
        gained: share of all answers that each gains.
        dearest: the highest cost, as a share of the reference's forwards.
    """
    return {f"worse-{i}": Known(lost, gained, dearest * i / number) for i in range(1, number + 1)}


def all_too_bad(number: int = 40) -> list[Scenario]:
    """Fields in which all samplers are exactly 3 points worse, by few changed answers or many: a
    recommendation of any of them is an error.
    """
    scenarios = []
    for lost, gained in FLIPS:
        worse = crowd(number, lost, gained)
        shares = f"{100 * lost:g} % lost, {100 * gained:g} % gained"
        name = f"{number} samplers, all 3 points worse ({shares})"
        scenarios.append(Scenario(name, worse, list(worse)))
    return scenarios


def simulate(
    samplers: Mapping[str, Known],
    watched: Sequence[str],
    races: int,
    *,
    margin: float = 0.03,
    proof: int | None = None,
    seed: int = 0,
) -> Outcome:
    """Tunes so many times among these samplers.

    Args:
        samplers: name → what it is.
        watched: the samplers whose recommendation is counted.
        races: how many tunings.
        margin: the loss that is allowed, in score units.
        proof: questions of the proof; None: what 5 % discordant answers need.
        seed: of all draws.
    """
    generator = np.random.default_rng(seed)
    names = list(samplers)
    n_proof = proof_questions(0.05, margin) if proof is None else proof
    sizes = round_sizes(len(names), 1, n_proof)
    keep = kept(len(names))
    counts = [_flips(generator, size, races, samplers) for size in sizes]
    last = _flips(generator, n_proof, races, samplers)
    place = {name: index for index, name in enumerate(names)}
    recommended = 0
    reached = 0
    taken = 0
    every = 0
    for race in range(races):
        racing = names
        seen = np.zeros((len(names), 2), dtype=np.int64)
        n = 0
        for number, size in enumerate(sizes):
            n += size
            seen += counts[number][race]
            taken += size * (len(racing) + 1)
            standings = [
                _standing(name, samplers[name].cost, seen[place[name]], n, margin)
                for name in racing
            ]
            at_end = number == len(sizes) - 1
            racing = list(cut(standings, keep[number], margin, n_proof, at_end).stay)
            if len(racing) <= 1:
                break
        taken += n_proof * (len(racing) + 1)
        every += (len(names) + 1) * (n + n_proof)
        reached += any(name in watched for name in racing)
        flips = [map(int, last[race][place[name]]) for name in racing]
        p_values = [p_of_flips(*pair, n_proof, margin) for pair in flips]
        adjusted = holm(p_values) if racing else []
        confirmed = [name for name, p in zip(racing, adjusted, strict=True) if p <= LEVEL]
        chosen = min(confirmed, key=lambda name: samplers[name].cost, default="")
        recommended += chosen in watched
    return Outcome(recommended / races, reached / races, taken / every)


def drawn_right(generator: np.random.Generator, n: int, races: int) -> NDArray[np.int64]:
    """(races, 1): how many of n questions the reference has right."""
    return generator.binomial(n, RIGHT, (races, 1))


def drawn_flips(
    generator: np.random.Generator,
    right: NDArray[np.int64],
    n: int,
    samplers: Mapping[str, Known],
) -> NDArray[np.int64]:
    """How many answers of each sampler are newly wrong, and newly right.

    Args:
        generator: of the draws.
        right: (races, 1), how many questions the reference has right.
        n: questions of a race.
        samplers: name → what it is; their order is that of the counts.

    Returns:
        (races, samplers, 2): newly wrong ones of the `right`, newly right ones of the rest.
    """
    lost = np.array([known.lost / RIGHT for known in samplers.values()])  # (S,)
    gained = np.array([known.gained / (1 - RIGHT) for known in samplers.values()])  # (S,)
    both = (generator.binomial(right, lost), generator.binomial(n - right, gained))
    return np.stack(both, axis=-1)  # (races, S, 2)


def _flips(
    generator: np.random.Generator, n: int, races: int, samplers: Mapping[str, Known]
) -> NDArray[np.int64]:
    """(races, samplers, 2): how many of n answers are newly wrong, and newly right."""
    return drawn_flips(generator, drawn_right(generator, n, races), n, samplers)


def _standing(name: str, cost: float, flips: NDArray[np.int64], n: int, margin: float) -> Standing:
    lost, gained = map(int, flips)
    good = p_of_flips(gained, lost, n, -margin)  # the same test with all signs turned
    return Standing(name, cost, p_of_flips(lost, gained, n, margin), good, n)


def simulated_differences(lost: int, gained: int, n: int) -> list[float]:
    """Paired differences of n 0/1 scores with these counts, in any order."""
    same = n - lost - gained
    return [-1.0] * lost + [1.0] * gained + [0.0] * same


@cache
def p_of_flips(lost: int, gained: int, n: int, margin: float) -> float:
    """p of "loses the margin or more" of n 0/1 scores, of which these counts are all that
    matters.
    """
    return p_worse([simulated_differences(lost, gained, n)], margin)
