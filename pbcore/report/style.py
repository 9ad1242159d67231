"""The look of all PNG figures: the layout of panels, their frames and ticks, colours, markers and
intervals; and figures with their data, a CSV beside each PNG.
"""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, isnan
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, LogLocator, NullLocator
from numpy.typing import ArrayLike

from pbcore.base.printable import printable
from pbcore.report.looks import COLOURS, DASHES, MARKERS, LineStyle, Look
from pbcore.results.rundir import write_atomic

PANEL = (3.3, 2.75)  # inches
POINTS = 72  # an inch
LINE_HEIGHT = 1.25  # of a line of text, by its size
LETTER_WIDTH = 0.62  # of a letter, by its size; about
LEADER: dict[str, Any] = {"arrowstyle": "-", "linewidth": 0.6, "alpha": 0.6, "shrinkB": 4}
HALO: dict[str, Any] = {"facecolor": "white", "edgecolor": "none", "alpha": 0.7, "pad": 0.6}
# Metadata without which a file that is made anew is the same.
NO_DATE: Mapping[str, dict[str, Any]] = {
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None},
}
CsvRow = dict[str, Any]  # a line of a CSV


def label(text: str) -> str:
    """Text for a figure: short, without control characters, and `$` as itself instead of a
    formula's beginning.
    """
    return printable(text, 60).replace("$", r"\$")


def panels(
    shape: Sequence[int],
    keys: int,
    x: str,
    y: str,
    title: str = "",
    *,
    sharex: bool = True,
    size: tuple[float, float] = PANEL,
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
        size: of a panel, in inches.

    Returns:
        The figure and its panels, row by row.
    """
    rows = len(shape)
    columns = max(shape)
    head = 0.36 if title else 0.05
    foot = 0.42 + 0.2 * keys
    width = size[0] * columns + 0.4
    height = size[1] * rows + head + foot
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
    for row, filled in enumerate(shape):
        for column in range(filled, columns):
            axes[row, column].set_visible(False)
            axes[row - 1, column].tick_params(labelbottom=True)
    shown: list[Axes] = []
    for row, filled in enumerate(shape):
        shown += axes[row, :filled].tolist()
    return figure, shown


def legend(
    figure: Figure,
    columns: int,
    size: float = 8,
    looks: Mapping[str, LineStyle] | None = None,
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


def drawn_as(look: Look) -> LineStyle:
    """A look as matplotlib's keywords."""
    colour = COLOURS[look.colour]
    drawn: LineStyle = {
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


def say(axis: Axes, text: str) -> None:
    """A text in the middle of an empty panel."""
    axis.text(0.5, 0.5, text, transform=axis.transAxes, ha="center", fontsize=8, color="#777")


def percent(axis: Axes) -> None:
    """A y-axis from 0 to 100 %."""
    axis.set_ylim(-4, 104)
    axis.set_yticks([0, 20, 40, 60, 80, 100])


def fitting_percent(axis: Axes, scores: Iterable[float]) -> None:
    """A y-axis of percentages from a multiple of ten below the lowest of these scores to 100, or to
    one above the highest. Scores that are NaN don't count.
    """
    known = [score for score in scores if not isnan(score)]
    low = max(0, 10 * floor((min(known, default=0) - 2) / 10))
    high = min(100, 10 * ceil((max(known, default=100) + 2) / 10))
    room = (high - low) / 25
    axis.set_ylim(low - room, high + room)
    step = 20 if high - low > 50 else 10
    axis.set_yticks(range(step * ceil(low / step), high + 1, step))


@dataclass(frozen=True, slots=True)
class CurveEnd:
    """Where a curve ends, and its name there, `bold` if the curve is pointed out."""

    rate: float
    score: float
    name: str
    colour: str
    bold: bool = False


def name_ends(axis: Axes, ends: Sequence[CurveEnd], room: float = 0.3, size: float = 8.5) -> None:
    """Names curves at their right ends, on a logarithmic x-axis. Names that would overlap stand
    below each other, around the mean of their ends; a thin line leads to one that had to move.

    Args:
        axis: with its limits set; its x-axis is widened.
        ends: of the curves.
        room: for names, as a share of the axis.
        size: of the font, in points.
    """
    left, right = axis.get_xlim()
    axis.set_xlim(left, right * (right / left) ** room)
    low, high = axis.get_ylim()
    place = axis.get_position()
    figure = axis.get_figure(root=True)
    assert figure is not None  # axes have one
    width, height = figure.get_size_inches()
    apart = (high - low) * size * LINE_HEIGHT / (POINTS * place.height * height)
    aside = (right / left) ** 0.02
    letters = max((len(end.name) for end in ends), default=0)
    longest = letters * LETTER_WIDTH * size / (POINTS * place.width * width)
    reach = aside * (right / left) ** ((1 + room) * longest)
    for group in _neighbours(ends, reach):
        beside = max(end.rate for end in group) * aside
        heights = spread([end.score for end in group], apart, low + apart / 2, high - apart / 2)
        for end, at in zip(group, heights, strict=True):
            moved = abs(at - end.score) > apart / 4 or end.rate * aside < beside
            axis.annotate(
                end.name,
                (end.rate, end.score),
                (beside, at),
                va="center",
                color=end.colour,
                fontsize=size,
                fontweight="bold" if end.bold else "normal",
                bbox=HALO,
                arrowprops=LEADER | {"color": end.colour} if moved else None,
            )


def _neighbours(ends: Sequence[CurveEnd], reach: float) -> Iterator[list[CurveEnd]]:
    """Ends whose names could overlap, the highest first: each one's rate is less than `reach` times
    that of the one before.
    """
    group: list[CurveEnd] = []
    for end in sorted(ends, key=lambda end: end.rate):
        if group and end.rate >= reach * group[-1].rate:
            yield sorted(group, key=lambda end: -end.score)
            group = []
        group.append(end)
    if group:
        yield sorted(group, key=lambda end: -end.score)


def spread(heights: Sequence[float], apart: float, low: float, high: float) -> list[float]:
    """Falling heights moved as little as keeps them `apart` from each other and within `low` to
    `high`: those that are too close become a pile around their mean.
    """
    piles: list[list[float]] = []
    for height in heights:
        piles.append([height])
        while len(piles) > 1 and _bottom(piles[-2], apart, low, high) - apart < _top(
            piles[-1], apart, low, high
        ):
            last = piles.pop()
            piles[-1] += last
    return [
        _top(pile, apart, low, high) - place * apart for pile in piles for place in range(len(pile))
    ]


def _top(pile: Sequence[float], apart: float, low: float, high: float) -> float:
    """The height of a pile's first name."""
    tall = apart * (len(pile) - 1)
    middle = sum(pile) / len(pile)
    return max(min(middle + tall / 2, high), low + tall)


def _bottom(pile: Sequence[float], apart: float, low: float, high: float) -> float:
    """The height of a pile's last name."""
    return _top(pile, apart, low, high) - apart * (len(pile) - 1)


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

    def write(self, folder: Path, formats: Sequence[str] = ("png",)) -> list[Path]:
        """Writes `<name>.png`, or in other formats that matplotlib knows, and `<name>.csv`; makes
        the folder. Equal figures are equal files.
        """
        folder.mkdir(parents=True, exist_ok=True)
        paths = []
        for kind in formats:
            picture = folder / f"{self.name}.{kind}"
            with rc_context({"svg.hashsalt": self.name}):
                self.figure.savefig(picture, metadata=NO_DATE.get(kind))
            paths.append(picture)
        return [*paths, write_csv(self.rows, folder / f"{self.name}.csv")]


def svg(figure: Figure, salt: str) -> str:
    """A figure as SVG, whose texts are texts; the same in every run.

    Args:
        figure: to draw.
        salt: of the names in it.
    """
    stream = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": salt}):
        figure.savefig(stream, format="svg", metadata=NO_DATE["svg"])
    return stream.getvalue()


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
