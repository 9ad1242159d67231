"""The speed–quality curves of some cells, as the plots and the page draw them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import isnan

from pbcore.analysis.tradeoff import (
    MeanPoint,
    Point,
    by_method,
    complete,
    fronts,
    leading,
    mean_interval,
    mean_points,
    pareto,
)
from pbcore.report.axes import STEPS, Axis
from pbcore.report.cells import is_elsewhere
from pbcore.report.looks import FULL
from pbcore.report.rows import CellRow, scored, undummied
from pbcore.report.scopes import average

DIGITS = 7  # significant ones of a number: what differs beyond them is the same


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """A sampler's means over tasks: its rate (its value on the axis of speed), its score in % with
    its 95 % interval, whether it is on its model's Pareto front, and the ceiling in %. NaN where
    one isn't known.
    """

    sampler: str
    rate: float
    score: float
    low: float
    high: float
    on_front: bool
    ceiling: float
    cells: Sequence[CellRow]

    @property
    def has_lid(self) -> bool:
        """Whether the ceiling is below 100 %."""
        return self.ceiling < FULL


@dataclass(frozen=True, slots=True)
class Curve:
    """A model's samplers of one method, by rising rate; `leads` if it is one of those that
    a plot of few curves shows.
    """

    model: str
    method: str
    points: tuple[CurvePoint, ...]
    leads: bool


@dataclass(frozen=True, slots=True)
class Level:
    """The score in %, with its interval, of a model that reports no rate."""

    model: str
    sampler: str
    score: float
    low: float
    high: float

    @property
    def name(self) -> str:
        """Model and sampler."""
        return f"{self.model} · {self.sampler}"


@dataclass(frozen=True, slots=True)
class SpeedQuality:
    """What a plot of quality over speed shows: curves by model and method, levels of models
    that report no rate, and over how many tasks the points are means, each number once.
    """

    curves: tuple[Curve, ...]
    levels: tuple[Level, ...]
    tasks: tuple[int, ...]

    @property
    def models(self) -> list[str]:
        """The models of the curves."""
        return list(dict.fromkeys(curve.model for curve in self.curves))

    @property
    def methods(self) -> list[str]:
        """The methods of the curves."""
        return list(dict.fromkeys(curve.method for curve in self.curves))

    def of(self, model: str) -> list[Curve]:
        """A model's curves."""
        return [curve for curve in self.curves if curve.model == model]

    def front(self, model: str) -> list[tuple[float, float]]:
        """(rate, score) of a model's Pareto front, by rising rate."""
        points = [point for curve in self.of(model) for point in curve.points]
        return sorted({(point.rate, point.score) for point in points if point.on_front})

    @property
    def points(self) -> list[CurvePoint]:
        """Those of all curves."""
        return [point for curve in self.curves for point in curve.points]

    @property
    def highest(self) -> float:
        """The highest rate; 1 without points."""
        return max((point.rate for point in self.points), default=1.0)

    @property
    def lowest(self) -> float:
        """The lowest rate; 1 without points."""
        return min((point.rate for point in self.points), default=1.0)

    @property
    def has_lids(self) -> bool:
        """Whether a ceiling is below 100 %."""
        return any(point.has_lid for point in self.points)


def speed_quality(
    cells: Iterable[CellRow],
    most: int | None = None,
    axis: Axis = STEPS,
    by_policy: bool = False,
) -> SpeedQuality:
    """The curves of some cells with their ceilings, each model's Pareto front, and the levels of
    models elsewhere that report no rate; only those with a score for every task.

    Args:
        cells: what is drawn; failed cells and dummies are left out.
        most: how many curves lead; None for all.
        axis: of speed.
        by_policy: whether each policy is one curve, its Pareto front over blocks and modifiers.
    """
    drawn = drawn_cells(cells, axis)
    points = mean_points(drawn, axis.key)
    places = {names: list(map(_place, line)) for names, line in by_method(points).items()}
    best = fronts(places, axis.is_cost)
    leaders = set(places) if most is None else leading(places, most, axis.is_cost)
    shown = _best_by_policy(points, axis) if by_policy else points
    lines = []
    for (model, kind), line in by_method(shown).items():
        curve = tuple(_point(point, _place(point) in best[model]) for point in line)
        lines.append(Curve(model, kind, curve, by_policy or (model, kind) in leaders))
    counts = sorted({len(point.cells) for point in points})
    return SpeedQuality(tuple(lines), tuple(_levels(drawn, axis)), tuple(counts))


def drawn_cells(cells: Iterable[CellRow], axis: Axis) -> list[CellRow]:
    """The cells with a score that have a value on the axis, then those that are silent there."""
    measured = scored(undummied(cells))
    on_axis = [row for row in measured if axis.of(row) > 0]
    return [*on_axis, *(row for row in measured if is_silent(row, axis))]


def is_silent(row: CellRow, axis: Axis) -> bool:
    """Whether a cell is of a model elsewhere that doesn't report its value on the axis."""
    return is_elsewhere(row) and isnan(axis.of(row))


def _place(point: MeanPoint) -> Point:
    return significant(point.rate), significant(point.score)


def significant(value: float) -> float:
    """A number without what differs by rounding alone."""
    return float(f"{value:.{DIGITS}g}")


def _point(point: MeanPoint, on_front: bool) -> CurvePoint:
    cells: Sequence[CellRow] = point.cells
    return CurvePoint(
        sampler=point.sampler,
        rate=point.rate,
        score=point.score,
        low=point.low,
        high=point.high,
        on_front=on_front,
        ceiling=average([cell["ceiling"] for cell in cells], len(cells)),
        cells=cells,
    )


def _best_by_policy(points: Iterable[MeanPoint], axis: Axis) -> list[MeanPoint]:
    """The points of a grid with many methods: each policy's Pareto front, under the policy's
    name.
    """
    named = [replace(point, method=point.method.split("+")[0]) for point in points]
    best = []
    for _, line in sorted(by_method(named).items()):
        at = {(point.rate, point.score): point for point in reversed(line)}
        best += [at[place] for place in pareto(at, axis.is_cost)]
    return best


def _levels(cells: Sequence[CellRow], axis: Axis) -> list[Level]:
    """The scores of models elsewhere without a value on the axis, with one for every task.

    Args:
        cells: those that are drawn.
        axis: of speed.
    """
    silent = [row for row in cells if is_silent(row, axis)]
    named = ((row["model"], row["task"], row["sampler"], row) for row in silent)
    levels = []
    for (model, sampler), group in complete(named, {row["task"] for row in cells}).items():
        scores = [(row["score"], row["low"], row["high"]) for row in group]
        levels.append(Level(model, sampler, *mean_interval(scores)))
    return levels
