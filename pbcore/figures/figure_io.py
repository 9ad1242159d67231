"""Shared parts of the figures: panels, points with intervals, and a CSV beside each PNG."""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pbcore.report.looks import COLOURS, MARKERS
from pbcore.report.style import PANEL, label, points
from pbcore.results.rundir import write_atomic

Row = dict[str, Any]  # a line of a CSV
Point = tuple[float, float, float, float]  # x, y, low, high


@dataclass(frozen=True, slots=True)
class Drawing:
    """A figure with its data: `rows` become the CSV, `said` the lines on the terminal."""

    name: str
    figure: Figure
    rows: Sequence[Row]
    said: str = ""


def write(drawing: Drawing, folder: Path) -> list[Path]:
    """Writes `<name>.png` and `<name>.csv`; makes the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    picture = folder / f"{drawing.name}.png"
    drawing.figure.savefig(picture)
    return [picture, write_csv(drawing.rows, folder / f"{drawing.name}.csv")]


def write_csv(rows: Sequence[Row], path: Path) -> Path:
    """Rows as CSV, the columns in order of appearance; floats with six digits, None empty."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    text = io.StringIO()
    table = csv.DictWriter(text, columns, lineterminator="\n")
    table.writeheader()
    table.writerows({key: f"{v:.6g}" if isinstance(v, float) else v for key, v in row.items()} for row in rows)
    return write_atomic(path, text.getvalue())


def panels(rows: int, columns: int, foot: float = 0.75, *, sharex: bool = True) -> tuple[Figure, list[list[Axes]]]:
    """A figure of `rows` × `columns` panels with shared axes and `foot` inches below for the legend."""
    width, height = PANEL[0] * columns + 0.5, PANEL[1] * rows + foot
    figure = Figure(figsize=(width, height), dpi=150)
    axes = figure.subplots(rows, columns, sharex=sharex, sharey=True, squeeze=False)
    figure.subplots_adjust(
        left=0.7 / width, right=0.985, top=1 - 0.3 / height, bottom=(foot + 0.35) / height, wspace=0.08, hspace=0.3
    )
    return figure, [list(row) for row in axes]


def draw_points(axis: Axes, data: Sequence[Point], number: int, name: str | None = None) -> None:
    """Points (x, y, low, high) with their intervals in the colour and marker of a series."""
    if data:
        look: dict[str, Any] = {
            "color": colour(number),
            "markersize": 4,
            "elinewidth": 0.9,
            "capsize": 2,
            "label": name,
        }
        points(axis, *zip(*data, strict=True), fmt=marker(number), **look)


def colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]


def marker(number: int) -> str:
    return MARKERS[(number + number // len(COLOURS)) % len(MARKERS)]


def legend(figure: Figure, axes: Iterable[Axes], columns: int) -> None:
    """One legend below, with each name once."""
    found: dict[str, Artist] = {}
    for axis in axes:
        for handle, name in zip(*axis.get_legend_handles_labels(), strict=True):
            found.setdefault(name, handle)
    if found:
        names = [label(name) for name in found]
        figure.legend(list(found.values()), names, loc="lower center", ncols=columns, fontsize=7.5, frameon=False)


def captions(figure: Figure, x: str, y: str, foot: float) -> None:
    """One label for all x-axes and one for all y-axes."""
    figure.supylabel(y, fontsize=9, x=0.01)
    figure.text(0.5, (foot - 0.12) / figure.get_figheight(), x, ha="center", va="bottom", fontsize=9)
