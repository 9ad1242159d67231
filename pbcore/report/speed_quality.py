"""The speed–quality curves of some cells, as the plots and the page draw them."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan

from pbcore.analysis.tradeoff import (
    MeanPoint,
    Point,
    best_by_policy,
    by_method,
    complete,
    fronts,
    leading,
    mean_point,
    mean_points,
)
from pbcore.report.axes import STEPS, Axis
from pbcore.report.cells import is_elsewhere
from pbcore.report.looks import FULL
from pbcore.report.rows import CellRow, scored, undummied


@dataclass(frozen=True, slots=True)
class Curve:
    """A model's samplers of one method, by rising rate; `leads` if it is one of those that
    a plot of few curves shows.
    """

    model: str
    method: str
    points: Sequence[MeanPoint]
    leads: bool


@dataclass(frozen=True, slots=True)
class SpeedQuality:
    """What a plot of quality over speed shows: its cells, curves by model and method, levels of
    models that report no rate, over how many tasks the points are means, each number once, and the
    places of each model's Pareto front.
    """

    cells: Sequence[CellRow]
    curves: Sequence[Curve]
    levels: Sequence[MeanPoint]
    tasks: Sequence[int]
    fronts: Mapping[str, Collection[Point]]

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

    def on_front(self, point: MeanPoint) -> bool:
        """Whether a point is on its model's Pareto front."""
        return point.place in self.fronts[point.model]

    def front(self, model: str) -> list[Point]:
        """(rate, score) of a model's Pareto front, by rising rate."""
        points = [point for curve in self.of(model) for point in curve.points]
        return sorted({(point.rate, point.score) for point in points if self.on_front(point)})

    @property
    def points(self) -> list[MeanPoint]:
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
        return any(has_lid(point) for point in self.points)


def has_lid(point: MeanPoint) -> bool:
    """Whether its ceiling is below 100 %."""
    return point.ceiling < FULL


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
    places = {names: [point.place for point in line] for names, line in by_method(points).items()}
    leaders = set(places) if most is None else leading(places, most, axis.is_cost)
    lines = []
    shown = best_by_policy(points, axis.is_cost) if by_policy else points
    for (model, kind), line in by_method(shown).items():
        lines.append(Curve(model, kind, line, by_policy or (model, kind) in leaders))
    silent = [row for row in drawn if is_silent(row, axis)]
    levels = complete(silent, {row["task"] for row in drawn}).values()
    return SpeedQuality(
        cells=drawn,
        curves=lines,
        levels=[mean_point(group, axis.key) for group in levels],
        tasks=sorted({len(point.cells) for point in points}),
        fronts=fronts(places, axis.is_cost),
    )


def drawn_cells(cells: Iterable[CellRow], axis: Axis) -> list[CellRow]:
    """The cells with a score that have a value on the axis, then those that are silent there."""
    measured = scored(undummied(cells))
    on_axis = [row for row in measured if axis.of(row) > 0]
    return [*on_axis, *(row for row in measured if is_silent(row, axis))]


def is_silent(row: CellRow, axis: Axis) -> bool:
    """Whether a cell is of a model elsewhere that doesn't report its value on the axis."""
    return is_elsewhere(row) and isnan(axis.of(row))
