"""Slow, obvious versions of the theory: everything by listing answers and trying all that can
happen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from itertools import permutations, product
from math import log2

Answer = tuple[int, ...]
Canvas = tuple[int | None, ...]


def agreeing(answers: Sequence[Answer], canvas: Canvas) -> list[Answer]:
    return [a for a in answers if all(c is None or c == t for c, t in zip(canvas, a, strict=True))]


def entropy(answers: Sequence[Answer], positions: Sequence[int]) -> float:
    counts = Counter(tuple(a[i] for i in positions) for a in answers)
    return -sum(c / len(answers) * log2(c / len(answers)) for c in counts.values())


def total_correlation(answers: Sequence[Answer], positions: Sequence[int]) -> float:
    """Eq. 1, as it stands."""
    return sum(entropy(answers, [i]) for i in positions) - entropy(answers, positions)


def step_bound(answers: Sequence[Answer], steps: Sequence[Sequence[int]]) -> float:
    """Eq. 2, as it stands: the expected conditional total correlation of each step."""
    total = 0.0
    known = []
    for step in steps:
        groups: dict[Answer, list[Answer]] = {}
        for answer in answers:
            groups.setdefault(tuple(answer[i] for i in known), []).append(answer)
        total += sum(
            len(group) / len(answers) * total_correlation(group, list(step))
            for group in groups.values()
        )
        known += list(step)
    return total


def sampled(answers: Sequence[Answer], steps: Sequence[Sequence[int]]) -> dict[Answer, float]:
    """P_θ of every valid answer when the steps are drawn from the exact marginals."""
    result = {}
    for answer in answers:
        probability = 1.0
        canvas = [None] * len(answer)
        for step in steps:
            alive = agreeing(answers, tuple(canvas))
            for i in step:
                probability *= sum(a[i] == answer[i] for a in alive) / len(alive)
            for i in step:
                canvas[i] = answer[i]
        result[answer] = probability
    return result


def ordered_partitions(count: int, parts: int) -> list[list[list[int]]]:
    """All ways to spread positions over steps, none empty."""
    spread = product(range(parts), repeat=count)
    return [
        [[i for i in range(count) if w[i] == t] for t in range(parts)]
        for w in spread
        if set(w) == set(range(parts))
    ]


# A policy answers how many of the sorted confidences to reveal; it sorts by `score`.
Score = Callable[[int, Fraction, Sequence[Fraction]], Fraction]
Take = Callable[[Sequence[Fraction]], int]


def accuracy(
    answers: Sequence[Answer], greedy: bool, score: Score, take: Take, block: int | None = None
) -> float:
    """The ideal model's accuracy: all predictions, weighted, and all orders of tied positions."""
    length = len(answers[0])
    size = block or length

    @cache
    def value(canvas: Canvas) -> float:
        alive = agreeing(answers, canvas)
        masked = [i for i, c in enumerate(canvas) if c is None]
        if not masked or not alive:
            return float(bool(alive))
        places = [i for i in masked if i // size == masked[0] // size]
        columns = [
            {t: Fraction(c, len(alive)) for t, c in Counter(a[i] for a in alive).items()}
            for i in places
        ]
        orders = list(permutations(range(len(places))))
        total = 0.0
        for tokens in product(*(_choices(column, greedy) for column in columns)):
            chance = 1.0
            for _, p in tokens:
                chance *= float(p)
            conf = [columns[i][t] for i, (t, _) in enumerate(tokens)]
            scores = [
                score(places[i], conf[i], sorted(columns[i].values(), reverse=True))
                for i in range(len(places))
            ]
            for order in orders:
                ranked = sorted(range(len(places)), key=lambda i: (-scores[i], order[i]))
                after = list(canvas)
                for i in ranked[: max(1, take([conf[i] for i in ranked]))]:
                    after[places[i]] = tokens[i][0]
                total += chance / len(orders) * value(tuple(after))
        return total

    return value((None,) * length)


def _choices(column: dict[int, Fraction], greedy: bool) -> list[tuple[int, Fraction]]:
    if not greedy:
        return list(column.items())
    best = [t for t, p in column.items() if p == max(column.values())]
    return [(t, Fraction(1, len(best))) for t in best]
