"""The speed–quality curves of some cells, as the plots and the page draw them."""

from collections.abc import Collection
from dataclasses import dataclass

import pandas as pd

from pbcore.analysis.tradeoff import beside_ceilings, curves, fronts, leading, level_lines
from pbcore.report.axes import STEPS, Axis
from pbcore.report.looks import FULL
from pbcore.report.scopes import curve_lines


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

    @property
    def has_lid(self) -> bool:
        """Whether the ceiling is below 100 %."""
        return self.ceiling < FULL


@dataclass(frozen=True, slots=True)
class Curve:
    """A model's samplers of one policy family, by rising rate; `leads` if it is one of those that
    a plot of few curves shows.
    """

    model: str
    family: str
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
    """What a plot of quality over speed shows: curves by model and policy family, levels of models
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
    def families(self) -> list[str]:
        """The policy families of the curves."""
        return list(dict.fromkeys(curve.family for curve in self.curves))

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
    cells: pd.DataFrame,
    most: int | None = None,
    axis: Axis = STEPS,
    by_policy: bool = False,
) -> SpeedQuality:
    """The curves of a frame of `results.load`, as `analysis.tradeoff` has them, with their
    ceilings, each model's Pareto front, and the levels of models that report no rate; only those
    with a score for every task of the frame.

    Args:
        most: how many curves lead; None for all.
        axis: of speed.
        by_policy: whether each policy is one curve, its Pareto front over blocks and modifiers.
    """
    rate = axis.key
    table = beside_ceilings(curves(cells, rate), cells)
    by_line = _points_by_line(table, rate)
    best = fronts(by_line, axis.is_cost)
    leaders = None if most is None else leading(by_line, most, axis.is_cost)
    shown = _best_by_policy(table, axis) if by_policy else table
    lines = []
    for model, kind, group in curve_lines(shown):
        leads = leaders is None or (model, kind) in leaders
        lines.append(Curve(model, kind, _points(group, rate, best[model]), leads))
    scored = cells[(cells["status"] == "ok") & cells["score"].notna()]
    levels = []
    for name, (score, low, high) in level_lines(scored, rate).items():
        model, _, sampler = name.rpartition(" · ")
        levels.append(Level(model, sampler, score, low, high))
    return SpeedQuality(tuple(lines), tuple(levels), tuple(sorted(set(table["tasks"]))))


def _points_by_line(
    table: pd.DataFrame, rate: str
) -> dict[tuple[str, str], list[tuple[float, float]]]:
    """(model, family) → its (rate, score) in a table of `curves`."""
    lines = {}
    for model, kind, group in curve_lines(table):
        lines[model, kind] = list(zip(group[rate], group["score"], strict=True))
    return lines


def _points(
    group: pd.DataFrame, rate: str, front: Collection[tuple[float, float]]
) -> tuple[CurvePoint, ...]:
    """A curve's points, of rows with its means.

    Args:
        group: the rows.
        rate: their column on the axis of speed.
        front: (rate, score) of the model's Pareto front.
    """
    points = []
    for row in group.to_dict("records"):
        point = CurvePoint(
            sampler=row["sampler"],
            rate=row[rate],
            score=row["score"],
            low=row["low"],
            high=row["high"],
            on_front=(row[rate], row["score"]) in front,
            ceiling=row["ceiling"],
        )
        points.append(point)
    return tuple(points)


def _best_by_policy(table: pd.DataFrame, axis: Axis) -> pd.DataFrame:
    """The table of a grid with many families: each policy's Pareto front, under the policy's
    name.
    """
    by_policy = table.assign(family=table["family"].str.split("+").str[0])
    fastest_first = by_policy.sort_values(
        [axis.key, "score"], ascending=[axis.is_cost, False], kind="stable"
    )
    others = fastest_first.groupby("family")["score"].transform(
        lambda scores: scores.cummax().shift(fill_value=-1)
    )
    front = fastest_first[fastest_first["score"] > others]
    return front.sort_values(["family", axis.key], kind="stable")
