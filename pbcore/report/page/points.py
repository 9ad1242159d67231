"""The cells of a run as the page's plots and means take them: by column, under names that stand
once, with the axes that these cells have.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict

import pandas as pd

from pbcore.analysis.order import family
from pbcore.base.printable import printable
from pbcore.report.axes import AXES, STEPS, Axis, priced_axes, with_seconds
from pbcore.report.cells import elsewhere
from pbcore.report.looks import Look
from pbcore.report.scopes import Row, Scope, number

NAME = 300  # characters of a name
DIGITS = 7  # significant ones of a number
NUMBERS = (
    "n",
    "score",
    "low",
    "high",
    "ceiling",
    "bits_lost",
    "seconds",
    "tokens_per_step",
    "tokens_per_row",
    "tokens_per_forward",
    "nfe",
    "rows",
)


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


class PointData(TypedDict):
    """All cells. `models`, `tasks` and `samplers` are names, by whose numbers the columns `model`,
    `task` and `sampler` of `cells` name them; `line` is a number of `lines`. `cells` also has the
    cell's `id`, whether it was `run`, whether its model answered `elsewhere`, the columns of
    NUMBERS (scores and ceilings in %), and one for each axis.
    """

    models: list[str]
    tasks: list[str]
    samplers: list[str]
    lines: list[LineData]
    axes: list[AxisData]
    cells: dict[str, list[Any]]


def axis_columns(
    whole: Scope, cells: pd.DataFrame, first: Axis = STEPS
) -> dict[Axis, list[float | None]]:
    """The axes that some cell has a value for, with each cell's value; those of price lists last.

    Args:
        whole: all cells but dummies.
        cells: the frame of `results.load` that they are of.
        first: the axis that comes before all others.
    """
    frame = with_seconds(cells.loc[whole.cells.index]).assign(
        rows=whole.cells["rows"], tokens_per_row=whole.cells["tokens_per_row"]
    )
    columns = {}
    for axis in dict.fromkeys((first, *AXES.values(), *priced_axes(cells))):
        if axis.key in frame:
            values = [number(value) for value in frame[axis.key]]
            if any(value is not None and value > 0 for value in values):
                columns[axis] = values
    return columns


def point_data(
    whole: Scope,
    cells: pd.DataFrame,
    known: Mapping[tuple[str, str], Look],
    across: Axis = STEPS,
) -> PointData:
    """The data of a run's plots and means.

    Args:
        whole: all cells but dummies.
        cells: the frame of `results.load` that they are of.
        known: the look of each model's families.
        across: the axis of speed that the plots have first; the next one if no cell has a value.
    """
    records: Sequence[Row] = whole.records
    tasks = whole.tasks
    models = _numbers(row["model"] for row in records)
    samplers = _numbers(row["sampler"] for row in records)
    places = {task: place for place, task in enumerate(tasks)}
    lines = {names: place for place, names in enumerate(known)}
    columns: dict[str, list[Any]] = {
        "id": [printable(row["id"], NAME) for row in records],
        "model": [models[row["model"]] for row in records],
        "task": [places[row["task"]] for row in records],
        "sampler": [samplers[row["sampler"]] for row in records],
        "line": [lines[row["model"], family(row["sampler"])] for row in records],
        "run": [int(row["status"] == "ok") for row in records],
        "elsewhere": [int(answered) for answered in elsewhere(whole.cells)],
    }
    for key in NUMBERS:
        columns[key] = [_rounded(row[key]) for row in records]
    axes = axis_columns(whole, cells, across)
    for axis, values in axes.items():
        columns[axis.key] = [_rounded(value) for value in values]
    return {
        "models": [printable(model, NAME) for model in models],
        "tasks": [printable(task, NAME) for task in tasks],
        "samplers": [printable(sampler, NAME) for sampler in samplers],
        "lines": [_line(names, look, models) for names, look in known.items()],
        "axes": [_axis(axis) for axis in axes],
        "cells": columns,
    }


def _numbers(names: Iterable[str]) -> dict[str, int]:
    """Each name's number, in the order in which they come."""
    numbers: dict[str, int] = {}
    for name in names:
        numbers.setdefault(name, len(numbers))
    return numbers


def _rounded(value: float | None) -> float | int | None:
    """A number in few characters."""
    if value is None:
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
