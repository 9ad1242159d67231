"""Figures 3 and 7 from the cells of runs: score over tokens per step, and the oracle of thresholds;
and tokens per step over k independent questions on one canvas (`questions/…-xk`).
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from pbcore.analysis.oracle import oracle
from pbcore.analysis.order import narrow_name, natural, sorted_tasks
from pbcore.analysis.tradeoff import curves
from pbcore.base.errors import InputError
from pbcore.base.printable import counted
from pbcore.names import SamplerName, recorded
from pbcore.report.looks import number_look
from pbcore.report.plots import figure as curve_figure
from pbcore.report.plots import file_part, trade_off_figures
from pbcore.report.style import CsvRow, Drawing, finish, label, legend, panels
from pbcore.results.load import load_stored
from pbcore.results.rundir import StoredCell
from pbcore.results.table_row import frame

LISTS = tuple(
    f"waiting_line/{name}"
    for name in ("copy", "reverse", "replace_index", "replace_random", "shuffle")
)
TEXTS = ("text_writing/paraphrasing", "text_writing/w2s_easy", "text_writing/w2s_hard")
PUZZLES = ("puzzle/latin_square", "puzzle/sudoku")
FIGURE_3 = (*LISTS, *TEXTS, *PUZZLES)
# The 12 tasks of Figure 7; the paper's text says 10.
FIGURE_7 = (*LISTS, "text_writing/summarization", "text_writing/w2s_medium", *TEXTS, *PUZZLES)
SEVERAL = re.compile(r"questions/(.+)-x(\d+)$")
Cells = Sequence[StoredCell]  # each with its headline score, as `read_curves` gives them


def read_curves(paths: Iterable[Path]) -> list[StoredCell]:
    """The scored cells of run directories, dummies left out. Raises InputError if there are
    none.
    """
    scored = []
    for path in paths:
        for stored in load_stored(path):
            cell = stored.cell
            if cell.status == "ok" and cell.headline in cell.scores and not cell.conditions.dummy:
                scored.append(stored)
    if not scored:
        raise InputError("the runs hold no scored cell; give run directories of `pytest benches`")
    return scored


def curve_figures(cells: Cells) -> list[Drawing]:
    """Score over tokens per step of any tasks: their mean, a panel per category and a panel per
    task, as a run's report has them.
    """
    table = frame(stored.cell for stored in cells)
    points = curves(table)
    rows: list[CsvRow] = []
    for row in points.to_dict("records"):
        rows.append({str(name): value for name, value in row.items()})
    drawings = []
    for name, figure in trade_off_figures(table).items():
        drawings.append(Drawing(name.removesuffix(".png"), figure, rows))
    if not drawings:
        raise InputError("no cell of the runs has both a score and tokens per step")
    return drawings


def figure3(cells: Cells) -> list[Drawing]:
    """Score over tokens per step, a panel per task, a curve per policy; one figure per model, which
    names the tasks that it lacks.
    """
    drawings = []
    for model, of_model in _by_model(cells, FIGURE_3):
        table = frame(stored.cell for stored in of_model)
        panels = []
        rows: list[CsvRow] = []
        for task in sorted_tasks(table["task"]):
            of_task = table[table["task"] == task]
            panels.append((narrow_name(task), of_task))
            rows += [{"task": task, **row} for row in _rows(of_task)]
        if not rows:
            continue
        grid = [panels[start : start + 5] for start in range(0, len(panels), 5)]
        shown = {row["task"] for row in rows}
        absent = [narrow_name(task) for task in FIGURE_3 if task not in shown]
        title = f"Figure 3: {model}"
        said = f"Figure 3, {model}: {counted(len(rows), 'point')}"
        if absent:
            title += f" ({len(shown)} of {len(FIGURE_3)} tasks)"
            said += f"; no points of {', '.join(absent)}: these runs don't have them"
        drawn = curve_figure(grid, "score (%)", title)
        drawings.append(Drawing(f"figure3_{file_part(model)}", drawn, rows, said))
    if not drawings:
        raise InputError(f"the runs hold none of Figure 3's tasks: {', '.join(FIGURE_3)}")
    return drawings


def figure7(cells: Cells) -> list[Drawing]:
    """Mean score of the 12 tasks over tokens per step, a curve per policy, and a star: the oracle
    that chooses a threshold for each sample; one figure per model.
    """
    drawings = []
    for model, of_model in _by_model(cells, FIGURE_7):
        table = frame(stored.cell for stored in of_model)
        rows = _rows(table)
        if not rows:
            continue
        count = len({stored.cell.task for stored in of_model})
        title = f"{model}: mean of {count} of the {len(FIGURE_7)} tasks"
        said = [f"Figure 7, {title}"]
        drawn = curve_figure([[(title, table)]], "mean score (%)", "Figure 7")
        star = oracle_mean(of_model)
        if star is not None:
            x = star["tokens_per_step"]
            y = star["score"]
            axis = drawn.axes[0]
            axis.plot([x], [y], "*", color="black", markersize=11)
            axis.annotate("oracle", (x, y), textcoords="offset points", xytext=(7, -9), fontsize=8)
            axis.set_xlim(right=max(axis.get_xlim()[1], 1.7 * x))
            said.append(f"oracle: {y:.1f} % at {x:.2f} tokens per step")
            as_good = [row["tokens_per_step"] for row in rows if row["score"] >= y]
            if as_good:
                said.append(f"fastest sampler with its score: {max(as_good):.2f}")
            else:
                said.append("no sampler reaches its score")
            rows.append({"model": model, **star, "tasks": count})
        drawings.append(Drawing(f"figure7_{file_part(model)}", drawn, rows, "; ".join(said)))
    if not drawings:
        raise InputError(f"the runs hold none of Figure 7's tasks: {', '.join(FIGURE_7)}")
    return drawings


def _by_model(cells: Cells, tasks: Sequence[str]) -> list[tuple[str, Cells]]:
    """Each model with its cells of these tasks, models in the order of their cells."""
    by_model: dict[str, list[StoredCell]] = {}
    for stored in cells:
        of_model = by_model.setdefault(stored.cell.model, [])
        if stored.cell.task in tasks:
            of_model.append(stored)
    return list(by_model.items())


def oracle_mean(cells: Cells) -> CsvRow | None:
    """The oracle of thresholds in one block: means over tasks of score (%), steps and tokens per
    step. None without two thresholds that every task has.
    """
    by_task: defaultdict[str, dict[str, StoredCell]] = defaultdict(dict)
    for stored in cells:
        name = recorded(stored.cell.sampler)
        if name is not None and name == SamplerName("threshold", name.arguments):
            by_task[stored.cell.task][stored.cell.sampler] = stored
    tasks = sorted({stored.cell.task for stored in cells})
    if not tasks:
        return None
    thresholds = set.intersection(*(set(by_task[task]) for task in tasks))
    if len(thresholds) < 2:
        return None
    common = sorted(thresholds, key=natural)
    stars = []
    for task in tasks:
        samples = {sampler: by_task[task][sampler].samples for sampler in common}
        headline = by_task[task][common[0]].cell.headline
        stars.append(oracle(samples, headline))
    return {
        "family": "oracle",
        "sampler": " or ".join(common),
        "tokens_per_step": sum(star.tokens_per_step for star in stars) / len(stars),
        "score": sum(star.score for star in stars) / len(stars),
        "steps": sum(star.nfe for star in stars) / len(stars),
    }


def _rows(table: pd.DataFrame) -> list[CsvRow]:
    """The points of a frame's curves."""
    rows = []
    for row in curves(table).to_dict("records"):
        rows.append({str(column): value for column, value in row.items()})
    return rows


def over_questions(cells: Cells) -> Drawing:
    """A panel per operation, a curve per model and sampler, k = 1 included; dotted: the ideal
    speed-up k, since the questions are independent (DAPD, arXiv 2603.12996, asks five at once).

    `speed-up` is k × the forwards of one question over those of all k. Raises InputError without
    cells for k = 1 and another k.
    """
    lines = _question_lines(cells)
    if not lines:
        raise InputError(
            "the figure needs one question and several: pytest --pyargs pbcore.benches --task"
            " 'questions/shuffle-x*' …"
        )
    operations = list(dict.fromkeys(operation for operation, _, _ in lines))
    names = {(model, sampler) for _, model, sampler in lines}
    ordered = sorted(names, key=lambda name: (name[0], natural(name[1])))
    x = "questions on the canvas, k (dotted: the ideal speed-up)"
    figure, axes = panels([len(operations)], ceil(len(ordered) / 4), x, "tokens per step")
    for axis, operation in zip(axes, operations, strict=True):
        for number, (model, sampler) in enumerate(ordered):
            line = lines.get((operation, model, sampler))
            if line is not None:
                _draw_questions(axis, line, f"{model} {sampler}", number_look(number))
        axis.set_xscale("log", base=2)
        axis.set_yscale("log", base=2)
        for side in (axis.xaxis, axis.yaxis):
            side.set_major_formatter("{x:g}")
        finish(axis, label(operation))
    legend(figure, 4, 7.5)
    rows = []
    said = []
    for line in lines.values():
        for k, row in line.items():
            rows.append(row)
            if k > 1:
                said.append(_question_text(row))
    return Drawing("questions", figure, rows, "\n".join(said))


def _question_lines(cells: Cells) -> dict[tuple[str, str, str], dict[int, CsvRow]]:
    """(operation, model, sampler) → its rows by k, in order; those with one question and with
    several.
    """
    rows: defaultdict[tuple[str, str, str], dict[int, CsvRow]] = defaultdict(dict)
    for stored in cells:
        cell = stored.cell
        match = SEVERAL.match(cell.task)
        if not match or not cell.nfe_mean or not cell.tokens_per_step:
            continue
        operation = match[1]
        k = int(match[2])
        row: CsvRow = {
            "operation": operation,
            "model": cell.model_at,
            "sampler": cell.sampler,
            "k": k,
            "tokens per step": cell.tokens_per_step,
            "forwards": cell.nfe_mean,
        }
        for metric, score in cell.scores.items():
            row[metric] = 100 * score.mean
        rows[operation, cell.model_at, cell.sampler][k] = row
    lines = {}
    for names, by_k in rows.items():
        if 1 in by_k and len(by_k) > 1:
            lines[names] = dict(sorted(by_k.items()))
            for k, row in lines[names].items():
                row["speed-up"] = k * by_k[1]["forwards"] / row["forwards"]
    return lines


def _draw_questions(
    axis: Axes, line: Mapping[int, CsvRow], name: str, look: Mapping[str, Any]
) -> None:
    """A curve of tokens per step over k, and its ideal speed-up.

    Args:
        axis: the panel.
        line: the rows by k, from 1 on.
        name: its name in the legend.
        look: its colour and marker.
    """
    steps = [row["tokens per step"] for row in line.values()]
    ideal = [steps[0] * k for k in line]
    axis.plot(list(line), steps, label=name, **look, markersize=4, linewidth=1.1)
    axis.plot(list(line), ideal, ":", color=look["color"], linewidth=0.8)


def _question_text(row: CsvRow) -> str:
    """A row in words, for the terminal."""
    return (
        f"{row['operation']}-x{row['k']} {row['model']} {row['sampler']}: {row['forwards']:.1f}"
        f" forwards, speed-up {row['speed-up']:.2f} of {row['k']}, {row['accuracy']:.0f} % right,"
        f" all {row['accuracy_all']:.0f} %"
    )
