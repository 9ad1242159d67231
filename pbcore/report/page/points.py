"""What the page's plots show, worked out for all tasks, for each category and for each task: the
means of each sampler, which of them are on their model's Pareto front, and which curves lead, on
every axis that the cells have. The page's script only draws them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import TypedDict

from pbcore.analysis.tradeoff import MeanPoint, significant
from pbcore.base.printable import printable
from pbcore.report.axes import AXES, STEPS, Axis, priced_axes
from pbcore.report.looks import Look
from pbcore.report.rows import CellRow
from pbcore.report.scopes import Scope
from pbcore.report.speed_quality import has_lid, speed_quality
from pbcore.results.table_row import Row

NAME = 300  # characters of a name
SHOWN = 12  # curves of a plot that are seen without asking
ALL = ""  # the name of the plot of all tasks
# Of markers, as in `looks.MARKERS`.
SHAPES = (
    "M-4.6,0a4.6,4.6 0 1 0 9.2,0a4.6,4.6 0 1 0 -9.2,0",
    "M-4.6,-4.6H4.6V4.6H-4.6Z",
    "M0,-5.52L5.29,4.6H-5.29Z",
    "M0,-6.21L6.21,0L0,6.21L-6.21,0Z",
    "M0,5.52L5.29,-4.6H-5.29Z",
    "M0,-5.98V5.98M-5.98,0H5.98",
    "M-4.6,-4.6L4.6,4.6M-4.6,4.6L4.6,-4.6",
    "M0.0,-6.9L1.6,-2.2L6.6,-2.1L2.6,0.9L4.1,5.6L0.0,2.8L-4.1,5.6L-2.6,0.9L-6.6,-2.1L-1.6,-2.2Z",
)
ScoreBounds = tuple[float, float | None, float | None]  # a score with its interval, in %


class AxisData(TypedDict):
    """An `Axis` for the page's script."""

    key: str
    label: str
    better: str


class LineData(TypedDict):
    """A curve: a model's samplers of one method, with their look; `name` in legends."""

    name: str
    model: int
    colour: int
    marker: int
    dash: int
    hollow: bool
    dotted: bool


class DotData(TypedDict):
    """A sampler's means over `n` tasks; `cell` is the id of the cell if it is a single one. `at`
    has its value on each axis, None where the curves of that axis don't have this point; `front`
    the axes on which it is on its model's Pareto front.
    """

    line: int
    sampler: int
    cell: str | None
    n: int
    score: ScoreBounds
    ceiling: float | None
    at: list[float | None]
    front: list[int]


class LevelData(TypedDict):
    """The score of a model that reports no value on an axis."""

    line: int
    sampler: int
    score: ScoreBounds


class PlotData(TypedDict):
    """A plot: its points, and for each axis the lines that lead and the levels."""

    dots: list[DotData]
    leads: list[list[int]]
    levels: list[list[LevelData]]


class PointData(TypedDict):
    """All plots by name: of all tasks (ALL), of categories and of tasks. Lines, samplers and axes
    are named by their numbers, and so are a line's models.
    """

    models: list[str]
    tasks: list[str]
    samplers: list[str]
    lines: list[LineData]
    axes: list[AxisData]
    plots: dict[str, PlotData]


def shown_axes(cells: Sequence[Row], first: Axis = STEPS) -> list[Axis]:
    """The axes that some cell has a value for, those of price lists last.

    Args:
        cells: those of a run.
        first: the axis that comes before all others.
    """
    axes = dict.fromkeys((first, *AXES.values(), *priced_axes(cells)))
    return [axis for axis in axes if any(axis.of(row) > 0 for row in cells)]


def point_data(
    whole: Scope, known: Mapping[tuple[str, str], Look], across: Axis = STEPS
) -> PointData:
    """The data of a run's plots.

    Args:
        whole: all cells but dummies, with the seconds by the run's price lists.
        known: the look of each model's methods.
        across: the axis of speed that the plots have first; the next one if no cell has a value.
    """
    records = whole.records
    models = _numbers(row["model"] for row in records)
    samplers = _numbers(row["sampler"] for row in records)
    axes = shown_axes(records, across)
    run = _Run(
        lines={names: place for place, names in enumerate(known)}, samplers=samplers, axes=axes
    )
    parts: dict[str, list[CellRow]] = {ALL: []}
    for row in records:
        for part in (ALL, row["category"], row["task"]):
            parts.setdefault(part, []).append(row)
    return {
        "models": [printable(model, NAME) for model in models],
        "tasks": [printable(task, NAME) for task in whole.tasks],
        "samplers": [printable(sampler, NAME) for sampler in samplers],
        "lines": [_line(names, look, models) for names, look in known.items()],
        "axes": [_axis(axis) for axis in axes],
        "plots": {printable(part, NAME): run.plot(cells) for part, cells in parts.items()},
    }


@dataclass(frozen=True, slots=True)
class _Run:
    """The names of a run as plots take them: numbers of lines and samplers, and the axes."""

    lines: Mapping[tuple[str, str], int]
    samplers: Mapping[str, int]
    axes: Sequence[Axis]

    def plot(self, cells: Sequence[CellRow]) -> PlotData:
        """The plot of some cells; its points in the order of their first ones."""
        order = {row["id"]: number for number, row in enumerate(cells)}
        dots: dict[tuple[str, ...], DotData] = {}
        leads = []
        levels = []
        for number, axis in enumerate(self.axes):
            shown = speed_quality(cells, SHOWN, axis)
            for point in sorted(shown.points, key=lambda point: order[point.cells[0]["id"]]):
                ids = tuple(row["id"] for row in point.cells)
                dot = dots.setdefault(ids, self._dot(point))
                dot["at"][number] = _rounded(point.rate)
                if shown.on_front(point):
                    dot["front"].append(number)
            leading = [curve for curve in shown.curves if curve.leads]
            leads.append(sorted(self.lines[curve.model, curve.method] for curve in leading))
            levels.append([self._level(level) for level in shown.levels])
        return {"dots": list(dots.values()), "leads": leads, "levels": levels}

    def _dot(self, point: MeanPoint) -> DotData:
        """The means of a sampler's cells, not yet on any axis."""
        ids = [row["id"] for row in point.cells]
        return {
            "line": self.lines[point.model, point.method],
            "sampler": self.samplers[point.sampler],
            "cell": printable(ids[0], NAME) if len(ids) == 1 else None,
            "n": len(ids),
            "score": _score(point),
            "ceiling": _rounded(point.ceiling) if has_lid(point) else None,
            "at": [None] * len(self.axes),
            "front": [],
        }

    def _level(self, level: MeanPoint) -> LevelData:
        line = self.lines[level.model, level.method]
        return {"line": line, "sampler": self.samplers[level.sampler], "score": _score(level)}


def _score(means: MeanPoint) -> ScoreBounds:
    return _rounded(means.score) or 0, _rounded(means.low), _rounded(means.high)


def _numbers(names: Iterable[str]) -> dict[str, int]:
    """Each name's number, in the order in which they come."""
    numbers: dict[str, int] = {}
    for name in names:
        numbers.setdefault(name, len(numbers))
    return numbers


def _rounded(value: float) -> float | None:
    """A number in few characters; None for NaN."""
    if isnan(value):
        return None
    short = significant(value)
    return int(short) if short.is_integer() else short


def _axis(axis: Axis) -> AxisData:
    return {
        "key": axis.key,
        "label": printable(axis.label, 80),
        "better": axis.better,
    }


def _line(names: tuple[str, str], look: Look, models: Mapping[str, int]) -> LineData:
    model, kind = names
    return {
        "name": printable(f"{model} · {kind}" if len(models) > 1 else kind, NAME),
        "model": models[model],
        "colour": look.colour,
        "marker": look.marker,
        "dash": look.dash,
        "hollow": look.hollow,
        "dotted": look.dotted,
    }
