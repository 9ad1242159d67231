"""Trade-off curves as PNG: score over tokens per step, a curve per policy family, a panel per category or task."""

import hashlib
import re
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from pbcore.analysis.order import natural, sorted_tasks
from pbcore.analysis.tradeoff import beside_ceilings, curves, leading, level_lines, pareto
from pbcore.report.looks import COLOURS, Look, looks
from pbcore.report.parts import elsewhere
from pbcore.report.style import PANEL, drawn_as, finish, label, percent, points

MEANS = "curves.png"
MOST_CURVES = 10
MOST_PANELS = 24  # of all figures by category and task; a larger run has them in report.html


def write_plots(cells: pd.DataFrame, folder: Path) -> list[Path]:
    """Writes `curves.png` (means over all tasks), `categories.png` (a row per model, a column per category) and
    `curves_<category>_<model>.png` (a panel per task); the latter two as far as `MOST_PANELS` panels go.

    Writes nothing and returns an empty list unless a model other than a dummy has a scored cell.
    """
    real = cells[(~cells["dummy"].isin([True])) & (cells["status"] == "ok") & cells["score"].notna()]
    levels = real[real["tokens_per_step"].isna() & elsewhere(real)]
    real = real[real["tokens_per_step"] > 0]
    if real.empty:
        return []
    folder.mkdir(parents=True, exist_ok=True)
    models = list(dict.fromkeys(real["model"]))
    categories = list(dict.fromkeys(task.split("/", 1)[0] for task in sorted_tasks(real["task"])))
    panels = [
        [(label(f"{model} · {category}"), _with(levels, _where(real, model, category))) for category in categories]
        for model in models
    ]
    families = {family for row in panels for _, cells in row for family in curves(cells)["family"]}
    whole = _with(levels, real)
    files = [_save(mean_figure(whole), folder / MEANS)] if len(curves(whole)) else []
    if len(categories) > 1 and len(categories) * len(models) <= MOST_PANELS:
        files.append(_save(figure(panels, "mean score (%)", families=families), folder / "categories.png"))
    if len(real[["model", "task"]].drop_duplicates()) > MOST_PANELS:
        return files
    for category in categories:
        for model in models:
            selected = _where(real, model, category)
            tasks = sorted_tasks(selected["task"])
            if len(tasks) > 1:
                each = {task: _with(levels, selected[selected["task"] == task]) for task in tasks}
                grid = _rows([(label(task.split("/", 1)[-1]), panel) for task, panel in each.items()])
                name = f"curves_{_file_part(category)}_{_file_part(model)}.png"
                drawn = figure(grid, "score (%)", label(f"{model}: {category}"), families)
                files.append(_save(drawn, folder / name))
    return files


def mean_figure(cells: pd.DataFrame) -> Figure:
    """One wide plot: mean score over all tasks over tokens per step, the `MOST_CURVES` leading curves of all models
    with their intervals and ceilings, and each model's Pareto front as a broad band."""
    table = beside_ceilings(curves(cells), cells)
    models = list(dict.fromkeys(table["model"]))
    shown = leading(table, MOST_CURVES)
    known = looks(zip(table["model"], table["family"], strict=True))
    drawn = Figure(figsize=(11, 4.6), dpi=130)
    axis = drawn.subplots()
    for _, group in table.groupby("model", sort=False):
        front = pareto(zip(group["tokens_per_step"], group["score"], strict=True))
        xs, ys = [x for x, _ in front], [y for _, y in front]
        axis.plot(xs, ys, color="#999999", alpha=0.35, linewidth=7, solid_capstyle="round")
    for name, look in known.items():
        if name in shown:
            line = table[(table["model"] == name[0]) & (table["family"] == name[1])]
            looked = drawn_as(look)
            values = (line[key] for key in ("tokens_per_step", "score", "low", "high"))
            called = name[1] if len(models) == 1 else f"{name[0]} · {name[1]}"
            points(axis, *values, **looked, markersize=5.5, linewidth=1.5, label=label(called))
            axis.plot(
                line["tokens_per_step"], line["ceiling"], color=looked["color"], linestyle=":", marker="_", linewidth=1
            )
    for any_speed, (score, low, high) in level_lines(cells).items():
        axis.axhline(score, color="#777777", linestyle="--", linewidth=1.1, label=label(f"{any_speed} (any speed)"))
        axis.axhspan(low, high, color="#777777", alpha=0.1, linewidth=0)
    tasks = sorted({int(count) for count in table["tasks"]})
    _rates(axis, float(table["tokens_per_step"].max()))
    percent(axis)
    finish(axis, f"mean over {'–'.join(map(str, tasks))} tasks" if tasks != [1] else label(cells["task"].iloc[0]))
    axis.set_ylabel("mean score (%)", fontsize=9)
    notes = ["tokens per step", "band: Pareto front"]
    notes += ["dotted: ceiling, the ideal model"] if (table["ceiling"] < 99.95).any() else []
    hidden = len(known) - len(shown)
    notes += [f"{hidden} more curves in the table"] if hidden else []
    axis.set_xlabel(" · ".join(notes), fontsize=9)
    axis.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=8.5, frameon=False)
    drawn.subplots_adjust(left=0.06, right=0.79, top=0.92, bottom=0.12)
    return drawn


def figure(
    panels: Sequence[Sequence[tuple[str, pd.DataFrame]]],
    measure: str,
    title: str = "",
    families: Collection[str] = (),
) -> Figure:
    """A figure with one panel per (title, cells), shared axes, and one legend below. `families` are those of all
    figures of a run, in which each then has one look.

    Models that report no tokens per step are horizontal lines with their interval: their quality, at any speed.
    """
    flat = [[level_lines(cells) for _, cells in row] for row in panels]
    without = list(dict.fromkeys(name for row in flat for lines in row for name in lines))
    shades = {name: (COLOURS[-1 - i % 8], ("--", ":", "-.")[i % 3]) for i, name in enumerate(without)}
    tables = [[(name, beside_ceilings(curves(cells), cells)) for name, cells in row] for row in panels]
    below = any((table["ceiling"] < 99.95).any() for row in tables for _, table in row)
    fronts = max((table["family"].nunique() for row in tables for _, table in row), default=0) > MOST_CURVES
    data = [[(name, _lines(table, fronts)) for name, table in row] for row in tables]
    here = sorted({family for row in data for _, lines in row for family in lines}, key=natural)
    known = looks(("", family) for family in sorted({*here, *families}, key=natural))
    styles = {family: known["", family] for family in here}
    columns = max(len(row) for row in panels)
    legend_rows = max(1, -(-(len(here) + len(without)) // (2 * columns)))
    head, foot = 0.36 if title else 0.05, 0.42 + 0.2 * legend_rows
    height = PANEL[1] * len(panels) + head + foot
    drawn = Figure(figsize=(PANEL[0] * columns + 0.4, height), dpi=150)
    axes = drawn.subplots(len(panels), columns, sharex=True, sharey=True, squeeze=False)
    top = max(
        (line["tokens_per_step"].max() for row in data for _, lines in row for line in lines.values()), default=1.0
    )
    for axis_row, row, levels, cells in zip(axes, data, flat, panels, strict=True):
        for number, axis in enumerate(axis_row):
            if number < len(row):
                _panel(axis, *row[number], styles, top)
                if cells[number][1].empty:
                    axis.text(0.5, 0.5, "not measured", transform=axis.transAxes, ha="center", fontsize=8, color="#777")
                for name, (score, low, high) in levels[number].items():
                    colour, dashes = shades[name]
                    axis.axhline(score, color=colour, linestyle=dashes, linewidth=1.1)
                    axis.axhspan(low, high, color=colour, alpha=0.1, linewidth=0)
            else:
                axis.set_visible(False)
    _under_gaps(axes, [len(row) for row in data])
    drawn.supylabel(measure, fontsize=9, x=0.01)
    drawn.text(
        0.5,
        (foot - 0.3) / height,
        "tokens per step"
        + (" (best over blocks and modifiers)" if fronts else "")
        + (" · dotted: ceiling, the ideal model" if below else ""),
        ha="center",
        fontsize=9,
    )
    handles = [axes[0][0].plot([], [], **drawn_as(look), markersize=4, linewidth=1.4)[0] for look in styles.values()]
    handles += [axes[0][0].plot([], [], color=c, linestyle=s, linewidth=1.1)[0] for c, s in shades.values()]
    drawn.legend(
        handles,
        [label(text) for text in (*styles, *without)],
        loc="lower center",
        ncols=max(1, -(-(len(here) + len(without)) // legend_rows)),
        fontsize=8,
        frameon=False,
    )
    if title:
        drawn.suptitle(title, fontsize=11, y=1 - 0.12 / height)
    drawn.subplots_adjust(
        left=0.62 / (PANEL[0] * columns + 0.4),
        right=0.985,
        top=1 - (head + 0.28) / height,
        bottom=(foot + 0.12) / height,
        wspace=0.08,
        hspace=0.24,
    )
    return drawn


def _with(levels: pd.DataFrame, cells: pd.DataFrame) -> pd.DataFrame:
    """The cells of a panel, with those of models without tokens per step for the same tasks."""
    same = levels[levels["task"].isin(set(cells["task"]))]
    return cells if same.empty else pd.concat([cells, same])


def _panel(axis: Axes, title: str, lines: dict[str, pd.DataFrame], styles: dict[str, Look], top: float) -> None:
    for number, (family, line) in enumerate(lines.items()):
        look = drawn_as(styles[family])
        weight = 1 + 0.9 * (len(lines) - 1 - number) / max(
            1, len(lines) - 1
        )  # curves that coincide stay visible under each other
        x = line["tokens_per_step"]
        points(
            axis,
            x,
            *(line[name] for name in ("score", "low", "high")),
            **look,
            alpha=0.95,
            markersize=3.6 * weight,
            linewidth=1.3 * weight,
        )
        axis.plot(x, line["ceiling"], color=look["color"], linestyle=":", marker="_", markersize=6, linewidth=0.9)
    _rates(axis, top)
    percent(axis)
    finish(axis, title)


def _rates(axis: Axes, top: float) -> None:
    """An axis of tokens per step up to `top`, log scale."""
    axis.set_xscale("log", base=2)
    highest = max(1, int(np.ceil(np.log2(max(top, 1.0)))))
    axis.xaxis.set_major_locator(FixedLocator([2.0**power for power in range(highest + 1)]))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_xlim(2**-0.25, max(2.0, top) * 2**0.25)


def _lines(table: pd.DataFrame, fronts: bool) -> dict[str, pd.DataFrame]:
    """family → its points by rising rate; with `fronts`, for grids with many families, policy → its Pareto front."""
    if not fronts:
        return {str(family): group for family, group in table.groupby("family")}
    lines = {}
    for policy, group in table.groupby(table["family"].str.split("+").str[0]):
        front = set(pareto(zip(group["tokens_per_step"], group["score"], strict=True)))
        keep = [point in front for point in zip(group["tokens_per_step"], group["score"], strict=True)]
        lines[str(policy)] = group[keep].drop_duplicates(["tokens_per_step", "score"]).sort_values("tokens_per_step")
    return lines


def _under_gaps(axes: np.ndarray, counts: list[int]) -> None:
    """Shows x-axis labels on panels without a panel below."""
    for row in range(len(counts) - 1):
        for column in range(counts[row + 1], counts[row]):
            axes[row][column].tick_params(labelbottom=True)


def _rows(panels: list[tuple[str, pd.DataFrame]]) -> list[list[tuple[str, pd.DataFrame]]]:
    """Panels in rows of at most five, filled evenly."""
    rows = -(-len(panels) // 5)
    size = -(-len(panels) // rows)
    return [panels[start : start + size] for start in range(0, len(panels), size)]


def _where(cells: pd.DataFrame, model: str, category: str) -> pd.DataFrame:
    return cells[(cells["model"] == model) & (cells["category"] == category)]


def _file_part(name: str) -> str:
    """A name as part of a file's name; a long one ends with its digest."""
    part = re.sub(r"[^A-Za-z0-9._-]+", "_", name)
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:10]
    return part if len(part) <= 60 else f"{part[:50]}-{digest}"


def _save(drawn: Figure, path: Path) -> Path:
    drawn.savefig(path)
    return path
