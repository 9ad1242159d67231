"""Trade-off curves as PNG: score over tokens per step or another axis of speed, a curve per policy
method, a panel per category or task; and score over answers per second, on which models behind
servers stand beside those that run here.
"""

import hashlib
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import product
from operator import itemgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pbcore.analysis.order import method_of, natural, sorted_tasks
from pbcore.analysis.tradeoff import MeanPoint, mean_points
from pbcore.base.grouping import grouped
from pbcore.report import style
from pbcore.report.axes import STEPS, Axis
from pbcore.report.cells import is_elsewhere
from pbcore.report.looks import COLOURS, DASHES, LineStyle, Look, looks, number_look
from pbcore.report.rows import CellRow, scored, undummied
from pbcore.report.speed_quality import (
    Curve,
    SpeedQuality,
    is_silent,
    speed_quality,
)
from pbcore.report.under_load import load_levels, under_load_figure
from pbcore.tasks.naming import category

MEANS = "curves.png"
MOST_CURVES = 10
MOST_PANELS = 24  # of all figures by category and task; a larger run has them in report.html
RING = "#222222"  # around the chosen sampler
RATE = Axis("samples_per_second", "answers per second")
Cells = Sequence[CellRow]
Panel = tuple[str, Cells]  # its title, and the cells that it draws


def write_plots(
    cells: Cells,
    folder: Path,
    speed: Axis = STEPS,
    chosen: Mapping[str, str] = MappingProxyType({}),
) -> list[Path]:
    """Writes the figures of a run: `curves.png` (means over all tasks), `categories.png` (a row per
    model, a column per category) and `curves_<category>_<model>.png` (a panel per task), the latter
    two as far as `MOST_PANELS` panels go; `speed.png`, a panel per category, if a model elsewhere
    was timed; `under_load.png` with cells at several numbers at a time. Nothing and no folder
    without a cell to draw; dummies are left out.

    Args:
        cells: those of a report, for a price list's axis with its seconds.
        folder: where they are written.
        speed: the axis of the trade-off curves.
        chosen: model → the sampler that its verdict chose, which the means point out.
    """
    drawn = trade_off_figures(cells, speed, chosen)
    timed = [row for row in scored(undummied(cells)) if RATE.of(row) > 0]
    if any(map(is_elsewhere, timed)):
        drawn["speed.png"] = speed_figure(timed)
    levels = load_levels(cells)
    if levels:
        drawn["under_load.png"] = under_load_figure(levels)
    if drawn:
        folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, plot in drawn.items():
        path = folder / name
        plot.savefig(path)
        paths.append(path)
    return paths


def trade_off_figures(
    cells: Cells,
    speed: Axis = STEPS,
    chosen: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Figure]:
    """File name → figure of score over an axis of speed.

    Args:
        cells: as of `write_plots`.
        speed: the axis.
        chosen: model → the sampler that its verdict chose.

    Returns:
        The figures; none unless a cell has a value on the axis.
    """
    means = speed_quality(cells, MOST_CURVES, speed)
    on_axis = [row for row in means.cells if speed.of(row) > 0]
    models = list(dict.fromkeys(row["model"] for row in on_axis))
    categories = list(dict.fromkeys(map(category, sorted_tasks(row["task"] for row in on_axis))))
    parts = {}
    methods: set[str] = set()
    for kind, model in product(categories, models):
        part = [row for row in on_axis if (row["model"], row["category"]) == (model, kind)]
        parts[kind, model] = part
        methods.update(point.method for point in mean_points(part, speed.key))
    drawn = {}
    if means.curves:
        drawn[MEANS] = mean_figure(means, speed, chosen)
    if len(categories) > 1 and len(parts) <= MOST_PANELS:
        grid = []
        for model in models:
            of_model = [(f"{model} · {kind}", parts[kind, model]) for kind in categories]
            grid.append([_panel(title, part, means.cells, speed) for title, part in of_model])
        drawn["categories.png"] = figure(grid, "mean score (%)", methods=methods, speed=speed)
    if len({(row["model"], row["task"]) for row in on_axis}) > MOST_PANELS:
        return drawn
    for (kind, model), part in parts.items():
        by_task = grouped(part, itemgetter("task"))
        panels = []
        for task in sorted_tasks(by_task):
            title = task.split("/", 1)[-1]
            panels.append(_panel(title, by_task[task], means.cells, speed))
        if len(panels) > 1:
            name = f"curves_{file_part(kind)}_{file_part(model)}.png"
            title = style.label(f"{model}: {kind}")
            drawn[name] = figure(_rows(panels), "score (%)", title, methods, speed)
    return drawn


def _panel(title: str, part: Cells, cells: Cells, speed: Axis) -> Panel:
    """Some of the cells, and those of models elsewhere without a speed for the same tasks."""
    tasks = {row["task"] for row in part}
    silent = [row for row in cells if row["task"] in tasks and is_silent(row, speed)]
    return style.label(title), [*part, *silent]


def mean_svg(
    cells: Cells,
    speed: Axis = STEPS,
    chosen: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """The figure of `curves.png` as SVG, whose texts are texts; empty without a cell to draw.

    Args:
        cells: as of `write_plots`.
        speed: the axis of the trade-off curves.
        chosen: as of `mean_figure`.
    """
    means = speed_quality(cells, MOST_CURVES, speed)
    if not means.curves:
        return ""
    drawn = mean_figure(means, speed, chosen)
    drawn.set_size_inches(8, 3.8)  # as wide as a page's first plot
    drawn.subplots_adjust(left=0.08, bottom=0.14)
    return style.svg(drawn, MEANS)


def mean_figure(
    shown: SpeedQuality,
    speed: Axis = STEPS,
    chosen: Mapping[str, str] = MappingProxyType({}),
) -> Figure:
    """One wide plot: mean score over all tasks over an axis of speed, the leading curves of all
    models with their intervals, ceilings and names, each model's Pareto front as a broad band, and
    a ring around the sampler that its verdict chose.

    Args:
        shown: the means over all tasks, of which `MOST_CURVES` curves lead.
        speed: the axis.
        chosen: model → the sampler that its verdict chose.
    """
    drawn = Figure(figsize=(11, 4.6), dpi=130)
    axis = drawn.subplots()
    fronts = [front for model in shown.models if _is_long(front := shown.front(model))]
    band = {"color": "#999999", "alpha": 0.35, "linewidth": 7, "solid_capstyle": "round"}
    for front in fronts:
        _front(axis, front, **band)
    names = [(row["model"], method_of(row["sampler"])) for row in shown.cells]
    ends = _draw_leaders(axis, shown, looks(names), chosen)
    ends += _draw_levels(axis, shown)
    tasks = "–".join(map(str, shown.tasks))
    title = style.label(shown.cells[0]["task"]) if tasks == "1" else f"mean over {tasks} tasks"
    _scales(axis, [shown], title, speed)
    style.fitting_percent(axis, _scores(shown))
    drawn.subplots_adjust(left=0.06, right=0.985, top=0.92, bottom=0.12)
    style.name_ends(axis, ends)
    axis.set_ylabel("mean score (%)", fontsize=9)
    notes = [style.label(speed.full_label)]
    if fronts:
        notes.append("band: Pareto front")
    if any(end.bold for end in ends):
        notes.append("ring: fastest that is as good")
    if shown.has_lids:
        notes.append("dotted: ceiling, the ideal model")
    more = sum(not curve.leads for curve in shown.curves)
    if more:
        notes.append(f"{more} more curves in the table")
    axis.set_xlabel(" · ".join(notes), fontsize=9)
    return drawn


def _draw_leaders(
    axis: Axes,
    shown: SpeedQuality,
    look_of: Mapping[tuple[str, str], Look],
    chosen: Mapping[str, str],
) -> list[style.CurveEnd]:
    """The leading curves, with a ring around the sampler that a model's verdict chose; returns
    where they end, and their names there.
    """
    ends = []
    for curve in shown.curves:
        if not curve.leads:
            continue
        model, kind = curve.model, curve.method
        name = kind if len(shown.models) == 1 else f"{model} · {kind}"
        look = style.drawn_as(look_of[model, kind]) | {"markersize": 5.5, "linewidth": 1.5}
        _curve(axis, curve, label=style.label(name), **look)
        best = [point for point in curve.points if point.sampler == chosen.get(model)]
        for point in best:
            axis.plot(point.rate, point.score, "o", ms=14, mfc="none", mec=RING, mew=1.8)
        last = curve.points[-1]
        if last in best:
            name = name.removesuffix(kind) + last.sampler
        label = style.label(name)
        ends.append(style.CurveEnd(last.rate, last.score, label, look["color"], last in best))
    return ends


def _draw_levels(axis: Axes, shown: SpeedQuality) -> list[style.CurveEnd]:
    """The scores at any speed; returns where they are named."""
    ends = []
    for level in shown.levels:
        label = style.label(f"{level.name} (any speed)")
        _level(axis, level, color="#777777", linestyle="--", label=label)
        ends.append(style.CurveEnd(shown.highest, level.score, label, "#777777"))
    return ends


def _is_long(front: Sequence[tuple[float, float]]) -> bool:
    """Whether a band along a front is more than what a marker covers."""
    if len(front) < 2:
        return False
    (first, high), (last, low) = front[0], front[-1]
    return last > 1.2 * first or high > low + 5


def _scores(shown: SpeedQuality) -> Iterator[float]:
    """What the mean plot must hold: scores, the ends of their intervals, and ceilings."""
    for curve in shown.curves:
        if curve.leads:
            for point in curve.points:
                yield from (point.score, point.low, point.high, point.ceiling)
    for level in shown.levels:
        yield from (level.score, level.low, level.high)


def figure(
    grid: Sequence[Sequence[Panel]],
    measure: str,
    title: str = "",
    methods: Collection[str] = (),
    speed: Axis = STEPS,
) -> Figure:
    """A figure with one panel per model, shared axes, and one legend below.

    Models that report no speed are horizontal lines with their interval: their quality, at any
    speed.

    Args:
        grid: the rows of panels, each (title, cells of a model).
        measure: the label of the score's axis.
        title: of the figure.
        methods: those of all figures of a run, in which each then has one look.
        speed: the axis of speed.
    """
    flat = [panel for row in grid for panel in row]
    panels = [speed_quality(cells, axis=speed) for _, cells in flat]
    x = style.label(speed.full_label)
    if max(len(shown.methods) for shown in panels) > MOST_CURVES:
        panels = [speed_quality(cells, axis=speed, by_policy=True) for _, cells in flat]
        x += " (best over blocks and modifiers)"
    if any(shown.has_lids for shown in panels):
        x += " · dotted: ceiling, the ideal model"
    look_of = _looks_of(panels, methods)
    shape = [len(row) for row in grid]
    keys = max(1, math.ceil(len(look_of) / (2 * max(shape))))
    drawn, axes = style.panels(shape, keys, x, measure, title)
    for axis, (name, cells), shown in zip(axes, flat, panels, strict=True):
        _draw_panel(axis, shown, look_of)
        if not cells:
            style.say(axis, "not measured")
        _scales(axis, panels, name, speed)
    style.legend(drawn, math.ceil(len(look_of) / keys), looks=look_of)
    return drawn


def _draw_panel(axis: Axes, shown: SpeedQuality, look_of: Mapping[str, LineStyle]) -> None:
    """The curves and levels of a panel."""
    by_method = {curve.method: curve for curve in shown.curves}
    weights = np.linspace(1, 1.9, len(by_method))[::-1]  # coinciding curves stay visible
    for weight, (kind, curve) in zip(weights, by_method.items(), strict=True):
        sizes = {"markersize": 3.6 * weight, "linewidth": 1.3 * weight}
        _curve(axis, curve, **{"alpha": 0.95, **look_of[kind], **sizes})
    for level in shown.levels:
        _level(axis, level, **look_of[level.name])


def _looks_of(panels: Iterable[SpeedQuality], methods: Collection[str]) -> dict[str, LineStyle]:
    """Matplotlib's options of each method's curves, then of each level, by their names.

    Args:
        panels: what is drawn.
        methods: those of all figures of a run, in which each has one look.
    """
    kinds: set[str] = set()
    levels: dict[str, None] = {}
    for shown in panels:
        kinds.update(shown.methods)
        levels.update(dict.fromkeys(level.name for level in shown.levels))
    numbers = looks(("", kind) for kind in sorted({*kinds, *methods}, key=natural))
    drawn: dict[str, LineStyle] = {}
    for kind in sorted(kinds, key=natural):
        drawn[kind] = style.drawn_as(numbers["", kind]) | {"markersize": 4, "linewidth": 1.4}
    for number, name in enumerate(levels):
        drawn[name] = {
            "color": COLOURS[-1 - number % 8],
            "linestyle": DASHES[1 + number % 3],
            "linewidth": 1.1,
        }
    return drawn


def speed_figure(cells: Cells) -> Figure:
    """Score over answers per second: a point per model and sampler, with its interval; a line along
    each model's Pareto front. Hollow: a server's wall time, with several requests at once.
    """
    kinds = list(dict.fromkeys(map(category, sorted_tasks(row["task"] for row in cells))))
    models = list(dict.fromkeys(row["model"] for row in cells))
    behind_server = {row["model"] for row in cells if is_elsewhere(row)}
    keys = math.ceil(len(models) / 4)
    drawn, axes = style.panels([len(kinds)], keys, RATE.label, "mean score (%)", sharex=False)
    look_of = {}
    in_legend = {}
    for number, model in enumerate(models):
        look = number_look(number % len(COLOURS)) | {"markersize": 4}
        name = model
        if model in behind_server:
            look["mfc"] = "white"
            name = f"{model} (server)"
        look_of[model] = look
        in_legend[name] = look
    for axis, kind in zip(axes, kinds, strict=True):
        shown = speed_quality([row for row in cells if row["category"] == kind], axis=RATE)
        for model in sorted(shown.models, key=models.index):
            points = [point for curve in shown.of(model) for point in curve.points]
            _points(axis, points, **look_of[model], linestyle="")
            _front(axis, shown.front(model), color=look_of[model]["color"], linewidth=1.2)
        axis.set_xscale("log")
        style.plain_ticks(axis.xaxis)
        style.percent(axis)
        style.finish(axis, style.label(kind))
    style.legend(drawn, min(4, len(models)), looks=in_legend)
    return drawn


def _curve(axis: Axes, curve: Curve, **look: Any) -> None:
    """A curve with its intervals, and its ceilings as a dotted line."""
    _points(axis, curve.points, **look)
    rates = [point.rate for point in curve.points]
    ceilings = [point.ceiling for point in curve.points]
    axis.plot(rates, ceilings, ":", color=look["color"], marker="_", markersize=6, linewidth=0.9)


def _points(axis: Axes, points: Sequence[MeanPoint], **look: Any) -> None:
    """Points with their intervals."""
    style.draw_points(
        axis,
        [point.rate for point in points],
        [point.score for point in points],
        [point.low for point in points],
        [point.high for point in points],
        **look,
    )


def _front(axis: Axes, front: Sequence[tuple[float, float]], **look: Any) -> None:
    """A Pareto front."""
    axis.plot([rate for rate, _ in front], [score for _, score in front], **look)


def _level(axis: Axes, level: MeanPoint, **look: Any) -> None:
    """A score at any speed, with its interval."""
    axis.axhline(level.score, **{"linewidth": 1.1, **look})
    if not math.isnan(level.low):
        axis.axhspan(level.low, level.high, color=look["color"], alpha=0.1, linewidth=0)


def _scales(axis: Axes, panels: Sequence[SpeedQuality], title: str, speed: Axis) -> None:
    """A panel of scores over speed, on a logarithmic scale that holds the points of all `panels`;
    that of tokens per step begins at 1.
    """
    axis.set_xscale("log", base=2)
    top = max(shown.highest for shown in panels)
    if speed == STEPS:
        left = 1.0
        right = max(2.0, top)
        highest = max(1, int(np.ceil(np.log2(max(top, 1.0)))))
        ticks = [2.0**power for power in range(highest + 1)]
    else:
        left = min(shown.lowest for shown in panels)
        right = top
        ticks = style.log_ticks(left, right)
    style.plain_ticks(axis.xaxis, ticks)
    axis.set_xlim(left * 2**-0.25, right * 2**0.25)
    style.percent(axis)
    style.finish(axis, title)


def _rows(flat: list[Panel]) -> list[list[Panel]]:
    """Panels in rows of at most five, filled evenly."""
    rows = math.ceil(len(flat) / 5)
    size = math.ceil(len(flat) / rows)
    return [flat[start : start + size] for start in range(0, len(flat), size)]


def file_part(name: str) -> str:
    """A name as part of a file's name; a long one ends with its digest."""
    part = re.sub(r"[^A-Za-z0-9._-]+", "_", name)
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:10]
    return part if len(part) <= 60 else f"{part[:50]}-{digest}"
