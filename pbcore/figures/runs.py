"""Figures 3 and 7 from the cells of runs: score over tokens per step, and the oracle of thresholds;
and tokens per step over k independent questions on one canvas (`questions/…-xk`).
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from pbcore.analysis.oracle import oracle
from pbcore.analysis.order import narrow_name, natural, sorted_tasks
from pbcore.analysis.tradeoff import curves
from pbcore.errors import InputError
from pbcore.names import SamplerName, parse
from pbcore.printable import counted
from pbcore.report.looks import number_look
from pbcore.report.plots import figure as curve_figure
from pbcore.report.plots import file_part
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
    stored = [one for path in paths for one in load_stored(path) if not one.cell.conditions.dummy]
    scored = [
        one for one in stored if one.cell.status == "ok" and one.cell.headline in one.cell.scores
    ]
    if not scored:
        raise InputError("the runs hold no scored cell; give run directories of `pytest benches`")
    return scored


def figure3(cells: Cells) -> list[Drawing]:
    """Score over tokens per step, a panel per task, a curve per policy; one figure per model, which
    names the tasks that it lacks.
    """
    drawings = []
    for model, mine in _by_model(cells, FIGURE_3):
        table = frame(one.cell for one in mine)
        each = [(task, table[table["task"] == task]) for task in sorted_tasks(table["task"])]
        rows = [{"task": task, **row} for task, part in each for row in _rows(part)]
        if rows:
            flat = [(narrow_name(task), part) for task, part in each]
            grid = [flat[start : start + 5] for start in range(0, len(flat), 5)]
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
    for model, mine in _by_model(cells, FIGURE_7):
        table = frame(one.cell for one in mine)
        rows = _rows(table)
        if not rows:
            continue
        count = len({one.cell.task for one in mine})
        title = f"{model}: mean of {count} of the {len(FIGURE_7)} tasks"
        said = [f"Figure 7, {title}"]
        drawn = curve_figure([[(title, table)]], "mean score (%)", "Figure 7")
        if (star := oracle_mean(mine)) is not None:
            x = star["tokens_per_step"]
            y = star["score"]
            axis = drawn.axes[0]
            axis.plot([x], [y], "*", color="black", markersize=11)
            axis.annotate("oracle", (x, y), textcoords="offset points", xytext=(7, -9), fontsize=8)
            axis.set_xlim(right=max(axis.get_xlim()[1], 1.7 * x))
            fast = max((row["tokens_per_step"] for row in rows if row["score"] >= y), default=None)
            said.append(f"oracle: {y:.1f} % at {x:.2f} tokens per step")
            said.append(
                f"fastest sampler with its score: {fast:.2f}"
                if fast
                else "no sampler reaches its score"
            )
            rows.append({"model": model, **star, "tasks": count})
        drawings.append(Drawing(f"figure7_{file_part(model)}", drawn, rows, "; ".join(said)))
    if not drawings:
        raise InputError(f"the runs hold none of Figure 7's tasks: {', '.join(FIGURE_7)}")
    return drawings


def _by_model(cells: Cells, tasks: Sequence[str]) -> list[tuple[str, Cells]]:
    """Each model with its cells of these tasks, models in the order of their cells."""
    models = dict.fromkeys(one.cell.model for one in cells)
    return [
        (model, [one for one in cells if one.cell.model == model and one.cell.task in tasks])
        for model in models
    ]


def oracle_mean(cells: Cells) -> CsvRow | None:
    """The oracle of thresholds in one block: means over tasks of score (%), steps and tokens per
    step. None without two thresholds that every task has.
    """
    by_task: defaultdict[str, dict[str, StoredCell]] = defaultdict(dict)
    for one in cells:
        name = parse(one.cell.sampler)
        if name == SamplerName("threshold", name.arguments):
            by_task[one.cell.task][one.cell.sampler] = one
    tasks = sorted({one.cell.task for one in cells})
    common = (
        sorted(set.intersection(*(set(by_task[task]) for task in tasks)), key=natural)
        if tasks
        else []
    )
    if len(common) < 2:
        return None
    stars = [
        oracle(
            {sampler: by_task[task][sampler].samples for sampler in common},
            by_task[task][common[0]].cell.headline,
        )
        for task in tasks
    ]
    return {
        "family": "oracle",
        "sampler": " or ".join(common),
        "tokens_per_step": sum(star.tokens_per_step for star in stars) / len(stars),
        "score": sum(star.score for star in stars) / len(stars),
        "steps": sum(star.nfe for star in stars) / len(stars),
    }


def _rows(table: pd.DataFrame) -> list[CsvRow]:
    return [
        {str(key): value for key, value in row.items()} for row in curves(table).to_dict("records")
    ]


def over_questions(cells: Cells) -> Drawing:
    """A panel per operation, a curve per model and sampler, k = 1 included; dotted: the ideal
    speed-up k, since the questions are independent (DAPD, arXiv 2603.12996, asks five at once).

    `speed-up` is k × the forwards of one question over those of all k. Raises InputError without
    cells for k = 1 and another k.
    """
    found: defaultdict[tuple[str, str, str], dict[int, CsvRow]] = defaultdict(dict)
    for one in cells:
        cell = one.cell
        named = SEVERAL.match(one.cell.task)
        if named and cell.nfe_mean and cell.tokens_per_step:
            row: CsvRow = {
                "operation": named[1],
                "model": cell.model_at,
                "sampler": cell.sampler,
                "k": int(named[2]),
            }
            row |= {"tokens per step": cell.tokens_per_step, "forwards": cell.nfe_mean}
            row |= {name: 100 * one.mean for name, one in cell.scores.items()}
            found[named[1], cell.model_at, cell.sampler][int(named[2])] = row
    curves = {
        name: dict(sorted(of.items())) for name, of in found.items() if 1 in of and len(of) > 1
    }
    if not curves:
        raise InputError(
            "the figure needs one question and several: pytest --pyargs pbcore.benches --task"
            " 'questions/shuffle-x*' …"
        )
    for of in curves.values():
        for k, row in of.items():
            row["speed-up"] = k * of[1]["forwards"] / row["forwards"]
    operations = list(dict.fromkeys(operation for operation, _, _ in curves))
    names = sorted(
        {(model, sampler) for _, model, sampler in curves},
        key=lambda one: (one[0], natural(one[1])),
    )
    x = "questions on the canvas, k (dotted: the ideal speed-up)"
    figure, axes = panels([len(operations)], -(-len(names) // 4), x, "tokens per step")
    for axis, operation in zip(axes, operations, strict=True):
        for number, (model, sampler) in enumerate(names):
            if line := curves.get((operation, model, sampler)):
                look = number_look(number)
                steps = [row["tokens per step"] for row in line.values()]
                axis.plot(
                    list(line),
                    steps,
                    label=f"{model} {sampler}",
                    **look,
                    markersize=4,
                    linewidth=1.1,
                )
                axis.plot(
                    list(line),
                    [steps[0] * k for k in line],
                    ":",
                    color=look["color"],
                    linewidth=0.8,
                )
        axis.set_xscale("log", base=2)
        axis.set_yscale("log", base=2)
        for side in (axis.xaxis, axis.yaxis):
            side.set_major_formatter("{x:g}")
        finish(axis, label(operation))
    legend(figure, 4, 7.5)
    rows = [row for of in curves.values() for row in of.values()]
    said = [
        f"{row['operation']}-x{row['k']} {row['model']} {row['sampler']}: {row['forwards']:.1f}"
        f" forwards, speed-up {row['speed-up']:.2f} of {row['k']}, {row['accuracy']:.0f} % right,"
        f" all {row['accuracy_all']:.0f} %"
        for row in rows
        if row["k"] > 1
    ]
    return Drawing("questions", figure, rows, "\n".join(said))
