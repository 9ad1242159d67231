"""Figures from the cells of runs: 4, score over n; 5, score over block length; 6, the map of tasks;
and score over the length of the canvas.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from math import ceil
from statistics import fmean
from typing import Any

from pbcore.analysis.oracle import block_slope, parallelizability
from pbcore.analysis.order import narrow_name, sorted_tasks
from pbcore.base.errors import InputError
from pbcore.base.printable import counted
from pbcore.figures.runs import Cells
from pbcore.names import SamplerName, recorded
from pbcore.report import style
from pbcore.report.looks import looks, number_look, policy_of
from pbcore.report.style import CsvRow, Drawing
from pbcore.results.questions import lengths_of, redrawn
from pbcore.results.record import CellRecord, Score
from pbcore.results.rundir import StoredCell
from pbcore.results.stats import score_of
from pbcore.tasks.naming import category
from pbcore.tasks.registry import all_task_names, task_spec

LISTS = ("waiting_line", "list_ops")
TOP_K = ("random", "confidence", "margin", "entropy")
MOST_COLUMNS = 5
NEAR = (0.2, 0.8)  # in the units of Figure 6


def figure4(cells: Cells) -> Drawing:
    """Score over n: a panel per list task, a curve per model and sampler. A cell with several n is
    divided by n.
    """
    rows = []
    for stored in cells:
        if category(stored.cell.task) in LISTS:
            rows += [_row(stored.cell, "n", n, score) for n, score in by_length(stored)]
    if len({row["n"] for row in rows}) < 2:
        raise InputError(
            "Figure 4 needs list tasks at two n at least: pytest benches --n 5,10,15,20 …"
        )
    return _curves("figure4", "Figure 4", "n", rows)


def figure5(cells: Cells, k: int = 2) -> Drawing:
    """Score over block length for random top-k: a panel per category, a curve per model and
    task.
    """
    rows = []
    for stored in cells:
        name = _top_k(stored.cell.sampler)
        if name is not None and name.policy == "random" and _k(name) == k:
            rows.append(_row(stored.cell, "block length", name.block or _canvas(stored)))
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
    return _curves("figure5", "Figure 5", "block length", rows, names)


def figure6(cells: Cells) -> Drawing:
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


def over_length(cells: Cells) -> Drawing:
    """Score over canvas length, from runs with different ones: a panel per task, a curve per model
    and sampler. Tasks with a pre-filled canvas are left out. Raises InputError for fewer than two
    lengths, and for a cell that two runs have at the same length.
    """
    rows = []
    for stored in cells:
        length = canvas_length(stored.cell)
        if length is not None:
            rows.append(_row(stored.cell, "canvas length", length))
    if len({row["canvas length"] for row in rows}) < 2:
        raise InputError(
            "the figure needs runs with two canvas lengths at least: pytest benches"
            " --max-new-tokens 32 …, then with 64"
        )
    places = [(row["model"], row["task"], row["sampler"], row["canvas length"]) for row in rows]
    for (model, task, sampler, tokens), count in Counter(places).items():
        if count > 1:
            raise InputError(
                f"{model} {task} {sampler} is in two runs with {tokens} tokens; give one of them"
            )
    return _curves("length", "Canvas length", "canvas length", rows)


def canvas_length(cell: CellRecord) -> int | None:
    """The tokens that a cell's answers had room for: those of --max-new-tokens, else the task's own
    for the longest n. None for a pre-filled canvas, and for a task that isn't known here.
    """
    if cell.task not in all_task_names():
        return None
    spec = task_spec(cell.task)
    if spec.fixed is not None:
        return None
    options = cell.conditions.options
    as_run = spec.with_ways(None, bool(options.get("cot")), options.get("max_new_tokens"), None)
    return max(as_run.tokens(n) for n in lengths_of(cell.length) or (None,))


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


def _places(cells: Cells) -> dict[str, list[tuple[float, float]]]:
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


def _curves(
    name: str,
    title: str,
    x: str,
    rows: list[CsvRow],
    names: Mapping[tuple[str, str], str] | None = None,
) -> Drawing:
    """Score over `x`: a panel per task, a curve per model and sampler in the look of its policy, or
    where a model has several samplers of one policy each in its own; with `names` of model and
    task, a panel per category and a curve for each of them. A curve has one look in all panels.
    """
    order = sorted_tasks(row["task"] for row in rows)
    rows = sorted(rows, key=lambda row: order.index(row["task"]))
    family_looks = looks((row["model"], row["sampler"]) for row in rows)
    policies = Counter((model, policy_of(sampler)) for model, sampler in family_looks)
    own_colours = names is not None or max(policies.values(), default=0) > 1
    panels: dict[str, dict[str, list[CsvRow]]] = {}
    look: dict[str, dict[str, Any]] = {}
    for row in rows:
        model = row["model"]
        task = row["task"]
        sampler = row["sampler"]
        if names:
            panel = category(task)
            curve = names[model, task]
        else:
            panel = task
            curve = f"{model} {sampler}"
        panels.setdefault(panel, {}).setdefault(curve, []).append(row)
        if curve not in look:
            own_look = number_look(len(look))
            look[curve] = own_look if own_colours else style.drawn_as(family_looks[model, sampler])
    columns = min(MOST_COLUMNS, len(panels))
    rows_of_keys = ceil(len(look) / (2 * columns))
    shape = [min(columns, len(panels) - start) for start in range(0, len(panels), columns)]
    figure, axes = style.panels(shape, rows_of_keys, x, "score (%)")
    for axis, (panel, curves) in zip(axes, panels.items(), strict=True):
        for curve in look:
            if curve not in curves:
                continue
            line = sorted(curves[curve], key=lambda row: float(row[x]))
            style.draw_points(
                axis,
                [float(row[x]) for row in line],
                [row["score"] for row in line],
                [row["low"] for row in line],
                [row["high"] for row in line],
                **look[curve],
                linewidth=1.1,
                markersize=4,
                label=curve,
            )
        style.percent(axis)
        if x in ("block length", "canvas length"):
            axis.set_xscale("log", base=2)
        style.plain_ticks(axis.xaxis, sorted({row[x] for row in rows}))
        style.finish(axis, style.label(f"{title}: {panel}"))
    style.legend(figure, 2 * columns, 7.5)
    return Drawing(name, figure, rows, f"{title}: {counted(len(rows), 'point')}")


def _row(cell: CellRecord, x: str, at: int, score: Score | None = None) -> CsvRow:
    """A point: the cell's headline score, or that of a part of it, at a place on the x-axis."""
    if score is None:
        score = cell.scores[cell.headline]
    return {
        "model": cell.model,
        "task": cell.task,
        "sampler": cell.sampler,
        x: at,
        "score": 100 * score.mean,
        "low": 100 * score.low,
        "high": 100 * score.high,
        "samples": score.n,
    }


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
