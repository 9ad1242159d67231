"""The look of all PNG figures: the layout of panels, their frames and ticks, colours, markers and
intervals; and figures with their data, a CSV beside each PNG.
"""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, LogLocator, NullLocator
from numpy.typing import ArrayLike

from pbcore.base.printable import printable
from pbcore.report.looks import COLOURS, DASHES, MARKERS, Look
from pbcore.results.rundir import write_atomic

PANEL = (3.3, 2.75)  # inches
CsvRow = dict[str, Any]  # a line of a CSV


def label(text: str) -> str:
    """Text for a figure: short, without control characters, and `$` as itself instead of a
    formula's beginning.
    """
    return printable(text, 60).replace("$", r"\$")


def panels(
    shape: Sequence[int], keys: int, x: str, y: str, title: str = "", *, sharex: bool = True
) -> tuple[Figure, list[Axes]]:
    """A figure with panels of shared axes, one label for all x-axes and one for all y-axes. Above a
    gap are tick labels.

    Args:
        shape: how many panels each row has.
        keys: the rows of the legend below, for which there is room.
        x: the label of the x-axes.
        y: the label of the y-axes.
        title: of the figure.
        sharex: whether panels share their x-axes, too.

    Returns:
        The figure and its panels, row by row.
    """
    rows = len(shape)
    columns = max(shape)
    head = 0.36 if title else 0.05
    foot = 0.42 + 0.2 * keys
    width = PANEL[0] * columns + 0.4
    height = PANEL[1] * rows + head + foot
    figure = Figure(figsize=(width, height), dpi=150)
    axes = figure.subplots(rows, columns, sharex=sharex, sharey=True, squeeze=False)
    figure.supylabel(y, fontsize=9, x=0.01)
    figure.text(0.5, (foot - 0.3) / height, x, ha="center", fontsize=9)
    if title:
        figure.suptitle(title, fontsize=11, y=1 - 0.12 / height)
    top = 1 - (head + 0.28) / height
    bottom = (foot + 0.12) / height
    figure.subplots_adjust(
        left=0.62 / width, right=0.985, top=top, bottom=bottom, wspace=0.08, hspace=0.24
    )
    for row, size in enumerate(shape):
        for column in range(size, columns):
            axes[row, column].set_visible(False)
            axes[row - 1, column].tick_params(labelbottom=True)
    shown: list[Axes] = []
    for row, size in enumerate(shape):
        shown += axes[row, :size].tolist()
    return figure, shown


def legend(
    figure: Figure,
    columns: int,
    size: float = 8,
    looks: Mapping[str, Mapping[str, Any]] | None = None,
) -> None:
    """One legend below a figure, with each name once.

    Args:
        figure: whose panels' labels it shows, unless it has `looks`.
        columns: of the legend.
        size: of its font, in points.
        looks: name → matplotlib's options of the line that it shows.
    """
    entries: dict[str, Artist] = {}
    if looks:
        for name, look in looks.items():
            entries.setdefault(label(name), Line2D([], [], **look))
    else:
        for axis in figure.axes:
            handles, names = axis.get_legend_handles_labels()
            for handle, name in zip(handles, names, strict=True):
                entries.setdefault(label(str(name)), handle)
    if entries:
        figure.legend(
            list(entries.values()),
            list(entries),
            loc="lower center",
            ncols=max(1, columns),
            fontsize=size,
            frameon=False,
        )


def drawn_as(look: Look) -> dict[str, Any]:
    """A look as matplotlib's keywords."""
    colour = COLOURS[look.colour]
    drawn: dict[str, Any] = {
        "color": colour,
        "marker": MARKERS[look.marker],
        "linestyle": DASHES[look.dash],
        "mfc": "white" if look.hollow else colour,
    }
    if look.dotted:
        drawn |= {"fillstyle": "left", "mfcalt": colour if look.hollow else "white"}
    return drawn


def finish(axis: Axes, title: str) -> None:
    """Title (as it is), grid and ticks of a panel."""
    axis.set_title(title, fontsize=9, pad=4)
    axis.tick_params(labelsize=8, length=2.5)
    axis.grid(True, color="#E4E4E4", linewidth=0.6)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)


def percent(axis: Axes) -> None:
    """A y-axis from 0 to 100 %."""
    axis.set_ylim(-4, 104)
    axis.set_yticks([0, 20, 40, 60, 80, 100])


def plain_ticks(axis: Axis, places: Sequence[float] | None = None) -> None:
    """Plain numbers at these places, or at 1, 2 and 5 of each decade."""
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)) if places is None else FixedLocator(places))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_locator(NullLocator())


def log_ticks(low: float, high: float) -> list[float]:
    """Round numbers on a logarithmic axis from `low` to `high` and a little beyond: more of each
    decade where the axis is narrow.
    """
    inside: list[float] = []
    tenths = [tenth / 10 for tenth in range(10, 100)]
    for steps in ([1, 2, 5], [1, 1.5, 2, 3, 4, 5, 7], tenths):
        ticks = LogLocator(subs=steps, numticks=100).tick_values(low, high)
        inside = [float(tick) for tick in ticks if low * 0.85 <= tick <= high * 1.18]
        if len(inside) >= 3:
            break
    return inside[:: max(1, -(-len(inside) // 9))]


def draw_points(
    axis: Axes, x: ArrayLike, y: ArrayLike, low: ArrayLike, high: ArrayLike, **look: Any
) -> ErrorbarContainer:
    """Points with their intervals; an interval that isn't known has no bar.

    Args:
        axis: the panel.
        x: of each point.
        y: of each point.
        low: the interval's lower end of each; NaN where it isn't known.
        high: likewise the upper end.
        look: matplotlib's options of line and marker.
    """
    middle = np.asarray(y, dtype=float)
    below = middle - np.asarray(low, dtype=float)
    above = np.asarray(high, dtype=float) - middle
    spread = np.nan_to_num(np.clip(np.vstack([below, above]), 0, None))
    return axis.errorbar(
        np.asarray(x, dtype=float),
        middle,
        yerr=spread,
        **{"elinewidth": 0.8, "capsize": 1.8, **look},
    )


@dataclass(frozen=True, slots=True)
class Drawing:
    """A figure with its data: `rows` become the CSV, `said` the lines on the terminal."""

    name: str
    figure: Figure
    rows: Sequence[CsvRow]
    said: str = ""

    def write(self, folder: Path) -> list[Path]:
        """Writes `<name>.png` and `<name>.csv`; makes the folder."""
        folder.mkdir(parents=True, exist_ok=True)
        picture = folder / f"{self.name}.png"
        self.figure.savefig(picture)
        return [picture, write_csv(self.rows, folder / f"{self.name}.csv")]


def write_csv(rows: Sequence[CsvRow], path: Path) -> Path:
    """Rows as CSV, the columns in order of appearance; floats with six digits, None empty. Makes
    the folder.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = list(dict.fromkeys(column for row in rows for column in row))
    text = io.StringIO()
    table = csv.DictWriter(text, columns, lineterminator="\n")
    table.writeheader()
    for row in rows:
        table.writerow({column: _csv_value(value) for column, value in row.items()})
    return write_atomic(path, text.getvalue())


def _csv_value(value: Any) -> Any:
    return f"{value:.6g}" if isinstance(value, float) else value
