"""How many questions the proof needs, how many the rounds have, and which: none of the proof's is
asked before.

Generated questions have no end: the rounds take the first ones, the proof those behind them. Data
that end (official samples, files, tasks of lm-evaluation-harness) are split beforehand by a draw
that depends on the task's name alone: at most a third of them race.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from pbcore.analysis.noninferiority import questions_to_settle
from pbcore.extras.tune.race import FINALISTS, LEVEL

POWER = 0.95  # of the proof alone; the race may lose a good sampler, too
SHARES = (0.05, 0.10)  # of discordant answers, for which the need is said beforehand
GROWTH = 2.2  # a round has so many times the questions of the one before, for fewer samplers
RACING = 1 / 3  # of data that end


def proof_questions(share: float, margin: float, tried: int = FINALISTS) -> int:
    """How many questions, over all tasks, show with a chance of 95 % that an equal sampler loses
    less than the margin, if this share of its answers differs from the reference's.

    Args:
        share: of the questions whose scores differ, in (0, 1).
        margin: the loss that is allowed, in score units.
        tried: how many samplers are tried, for Holm's first step.
    """
    settled = questions_to_settle(share, margin, level=LEVEL / tried, power=POWER)
    assert settled is not None, "no change stays above a loss"
    return settled


def discordance_of(questions: int, margin: float, tried: int = FINALISTS) -> float:
    """The share of discordant answers up to which so many questions are enough; 0 if not even
    answers that never differ would do.

    Args:
        questions: over all tasks.
        margin: the loss that is allowed, in score units.
        tried: how many samplers are tried, for Holm's first step.
    """
    low, high = 0.0, 1.0
    if proof_questions(low, margin, tried) > questions:
        return 0.0
    for _ in range(30):
        middle = (low + high) / 2
        if proof_questions(middle, margin, tried) <= questions:
            low = middle
        else:
            high = middle
    return low


def kept(candidates: int) -> list[int]:
    """How many samplers go on after each round, down to the finalists; no rounds where all can go
    to the proof.
    """
    if candidates <= FINALISTS:
        return []
    share = FINALISTS / candidates
    rounds = max(2, round(-math.log(share) / math.log(GROWTH)))
    return [
        math.ceil(candidates * share ** (number / rounds) - 1e-9) for number in range(1, rounds + 1)
    ]


def round_sizes(candidates: int, tasks: int, race: int) -> list[int]:
    """Questions per task of each round, each more than twice those of the one before.

    Args:
        candidates: samplers at the start.
        tasks: how many.
        race: questions of all rounds over all tasks, about what the proof needs at 5 %.
    """
    rounds = len(kept(candidates))
    growth = [GROWTH**number for number in range(rounds)]
    return [max(1, math.ceil(race * one / sum(growth) / tasks)) for one in growth]


@dataclass(frozen=True, slots=True)
class Split:
    """Task → the questions of each round, and those of the proof; each rising."""

    rounds: tuple[Mapping[str, tuple[int, ...]], ...]
    proof: Mapping[str, tuple[int, ...]]


def split(sizes: Sequence[int], proof: int, known: Mapping[str, Sequence[int] | None]) -> Split:
    """The questions of rounds and proof.

    Args:
        sizes: questions per task of each round.
        proof: questions per task of the proof.
        known: task → the numbers of all its questions; None where they have no end.

    Returns:
        The split. Of data that end a round has a smaller part where they are too few, but one
        question at least where a third of them is as many as there are rounds.
    """
    rounds: list[dict[str, tuple[int, ...]]] = [{} for _ in sizes]
    proofs: dict[str, tuple[int, ...]] = {}
    for task, numbers in known.items():
        if numbers is None:
            order = list(range(sum(sizes) + proof))
            racing = sum(sizes)
        else:
            order = list(numbers)
            Random(f"pbcore tune/{task}").shuffle(order)
            racing = min(sum(sizes), int(len(order) * RACING))
        start = 0
        for number, size in enumerate(sizes):
            following = len(sizes) - 1 - number
            part = max(1, round(size * racing / sum(sizes)))
            end = racing if not following else max(start, min(racing - following, start + part))
            rounds[number][task] = tuple(sorted(order[start:end]))
            start = end
        proofs[task] = tuple(sorted(order[racing : racing + proof]))
    return Split(tuple(rounds), proofs)
