"""The trade-off between speed and quality: curves per method, Pareto front, PBx and AUP
(arXiv 2510.04767, 2601.07568).
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, TypeVar

import numpy as np

from pbcore.analysis.order import method_of, natural
from pbcore.base.errors import InputError
from pbcore.base.grouping import grouped
from pbcore.results.table_row import Row

Point = tuple[float, float]
RowOfCell = TypeVar("RowOfCell", bound=Row)
ScoreInterval = tuple[float, float, float]  # score, low, high
AUP_DROP = 5.0
DIGITS = 7  # significant ones of a number: what differs beyond them is the same
AUP_ALPHA = 3.0


def pbx(points: Iterable[Point], level: float, interpolate: bool = False) -> float | None:
    """The largest tokens per step at which the mean score is high enough.

    Args:
        points: (tokens per step, mean score in %).
        level: the score to reach, in %.
        interpolate: whether to interpolate linearly between neighbouring points, as the 2026
            rewrite's leaderboard does; else only measured points count.

    Returns:
        Tokens per step; None if `level` is never reached.

    Raises:
        InputError: for a value that is not finite or a rate that is not positive.
    """
    best = _best_per_rate(points)
    reaching = [i for i, (_, score) in enumerate(best) if score >= level]
    if not reaching:
        return None
    last = reaching[-1]
    x0, y0 = best[last]
    if not interpolate or last + 1 == len(best):
        return x0
    x1, y1 = best[last + 1]
    return x0 + (x1 - x0) * (y0 - level) / (y0 - y1)


def aup(points: Iterable[Point], y_max: float | None = None) -> float:
    """Accuracy under parallelism (arXiv 2601.07568): the area under score over rate, with weights
    that fall exponentially with lost score.

    For points (ρᵢ, yᵢ) sorted by rate, without those below y₁ − 5: AUP = ρ₁y₁ + ½ Σ (ρᵢ −
    ρᵢ₋₁)(yᵢW(yᵢ) + yᵢ₋₁W(yᵢ₋₁)), W(y) = min(e^{−3(1 − y/y_max)}, 1).

    Args:
        points: (tokens per forward, score in %).
        y_max: the best score of any method on the task, in %; None: the best of these points.

    Raises:
        InputError: for no points or values as in `pbx`.
    """
    best = _best_per_rate(points)
    if not best:
        raise InputError("aup needs at least one point (tokens per forward, score in %)")
    top = max(y for _, y in best) if y_max is None else float(y_max)
    if not math.isfinite(top) or top < 0:
        raise InputError(f"y_max is {y_max}; give the best score of any method in %")
    least = best[0][1] - AUP_DROP
    rates, scores = np.array([(x, y) for x, y in best if y >= least]).T
    weights = np.ones_like(scores)
    if top > 0:
        weights = np.minimum(np.exp(-AUP_ALPHA * (1 - scores / top)), 1.0)
    return float(rates[0] * scores[0] + np.trapezoid(scores * weights, rates))


def pareto(points: Iterable[Point], fewer: bool = False) -> list[Point]:
    """The Pareto front of (rate, score), by rising rate.

    Args:
        fewer: whether the rate is a cost, of which less is better.
    """
    sign = -1 if fewer else 1

    def speed_and_score(point: Point) -> Point:
        rate, score = point
        return sign * rate, score

    front: list[Point] = []
    for x, y in sorted(set(points), key=speed_and_score, reverse=True):
        if not front or y > front[-1][1]:
            front.append((x, y))
    return front if fewer else front[::-1]


@dataclass(frozen=True, slots=True)
class MeanPoint:
    """A sampler's means over the tasks of its model: `rate` on the axis of speed, the score in %
    with its interval as in `mean_interval`; NaN where one isn't known. `cells` are those that it is
    the mean of.
    """

    model: str
    method: str
    sampler: str
    rate: float
    score: float
    low: float
    high: float
    cells: Sequence[Any]

    @property
    def name(self) -> str:
        """Model and sampler."""
        return f"{self.model} · {self.sampler}"

    @property
    def place(self) -> Point:
        """Rate and score, without what differs by rounding alone."""
        return significant(self.rate), significant(self.score)

    @property
    def ceiling(self) -> float:
        """The mean ceiling in %."""
        return fmean(cell["ceiling"] for cell in self.cells)


def significant(value: float) -> float:
    """A number without what differs by rounding alone."""
    return float(f"{value:.{DIGITS}g}")


def mean_point(cells: Sequence[Row], rate: str) -> MeanPoint:
    """The means of a sampler's cells, each of which weighs the same.

    Args:
        cells: rows of one model and sampler.
        rate: the key of their value on the axis of speed.
    """
    score, low, high = mean_interval([(row["score"], row["low"], row["high"]) for row in cells])
    return MeanPoint(
        model=cells[0]["model"],
        method=method_of(cells[0]["sampler"]),
        sampler=cells[0]["sampler"],
        rate=fmean(row[rate] for row in cells),
        score=score,
        low=low,
        high=high,
        cells=cells,
    )


def mean_points(cells: Iterable[Row], rate: str) -> list[MeanPoint]:
    """Trade-off curves: a point per model and sampler, sorted along each curve.

    Left out are dummy models, failed cells, cells without a positive rate, and samplers without a
    score for one of the model's tasks (means over different tasks can't be compared).

    Args:
        cells: rows with model, task, sampler, status, dummy, score, low and high (in %); NaN where
            a number wasn't measured.
        rate: the key of how fast a cell is, or what an answer costs.

    Raises:
        InputError: a cell occurs twice.
    """
    usable: dict[tuple[str, str, str], Row] = {}
    repeated = []
    for row in cells:
        ran = row["status"] == "ok" and not row["dummy"] and not math.isnan(row["score"])
        if ran and row.get(rate, math.nan) > 0:
            place = row["model"], row["task"], row["sampler"]
            if usable.setdefault(place, row) is not row:
                repeated.append(row["id"])
    if repeated:
        raise InputError(
            f"{len(repeated)} cells occur twice (first: {repeated[0]}); give the cells of one run"
            " at a time"
        )
    groups = complete(usable.values()).values()
    return sorted((mean_point(group, rate) for group in groups), key=_along)


def curve_rows(cells: Iterable[Row], rate: str = "tokens_per_step") -> list[dict[str, Any]]:
    """`mean_points` as the rows of a table: model, family, sampler, `rate`, score, low, high,
    tasks.
    """
    rows = []
    for point in mean_points(cells, rate):
        rows.append(
            {
                "model": point.model,
                "family": point.method,
                "sampler": point.sampler,
                rate: point.rate,
                "score": point.score,
                "low": point.low,
                "high": point.high,
                "tasks": len(point.cells),
            }
        )
    return rows


def _along(point: MeanPoint) -> tuple[Any, ...]:
    return point.model, point.method, point.rate, natural(point.sampler)


def by_method(points: Iterable[MeanPoint]) -> dict[tuple[str, str], list[MeanPoint]]:
    """(model, method) → its curve."""
    return grouped(points, lambda point: (point.model, point.method))


def complete(
    cells: Iterable[RowOfCell], tasks: Collection[str] | None = None
) -> dict[tuple[str, str], list[RowOfCell]]:
    """The cells of each model and sampler that has one for every task, in their order.

    Args:
        cells: rows with model, task and sampler.
        tasks: the tasks; None: those that some sampler of the model has.
    """
    groups = grouped(cells, lambda row: (row["model"], row["sampler"]))
    known: dict[str, set[str]] = {}
    for (model, _), group in groups.items():
        known.setdefault(model, set()).update(row["task"] for row in group)
    whole = {}
    for names, group in groups.items():
        if len(group) == len(known[names[0]] if tasks is None else tasks):
            whole[names] = group
    return whole


def fronts(
    lines: Mapping[tuple[str, str], Iterable[Point]], fewer: bool = False
) -> dict[str, set[Point]]:
    """Model → the points of its Pareto front.

    Args:
        lines: the (rate, score) of each model's methods.
        fewer: whether rates are costs.
    """
    by_model: dict[str, list[Point]] = {}
    for (model, _), points in lines.items():
        by_model.setdefault(model, []).extend(points)
    return {model: set(pareto(points, fewer)) for model, points in by_model.items()}


def leading(
    lines: Mapping[tuple[str, str], Sequence[Point]], count: int, fewer: bool = False
) -> set[tuple[str, str]]:
    """(model, method) of the curves that have most points on their model's Pareto front, then the
    greatest score × log₂(1 + rate), or score / log₂(1 + rate) where the rate is a cost.

    Args:
        lines: the (rate, score) of each model's methods.
        count: how many curves.
        fewer: whether rates are costs.
    """
    best = fronts(lines, fewer)
    ranked = []
    power = -1 if fewer else 1
    for names, points in lines.items():
        worth = max(score * math.log2(1 + x) ** power for x, score in points)
        ranked.append((-len(best[names[0]] & set(points)), -worth, names))
    return {names for _, _, names in sorted(ranked)[:count]}


def pbx_rows(
    points: Iterable[MeanPoint],
    levels: Sequence[float] = (60, 70, 80, 90),
    interpolate: bool = False,
) -> list[dict[str, Any]]:
    """PBx per model and method: model, family, PB60 … in tokens per step; None where never
    reached.

    Args:
        points: of curves over tokens per step.
        levels: the scores to reach, in %.
        interpolate: as of `pbx`.
    """
    rows = []
    for (model, name), line in by_method(points).items():
        row: dict[str, Any] = {"model": model, "family": name}
        reached = [(point.rate, point.score) for point in line]
        for level in levels:
            row[f"PB{level:g}"] = pbx(reached, level, interpolate)
        rows.append(row)
    return rows


def best_by_policy(points: Iterable[MeanPoint], fewer: bool) -> list[MeanPoint]:
    """The points of a grid with many methods: each policy's Pareto front, under the policy's
    name.
    """
    named = [replace(point, method=point.method.split("+")[0]) for point in points]
    best = []
    for _, line in sorted(by_method(named).items()):
        at = {(point.rate, point.score): point for point in reversed(line)}
        best += [at[place] for place in pareto(at, fewer)]
    return best


def mean_interval(
    scores: Sequence[ScoreInterval], weights: Sequence[int] | None = None
) -> ScoreInterval:
    """The mean of (score, low, high), weighted or plain, with its 95 % interval, from independent
    ones (MOVER, Zou and Donner 2008); NaN without.
    """
    sizes = [1] * len(scores) if weights is None else weights
    weighed = list(zip(sizes, scores, strict=True))
    total = sum(sizes)
    mean = sum(size * score for size, (score, _, _) in weighed) / total
    squares_below = sum((size * (score - low)) ** 2 for size, (score, low, _) in weighed)
    squares_above = sum((size * (high - score)) ** 2 for size, (score, _, high) in weighed)
    below = math.sqrt(squares_below) / total
    above = math.sqrt(squares_above) / total
    return mean, mean - below, mean + above


def _best_per_rate(points: Iterable[Point]) -> list[Point]:
    """The best point at each rate, by rising rate."""
    best: dict[float, float] = {}
    for rate, score in points:
        x = float(rate)
        y = float(score)
        if not (math.isfinite(x) and math.isfinite(y)) or x <= 0:
            raise InputError(
                f"point ({rate}, {score}): need a positive rate and a finite score in %"
            )
        best[x] = max(y, best.get(x, y))
    return sorted(best.items())
