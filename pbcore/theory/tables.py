"""Table 1 and Figure 2 of ParallelBench: the losses of the ideal model and its accuracy, as data
and as text.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import e, inf, log2

from pbcore.base.errors import InputError
from pbcore.base.tabular import Table, Value, terminal
from pbcore.theory.accuracy import LIST_OPS, MOST_ITEMS, accuracy
from pbcore.theory.bounds import optimal_bound, step_bound, total_correlation

LIMITS = {"copy": 0.0, "replace_index": 0.0, "replace_random": log2(e), "shuffle": inf}
# γ = 1/m or (m − 1)/m can equal a confidence, where the result depends on the reading of "exceeds".
# No γ below is such a value.
GAMMAS = (0.07, 0.17, 0.27, 0.37, 0.47, 0.57, 0.67, 0.77, 0.87, 0.97)
SIDES = (0.6, 0.97)


@dataclass(frozen=True, slots=True)
class Finding:
    """A row of Table 1 for one n. `limit` is C(Y|X) for n → ∞; losses in bits; greedy accuracies by
    k (`top_k`) and γ (`threshold`).
    """

    op: str
    n: int
    total_correlation: float
    limit: float
    pairs_bound: float
    top_k: dict[int, float]
    threshold: dict[float, float]


@dataclass(frozen=True, slots=True)
class FigurePoint:
    """One point of Figure 2: `panel` a to e, and the expected accuracy of the ideal model."""

    panel: str
    op: str
    n: int
    sampler: str
    accuracy: float


@dataclass(frozen=True, slots=True)
class Equality:
    """Accuracy of greedy `replace_random` at γ = (n − 1)/n, every position's confidence. `exceed`:
    a confidence must exceed γ (the paper's wording); `reach`: it may equal γ (the reference code);
    `noise`: the limit of small noise, which puts each position above or below γ.
    """

    exceed: float
    reach: float
    noise: float


def equality(n: int) -> Equality:
    """The accuracies of the three readings at γ = (n − 1)/n. Raises InputError for n < 3, where all
    is tied at ½.
    """
    if type(n) is not int or n < 3:
        raise InputError(f"n = {n!r}: the equality needs lists of at least 3 items")
    confidence = (n - 1) / n
    above = accuracy("replace_random", n, f"threshold-{confidence + 1e-6:.8f}")
    below = accuracy("replace_random", n, f"threshold-{confidence - 1e-6:.8f}")
    return Equality(exceed=above, reach=below, noise=1 - 2.0**-n)


def table1(n: int = 10, gammas: Sequence[float] = SIDES) -> list[Finding]:
    """Table 1 for lists of n, a row per operation; `pairs_bound` is L_T for two tokens a step.
    Raises InputError for n < 2.
    """
    if type(n) is not int or n < 2:
        raise InputError(f"n = {n!r}: Table 1 needs lists of at least 2 items")
    pairs = [2] * (n // 2) + [1] * (n % 2)
    rows = []
    for op in LIST_OPS:
        finding = Finding(
            op=op,
            n=n,
            total_correlation=total_correlation(op, n),
            limit=LIMITS[op],
            pairs_bound=step_bound(op, n, pairs),
            top_k={k: accuracy(op, n, f"confidence-k{k}") for k in sorted({1, 2, 3, n})},
            threshold={gamma: accuracy(op, n, f"threshold-{gamma:g}") for gamma in gammas},
        )
        rows.append(finding)
    return rows


def figure2(
    lengths: Sequence[int] = range(2, 17), n: int = 10, gammas: Sequence[float] = GAMMAS
) -> list[FigurePoint]:
    """The curves of Figure 2.

    Panels: (a) shuffle τ = 1, (b) τ = 0, (c) replace_random τ = 1, (d) τ = 0, random top-k with
    k = 1, 2, n over the lengths; (e) both under the confidence threshold.

    Args:
        lengths: the list lengths of panels a to d.
        n: the list length of panel e.
        gammas: its thresholds; the default ones avoid the confidences of greedy decoding, 1/m and
            (m − 1)/m, where the result depends on noise.
    """
    panels = {
        "a": ("shuffle", "+t1.0"),
        "b": ("shuffle", ""),
        "c": ("replace_random", "+t1.0"),
        "d": ("replace_random", ""),
    }
    points = []
    for panel, (op, heat) in panels.items():
        for length in lengths:
            for k in sorted({1, 2, length}):
                points.append(_point(panel, op, length, f"random-k{k}{heat}"))
    for op in ("shuffle", "replace_random"):
        for gamma in gammas:
            points.append(_point("e", op, n, f"threshold-{gamma:g}"))
    return points


def _point(panel: str, op: str, n: int, sampler: str) -> FigurePoint:
    return FigurePoint(panel, op, n, sampler, accuracy(op, n, sampler))


def report(n: int) -> str:
    """The closed forms for lists of n, as `pbcore figures theory` prints them. Raises InputError
    for n < 2 and n > 200.
    """
    if n > MOST_ITEMS:
        raise InputError(
            f"--n {n}: the exact accuracies go up to n = {MOST_ITEMS}; give a smaller n"
        )
    parts = [
        (
            f"List operations, n = {n}: bits lost in one step and in pairs, accuracy of the ideal"
            " model (greedy)"
        ),
        terminal(_operations(n)),
        f"\nLeast bits lost in T steps, L*_T, n = {n}",
        terminal(_least_losses(n)),
        "\nAccuracy of the ideal model by sampler (Figure 2)",
        terminal(_samplers(n)),
    ]
    if n > 2:
        at = equality(n)
        parts.append(
            f"\nNo γ above equals a confidence. At γ = {n - 1}/{n} the accuracy of replace_random"
            f" is {at.exceed:g} if confidences must exceed γ\n(the paper), {at.reach:g} if they may"
            f" equal it (the reference code), {at.noise:.5f} in the limit of small noise."
        )
    return "\n".join(parts)


def _operations(n: int) -> Table:
    """Table 1 for lists of n."""
    findings = table1(n)
    head = ["operation", "C(Y|X)", "n → ∞", "L, pairs"]
    head += [f"greedy k={k}" for k in findings[0].top_k]
    head += [f"γ={gamma:g}" for gamma in findings[0].threshold]
    rows = []
    for finding in findings:
        row: list[Value] = [
            finding.op,
            finding.total_correlation,
            finding.limit,
            finding.pairs_bound,
        ]
        row += finding.top_k.values()
        row += finding.threshold.values()
        rows.append(row)
    return Table(head, rows, forms=".4g")


def _least_losses(n: int) -> Table:
    """L*_T of lists of n, for a few T from 1 to n."""
    candidates = {1, 2, 3, n // 2, n - 1, n}
    steps = sorted(T for T in candidates if 1 <= T <= n)
    head = ["operation"]
    head += [f"T={T}" for T in steps]
    rows = []
    for op in ("replace_random", "shuffle"):
        row: list[Value] = [op]
        row += [optimal_bound(op, n, T) for T in steps]
        rows.append(row)
    return Table(head, rows, forms=".4f")


def _samplers(n: int) -> Table:
    """The points of Figure 2 for lists of n, a row per sampler."""
    accuracies = {(point.sampler, point.op): point.accuracy for point in figure2((n,), n)}
    samplers = dict.fromkeys(sampler for sampler, _ in accuracies)
    rows: list[list[Value]] = []
    for sampler in samplers:
        shuffle = accuracies.get((sampler, "shuffle"))
        replace_random = accuracies.get((sampler, "replace_random"))
        rows.append([sampler, shuffle, replace_random])
    return Table(["sampler", "shuffle", "replace_random"], rows, forms=".5f")
