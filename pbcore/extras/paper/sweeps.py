"""Figures from the cells of runs: 4, score over n; 5, score over block length; 6, the map of
tasks.
"""

from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean

from pbcore.analysis.oracle import block_slope, parallelizability
from pbcore.analysis.order import narrow_name, sorted_tasks
from pbcore.base.errors import InputError
from pbcore.base.printable import counted
from pbcore.names import SamplerName, recorded
from pbcore.report import style
from pbcore.report.curve_figures import StoredCells
from pbcore.report.looks import number_look
from pbcore.report.style import CsvRow, Drawing
from pbcore.report.sweeps import point, sweep
from pbcore.results.questions import lengths_of, redrawn
from pbcore.results.record import Score
from pbcore.results.rundir import StoredCell
from pbcore.results.stats import score_of
from pbcore.tasks.naming import category

LISTS = ("waiting_line", "list_ops")
TOP_K = ("random", "confidence", "margin", "entropy")
NEAR = (0.2, 0.8)  # in the units of Figure 6


def figure4(cells: StoredCells) -> Drawing:
    """Score over n: a panel per list task, a curve per model and sampler. A cell with several n is
    divided by n.
    """
    rows = []
    for stored in cells:
        if category(stored.cell.task) in LISTS:
            rows += [point(stored.cell, "n", n, score) for n, score in by_length(stored)]
    if len({row["n"] for row in rows}) < 2:
        raise InputError(
            "Figure 4 needs list tasks at two n at least: pytest benches --n 5,10,15,20 …"
        )
    return sweep("figure4", "Figure 4", "n", rows)


def figure5(cells: StoredCells, k: int = 2) -> Drawing:
    """Score over block length for random top-k: a panel per category, a curve per model and
    task.
    """
    rows = []
    for stored in cells:
        name = _top_k(stored.cell.sampler)
        if name is not None and name.policy == "random" and _k(name) == k:
            rows.append(point(stored.cell, "block length", name.block or _canvas(stored)))
    # Different tasks have different canvases, so that lengths count for each model and task.
    curves = {(row["model"], row["task"]) for row in rows}
    points = {(row["model"], row["task"], row["block length"]) for row in rows}
    if len(points) == len(curves):
        raise InputError(
            f"Figure 5 needs two block lengths at least: --sampler random-k{k}+b4 --sampler"
            f" random-k{k} …"
        )
    several = len({model for model, _ in curves}) > 1
    names = {}
    for model, task in curves:
        name_of_task = narrow_name(task)
        names[model, task] = f"{model} {name_of_task}" if several else name_of_task
    return sweep("figure5", "Figure 5", "block length", rows, names)


def figure6(cells: StoredCells) -> Drawing:
    """The map of tasks: x parallelizability (small = hard to parallelize), y what smaller blocks
    gain at k = 2. Each is a mean over the models and those of the four top-k policies that were run
    over k, and over blocks.
    """
    places = _places(cells)
    rows: list[CsvRow] = []
    for task in sorted_tasks(places):
        row = {
            "task": task,
            "parallelizability": fmean(x for x, _ in places[task]),
            "gain per halved block": round(fmean(y for _, y in places[task]), 9) + 0.0,
            "curves": len(places[task]),
        }
        rows.append(row)
    if not rows:
        raise InputError(
            "Figure 6 needs top-k over k and, at k = 2, over blocks: --sampler random-k1 …"
            " random-k2+b4 …"
        )
    x_label = "parallelizability (tokens per step; right: harder)"
    figure, [axis] = style.panels([1], 0, x_label, "points gained per halved block, k = 2")
    figure.set_size_inches(6.4, 4.4)
    figure.subplots_adjust(left=0.11, right=0.97, top=0.93, bottom=0.14)
    for number, name in enumerate(dict.fromkeys(category(row["task"]) for row in rows)):
        group = [row for row in rows if category(row["task"]) == name]
        xs = [float(row["parallelizability"]) for row in group]
        ys = [float(row["gain per halved block"]) for row in group]
        axis.plot(xs, ys, **number_look(number), linestyle="", markersize=5, label=name)
    for (x, y), together in _close(rows).items():
        text = ", ".join(style.label(narrow_name(task)) for task in together)
        axis.annotate(text, (x, y), textcoords="offset points", xytext=(4, 4), fontsize=7)
    axis.axhline(0, color="#BBBBBB", linewidth=0.8, zorder=0)
    axis.invert_xaxis()  # harder to the right, as in the paper
    axis.legend(fontsize=7.5, frameon=False)
    style.finish(axis, style.label("Figure 6"))
    return Drawing("figure6", figure, rows, f"Figure 6: {counted(len(rows), 'task')}")


def _close(rows: Sequence[CsvRow]) -> dict[tuple[float, float], list[str]]:
    """Place → the tasks there, or so close that their names would cover each other."""
    places: dict[tuple[float, float], list[str]] = {}
    for row in rows:
        x = row["parallelizability"]
        y = row["gain per halved block"]
        near = [at for at in places if abs(at[0] - x) < NEAR[0] and abs(at[1] - y) < NEAR[1]]
        place = near[0] if near else (x, y)
        places.setdefault(place, []).append(row["task"])
    return places


def by_length(stored: StoredCell) -> list[tuple[int, Score]]:
    """The headline score for each n among a cell's samples, which are those of the task as
    generated again. Raises InputError if the task's samples are others now.
    """
    cell = stored.cell
    lengths = lengths_of(stored.cell.length)
    if len(lengths) < 2:
        return [(n, cell.scores[cell.headline]) for n in lengths]
    task = redrawn(
        cell.task, cell.length, cell.n_samples, cell.conditions.options, cell.conditions.data_hash
    )
    if task is None:
        raise InputError(
            f"{cell.id}: can't divide its samples by n, this version has others; run it again"
        )
    groups: defaultdict[int, list[float]] = defaultdict(list)
    for sample in stored.samples:
        groups[task.samples[sample.index].length or 0].append(sample.scores[cell.headline])
    return [(n, score_of(cell.headline, values)) for n, values in sorted(groups.items())]


def _places(cells: StoredCells) -> dict[str, list[tuple[float, float]]]:
    """Task → (parallelizability, gain per halved block) of each model and policy that has both."""
    by_k: defaultdict[tuple[str, str, str], dict[int, float]] = defaultdict(dict)
    by_block: defaultdict[tuple[str, str, str], dict[int, float]] = defaultdict(dict)
    for stored in cells:
        cell = stored.cell
        name = _top_k(cell.sampler)
        if name is None or name.policy not in TOP_K:
            continue
        k = _k(name)
        place = (cell.task, cell.model, name.policy)
        mean = 100 * cell.scores[cell.headline].mean
        if name.block is None:
            by_k[place][k] = mean
        if k == 2:
            by_block[place][name.block or _canvas(stored)] = mean
    places: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for place, scores in by_k.items():
        x = parallelizability(scores) if len(scores) > 1 else None
        if x is not None and len(by_block[place]) > 1:
            places[place[0]].append((x, block_slope(by_block[place])))
    return places


def _top_k(sampler: str) -> SamplerName | None:
    """The name of a plain top-k sampler, with or without blocks; None for others."""
    name = recorded(sampler)
    if name is None or name != SamplerName(name.policy, name.arguments, name.block):
        return None
    return name if [word for word, _ in name.arguments] == ["k"] else None


def _k(name: SamplerName) -> int:
    """The tokens per step of a top-k sampler."""
    return int(name.arguments[0][1])


def _canvas(stored: StoredCell) -> int:
    """The canvas length of a cell, its largest block."""
    return max((sample.canvas_tokens or 0 for sample in stored.samples), default=0)
