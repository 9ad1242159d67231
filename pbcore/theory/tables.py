"""Table 1 and Figure 2 of ParallelBench as data: what the ideal model must lose, and how accurate it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import e, inf, log2

from pbcore.theory.accuracy import LIST_OPS, accuracy
from pbcore.theory.bounds import step_bound, total_correlation

LIMITS = {"copy": 0.0, "replace_index": 0.0, "replace_random": log2(e), "shuffle": inf}
GAMMAS = (0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.95)


@dataclass(frozen=True, slots=True)
class Finding:
    """A row of Table 1 for one n. `limit` is C(Y|X) for n → ∞; accuracies are greedy, by k and by γ; bits throughout."""

    op: str
    n: int
    total_correlation: float
    limit: float
    pairs_bound: float
    top_k: dict[int, float]
    threshold: dict[float, float]


@dataclass(frozen=True, slots=True)
class Point:
    """One point of Figure 2: `panel` a to e, and the expected accuracy of the ideal model."""

    panel: str
    op: str
    n: int
    sampler: str
    accuracy: float


def table1(n: int = 10, gammas: Sequence[float] = (0.6, 0.95)) -> list[Finding]:
    """Table 1 for lists of n: a row per operation. `pairs_bound` is L_T for two tokens a step. Raises ValueError for n < 2."""
    if type(n) is not int or n < 2:
        raise ValueError(f"Table 1 is about lists of at least 2 items, not n = {n!r}")
    pairs = [2] * (n // 2) + [1] * (n % 2)
    return [
        Finding(
            op,
            n,
            total_correlation(op, n),
            LIMITS[op],
            step_bound(op, n, pairs),
            {k: accuracy(op, n, f"confidence-k{k}") for k in sorted({1, 2, 3, n})},
            {gamma: accuracy(op, n, f"threshold-{gamma:g}") for gamma in gammas},
        )
        for op in LIST_OPS
    ]


def figure2(lengths: Sequence[int] = range(2, 17), n: int = 10, gammas: Sequence[float] = GAMMAS) -> list[Point]:
    """Figure 2's curves: (a) shuffle τ = 1, (b) τ = 0, (c) replace_random τ = 1, (d) τ = 0, random top-k with k = 1, 2, n over `lengths`;
    (e) both under the confidence threshold at `n`. The default γ keep off the equality with (n − 1)/n, where noise decides."""
    panels = (
        ("a", "shuffle", "+t1.0"),
        ("b", "shuffle", ""),
        ("c", "replace_random", "+t1.0"),
        ("d", "replace_random", ""),
    )
    points = [
        Point(panel, op, length, f"random-k{k}{heat}", accuracy(op, length, f"random-k{k}{heat}"))
        for panel, op, heat in panels
        for length in lengths
        for k in sorted({1, 2, length})
    ]
    for op in ("shuffle", "replace_random"):
        points += [
            Point("e", op, n, f"threshold-{gamma:g}", accuracy(op, n, f"threshold-{gamma:g}")) for gamma in gammas
        ]
    return points
