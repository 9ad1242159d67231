"""What the page's plots show, worked out for all tasks, for each category and for each task: the
means of each sampler, which of them are on their model's Pareto front, and which curves lead, on
every axis that the cells have. The page's script only draws them.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import TypedDict

import pandas as pd

from pbcore.analysis.order import family
from pbcore.analysis.tradeoff import complete, fronts, leading, mean_interval
from pbcore.base.printable import printable
from pbcore.report.axes import AXES, STEPS, Axis, priced_axes, with_seconds
from pbcore.report.cells import is_elsewhere, real
from pbcore.report.looks import FULL, Look
from pbcore.report.rows import CellRow, Row, or_nan
from pbcore.report.scopes import Scope, average

NAME = 300  # characters of a name
DIGITS = 7  # significant ones of a number
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
CellNumbers = Sequence[int]  # their numbers in the run


class AxisData(TypedDict):
    """An `Axis` for the page's script."""

    key: str
    label: str
    better: str


class LineData(TypedDict):
    """A curve: a model's samplers of one policy family, with their look; `name` in legends."""

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


def axis_columns(whole: Scope, cells: pd.DataFrame, first: Axis = STEPS) -> dict[Axis, list[float]]:
    """The axes that some cell has a value for, with each cell's value, NaN where it has none; those
    of price lists last.

    Args:
        whole: all cells but dummies.
        cells: the frame of `results.load` that they are of.
        first: the axis that comes before all others.
    """
    records: Sequence[Row] = whole.records
    counted = {name: [row[name] for row in records] for name in ("rows", "tokens_per_row")}
    frame = with_seconds(real(cells)).assign(**counted)
    columns = {}
    for axis in dict.fromkeys((first, *AXES.values(), *priced_axes(cells))):
        if axis.key in frame:
            values = [or_nan(value) for value in frame[axis.key]]
            if any(value > 0 for value in values):
                columns[axis] = values
    return columns


def point_data(
    whole: Scope,
    cells: pd.DataFrame,
    known: Mapping[tuple[str, str], Look],
    across: Axis = STEPS,
) -> PointData:
    """The data of a run's plots.

    Args:
        whole: all cells but dummies.
        cells: the frame of `results.load` that they are of.
        known: the look of each model's families.
        across: the axis of speed that the plots have first; the next one if no cell has a value.
    """
    records = whole.records
    models = _numbers(row["model"] for row in records)
    samplers = _numbers(row["sampler"] for row in records)
    axes = axis_columns(whole, cells, across)
    run = _Run(
        records=records,
        lines={names: place for place, names in enumerate(known)},
        samplers=samplers,
        axes=list(axes.items()),
        elsewhere=[is_elsewhere(row) for row in records],
    )
    parts: dict[str, list[int]] = {ALL: []}
    for place, row in enumerate(records):
        for part in (ALL, row["category"], row["task"]):
            parts.setdefault(part, []).append(place)
    return {
        "models": [printable(model, NAME) for model in models],
        "tasks": [printable(task, NAME) for task in whole.tasks],
        "samplers": [printable(sampler, NAME) for sampler in samplers],
        "lines": [_line(names, look, models) for names, look in known.items()],
        "axes": [_axis(axis) for axis in axes],
        "plots": {printable(part, NAME): run.plot(places) for part, places in parts.items()},
    }


@dataclass(frozen=True, slots=True)
class _Run:
    """The cells of a run as plots take them: `lines` and `samplers` number the names, `axes` have
    each cell's value, `elsewhere` says which cells another machine answered.
    """

    records: Sequence[CellRow]
    lines: Mapping[tuple[str, str], int]
    samplers: Mapping[str, int]
    axes: Sequence[tuple[Axis, Sequence[float]]]
    elsewhere: Sequence[bool]

    def plot(self, places: CellNumbers) -> PlotData:
        """The plot of some cells."""
        scored = []
        for place in places:
            row = self.records[place]
            if row["status"] == "ok" and not isnan(row["score"]):
                scored.append(place)
        dots: dict[tuple[int, ...], DotData] = {}
        leads = []
        levels = []
        for axis, (kind, values) in enumerate(self.axes):
            usable = [place for place in scored if values[place] > 0]
            drawn = []
            for group in self._complete(usable):
                key = tuple(group)
                if key not in dots:
                    dots[key] = self._dot(group)
                mean = average([values[place] for place in group], len(group))
                dots[key]["at"][axis] = _rounded(mean)
                drawn.append(dots[key])
            leads.append(self._leads(axis, kind, drawn))
            levels.append(self._levels(scored, usable, values))
        return {"dots": list(dots.values()), "leads": leads, "levels": levels}

    def _leads(self, axis: int, kind: Axis, drawn: Sequence[DotData]) -> list[int]:
        """The lines that lead on an axis; notes at each point whether it is on its model's front.

        Args:
            axis: its number.
            kind: the axis.
            drawn: the points on it.
        """
        names = list(self.lines)
        curves: dict[tuple[str, str], list[tuple[float, float]]] = {}
        for dot in drawn:
            curves.setdefault(names[dot["line"]], []).append(_point(dot, axis))
        best = fronts(curves, kind.is_cost)
        for dot in drawn:
            model, _ = names[dot["line"]]
            if _point(dot, axis) in best[model]:
                dot["front"].append(axis)
        return sorted(self.lines[curve] for curve in leading(curves, SHOWN, kind.is_cost))

    def _complete(
        self, places: Iterable[int], tasks: Collection[str] | None = None
    ) -> Iterable[list[int]]:
        """The cells of each sampler that has all tasks, as `complete` says."""
        rows = ((self.records[place], place) for place in places)
        named = ((row["model"], row["task"], row["sampler"], place) for row, place in rows)
        return complete(named, tasks).values()

    def _names(self, group: CellNumbers) -> tuple[str, str]:
        row = self.records[group[0]]
        return row["model"], family(row["sampler"])

    def _dot(self, group: CellNumbers) -> DotData:
        """The means of a sampler's cells, not yet on any axis."""
        first = self.records[group[0]]
        cells: Sequence[Row] = [self.records[place] for place in group]
        ceiling = average([cell["ceiling"] for cell in cells], len(group))
        return {
            "line": self.lines[self._names(group)],
            "sampler": self.samplers[first["sampler"]],
            "cell": printable(first["id"], NAME) if len(group) == 1 else None,
            "n": len(group),
            "score": self._score(group),
            "ceiling": _rounded(ceiling) if ceiling < FULL else None,
            "at": [None] * len(self.axes),
            "front": [],
        }

    def _score(self, group: CellNumbers) -> ScoreBounds:
        cells = [self.records[place] for place in group]
        score, low, high = mean_interval([(row["score"], row["low"], row["high"]) for row in cells])
        return _rounded(score) or 0, _rounded(low), _rounded(high)

    def _levels(
        self, scored: CellNumbers, usable: CellNumbers, values: Sequence[float]
    ) -> list[LevelData]:
        """The scores of models elsewhere without a value on an axis, with one for every task.

        Args:
            scored: the plot's cells with scores.
            usable: those with a value on the axis.
            values: of all cells on the axis.
        """
        silent = [place for place in scored if self.elsewhere[place] and isnan(values[place])]
        tasks = {self.records[place]["task"] for place in (*silent, *usable)}
        levels: list[LevelData] = []
        for group in self._complete(silent, tasks):
            sampler = self.samplers[self.records[group[0]]["sampler"]]
            line = self.lines[self._names(group)]
            levels.append({"line": line, "sampler": sampler, "score": self._score(group)})
        return levels


def _point(dot: DotData, axis: int) -> tuple[float, float]:
    """A dot's value on an axis, and its score."""
    return dot["at"][axis] or 0.0, dot["score"][0]


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
    short = float(f"{value:.{DIGITS}g}")
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
