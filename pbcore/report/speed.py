"""Score over answers per second: the one axis on which models behind servers stand beside those that run here."""

from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from pbcore.analysis.order import sorted_tasks
from pbcore.analysis.tradeoff import curves, pareto
from pbcore.report.looks import COLOURS, MARKERS
from pbcore.report.parts import elsewhere
from pbcore.report.style import PANEL, finish, label, percent, points

RATE = "samples_per_second"


def write_speed(cells: pd.DataFrame, folder: Path) -> list[Path]:
    """Writes `speed.png`, a panel per category; nothing unless a model behind a server was timed."""
    if not elsewhere(cells).any():
        return []
    timed = cells[(cells["status"] == "ok") & (cells[RATE] > 0) & cells["score"].notna() & ~cells["dummy"].isin([True])]
    if not elsewhere(timed).any():
        return []
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "speed.png"
    speed_figure(timed).savefig(path)
    return [path]


def speed_figure(cells: pd.DataFrame) -> Figure:
    """A point per model and sampler, with its interval; a line along each model's Pareto front. Hollow: a server's wall
    time, with several requests at once.
    """
    categories = list(dict.fromkeys(task.split("/", 1)[0] for task in sorted_tasks(cells["task"])))
    models = list(dict.fromkeys(cells["model"]))
    behind = set(cells[elsewhere(cells)]["model"])
    drawn = Figure(figsize=(PANEL[0] * len(categories) + 0.4, PANEL[1] + 0.75), dpi=150)
    axes = drawn.subplots(1, len(categories), sharey=True, squeeze=False)[0]
    for axis, category in zip(axes, categories, strict=True):
        table = curves(cells[cells["category"] == category], RATE)
        for number, model in enumerate(models):
            own = table[table["model"] == model]
            if not own.empty:
                _points(axis, own, COLOURS[number % 8], MARKERS[number % 8], model in behind)
        axis.set_xscale("log")
        axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.xaxis.set_minor_locator(NullLocator())
        percent(axis)
        finish(axis, label(category))
    handles = [
        axes[0].plot([], [], color=COLOURS[i % 8], marker=MARKERS[i % 8], mfc=_fill(i, model in behind), markersize=4)[
            0
        ]
        for i, model in enumerate(models)
    ]
    names = [label(f"{model} (server)" if model in behind else model) for model in models]
    drawn.legend(handles, names, loc="lower center", ncols=max(1, min(4, len(models))), fontsize=8, frameon=False)
    drawn.supylabel("mean score (%)", fontsize=9, x=0.01)
    drawn.supxlabel("answers per second", fontsize=9, y=0.11)
    drawn.subplots_adjust(
        left=0.62 / (PANEL[0] * len(categories) + 0.4), right=0.985, top=0.9, bottom=0.28, wspace=0.08
    )
    return drawn


def _fill(number: int, hollow: bool) -> str:
    return "white" if hollow else COLOURS[number % 8]


def _points(axis: Axes, table: pd.DataFrame, colour: str, marker: str, hollow: bool) -> None:
    look = {"color": colour, "marker": marker, "mfc": "white" if hollow else colour, "linestyle": "", "markersize": 4}
    points(axis, table[RATE], table["score"], table["low"], table["high"], **look)
    front = pareto(zip(table[RATE], table["score"], strict=True))
    axis.plot([a for a, _ in front], [b for _, b in front], color=colour, linewidth=1.2)
