"""Slow, obvious search over everything that a sampler can do: canvas by canvas, no state is shared
by symmetry.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain, combinations, product
from math import log2, prod

from tests.theory.twins import Answer, Canvas, agreeing

Marginal = dict[int, float]


def marginals(answers: Sequence[Answer], canvas: Canvas, greedy: bool) -> list[Marginal]:
    """Each position's tokens with their chance; greedily the likeliest, by lot where several
    are.
    """
    alive = agreeing(answers, canvas)
    columns = [Counter(answer[i] for answer in alive) for i in range(len(canvas))]
    if greedy:
        columns = [
            Counter(t for t, c in column.items() if c == max(column.values())) for column in columns
        ]
    return [{t: c / column.total() for t, c in column.items()} for column in columns]


def hidden(canvas: Canvas) -> list[int]:
    return [i for i, token in enumerate(canvas) if token is None]


def subsets(places: Sequence[int]) -> list[tuple[int, ...]]:
    return list(
        chain.from_iterable(combinations(places, size) for size in range(1, len(places) + 1))
    )


def filled(canvas: Canvas, places: Sequence[int], tokens: Sequence[int]) -> Canvas:
    after = list(canvas)
    for place, token in zip(places, tokens, strict=True):
        after[place] = token
    return tuple(after)


def drawn(
    columns: Sequence[Marginal], places: Sequence[int]
) -> list[tuple[tuple[int, ...], float]]:
    """All tokens that these positions can take, with the chance of each combination."""
    return [
        (tokens, prod(columns[i][t] for i, t in zip(places, tokens, strict=True)))
        for tokens in product(*(columns[i] for i in places))
    ]


def best(
    answers: Sequence[Answer], greedy: bool, seen: bool, price: float, T: int | None = None
) -> float:
    """The most that a sampler can reach of accuracy less `price` per step, in at most T steps
    (None: any number).
    """

    @cache
    def value(canvas: Canvas, left: int) -> float:
        masked = hidden(canvas)
        alive = agreeing(answers, canvas)
        if not masked:
            return float(bool(alive))
        if left == 0:
            return -1e9
        if not alive:
            return -price  # one step ends it
        columns = marginals(answers, canvas, greedy)
        if seen:
            return -price + sum(
                chance
                * max(
                    value(filled(canvas, kept, [tokens[masked.index(i)] for i in kept]), left - 1)
                    for kept in choices
                )
                for tokens, chance in drawn(columns, masked)
                for choices in [subsets(masked)]
            )
        return -price + max(
            sum(
                chance * value(filled(canvas, places, tokens), left - 1)
                for tokens, chance in drawn(columns, places)
            )
            for places in subsets(masked)
        )

    return value((None,) * len(answers[0]), len(answers[0]) if T is None else T)


Tree = dict[Answer, float]


def trees(answers: Sequence[Answer], T: int) -> Iterator[Tree]:
    """Every decision tree of at most T steps, one by one, as the probability with which it writes
    each answer.
    """

    def below(canvas: Canvas, left: int) -> Iterator[Tree]:
        masked = hidden(canvas)
        alive = agreeing(answers, canvas)
        if not masked:
            yield {alive[0]: 1.0}
            return
        columns = marginals(answers, canvas, greedy=False)
        for places in subsets(masked) if left > 1 else [tuple(masked)]:
            right = {tuple(answer[i] for i in places) for answer in alive}
            outcomes = [
                (tokens, chance) for tokens, chance in drawn(columns, places) if tokens in right
            ]
            for parts in product(
                *(list(below(filled(canvas, places, tokens), left - 1)) for tokens, _ in outcomes)
            ):
                yield {
                    a: chance * q
                    for (_, chance), part in zip(outcomes, parts, strict=True)
                    for a, q in part.items()
                }

    yield from below((None,) * len(answers[0]), T)


def divergence(answers: Sequence[Answer], tree: Tree) -> float:
    """KL(data ‖ sampler) in bits, as it stands."""
    return -sum(log2(len(answers) * tree[answer]) for answer in answers) / len(answers)
