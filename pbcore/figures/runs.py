"""Figures 3 and 7 from the cells of runs: score over tokens per step, and the oracle of thresholds."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from pbcore.analysis.oracle import oracle
from pbcore.analysis.order import natural, short, sorted_tasks
from pbcore.analysis.tradeoff import curves
from pbcore.errors import InputError
from pbcore.figures.figure_io import Drawing, Row
from pbcore.names import SamplerName, parse
from pbcore.printable import counted
from pbcore.report.plots import figure as curve_figure
from pbcore.results.load import load_stored
from pbcore.results.record import CellRecord, Score
from pbcore.results.rundir import StoredCell
from pbcore.results.table_row import frame

LISTS = tuple(f"waiting_line/{name}" for name in ("copy", "reverse", "replace_index", "replace_random", "shuffle"))
TEXTS = ("text_writing/paraphrasing", "text_writing/w2s_easy", "text_writing/w2s_hard")
PUZZLES = ("puzzle/latin_square", "puzzle/sudoku")
FIGURE_3 = (*LISTS, *TEXTS, *PUZZLES)
# The 12 tasks of Figure 7; the paper's text says 10.
FIGURE_7 = (*LISTS, "text_writing/summarization", "text_writing/w2s_medium", *TEXTS, *PUZZLES)
Cells = Sequence[StoredCell]


def read(paths: Iterable[Path]) -> list[StoredCell]:
    """The scored cells of run directories, dummies left out.

    Raises InputError if there are none, and for a cell that occurs twice.
    """
    cells = [one for path in paths for one in load_stored(path) if one.cell.status == "ok" and headline(one.cell)]
    real = [one for one in cells if not one.cell.conditions.dummy]
    if not real:
        raise InputError("the runs hold no scored cell; give run directories of `pytest benches`")
    return real


def headline(cell: CellRecord) -> Score | None:
    """A cell's headline score."""
    return cell.scores.get(cell.headline)


def models(cells: Cells) -> list[str]:
    """The models in the order of their cells."""
    return list(dict.fromkeys(one.cell.model for one in cells))


def figure3(cells: Cells) -> list[Drawing]:
    """Score over tokens per step, a panel per task, a curve per policy; one figure per model."""
    drawings = []
    for model in models(cells):
        table = frame(one.cell for one in cells if one.cell.model == model and one.cell.task in FIGURE_3)
        tasks = sorted_tasks(table["task"])
        each = [(short(task), table[table["task"] == task]) for task in tasks]
        grid = [each[start : start + 5] for start in range(0, len(each), 5)]
        rows: list[Row] = []
        for task in tasks:
            rows += [{"task": task, **row} for row in _rows(table[table["task"] == task])]
        if rows:
            drawn = curve_figure(grid, "score (%)", f"Figure 3: {model}")
            drawings.append(
                Drawing(f"figure3_{file_part(model)}", drawn, rows, f"Figure 3, {model}: {counted(len(rows), 'point')}")
            )
    if not drawings:
        raise InputError(f"the runs hold none of Figure 3's tasks: {', '.join(FIGURE_3)}")
    return drawings


def figure7(cells: Cells) -> list[Drawing]:
    """Mean score of the 12 tasks over tokens per step, a curve per policy, and a star: the oracle that chooses a
    threshold for each sample; one figure per model."""
    drawings = []
    for model in models(cells):
        mine = [one for one in cells if one.cell.model == model and one.cell.task in FIGURE_7]
        table = frame(one.cell for one in mine)
        rows = _rows(table)
        if not rows:
            continue
        count = len({one.cell.task for one in mine})
        title = f"{model}: mean of {count} of the {len(FIGURE_7)} tasks"
        drawn = curve_figure([[(title, table)]], "mean score (%)", "Figure 7")
        star = oracle_mean(mine)
        if star is not None:
            rows.append({"model": model, **star, "tasks": count})
            x, y = star["tokens_per_step"], star["score"]
            axis = drawn.axes[0]
            axis.plot([x], [y], "*", color="black", markersize=11)
            axis.annotate("oracle", (x, y), textcoords="offset points", xytext=(7, -9), fontsize=8)
            axis.set_xlim(right=max(axis.get_xlim()[1], 1.7 * x))
        drawings.append(Drawing(f"figure7_{file_part(model)}", drawn, rows, _said(title, rows, star)))
    if not drawings:
        raise InputError(f"the runs hold none of Figure 7's tasks: {', '.join(FIGURE_7)}")
    return drawings


def oracle_mean(cells: Cells) -> Row | None:
    """The oracle of thresholds in one block: means over tasks of score (%), steps and tokens per step.

    None without two thresholds that every task has.
    """
    by_task: defaultdict[str, dict[str, StoredCell]] = defaultdict(dict)
    for one in cells:
        name = parse(one.cell.sampler)
        if name == SamplerName("threshold", name.arguments):
            by_task[one.cell.task][one.cell.sampler] = one
    tasks = sorted({one.cell.task for one in cells})
    common = sorted(set.intersection(*(set(by_task[task]) for task in tasks)), key=natural) if tasks else []
    if len(common) < 2:
        return None
    stars = [
        oracle({sampler: by_task[task][sampler].samples for sampler in common}, by_task[task][common[0]].cell.headline)
        for task in tasks
    ]
    return {
        "family": "oracle",
        "sampler": " or ".join(common),
        "tokens_per_step": sum(star.tokens_per_step for star in stars) / len(stars),
        "score": sum(star.score for star in stars) / len(stars),
        "steps": sum(star.nfe for star in stars) / len(stars),
    }


def file_part(name: str) -> str:
    """A model's name as part of a file's name."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", name)


def _rows(table: pd.DataFrame) -> list[Row]:
    return [{str(key): value for key, value in row.items()} for row in curves(table).to_dict("records")]


def _said(title: str, rows: Sequence[Row], star: Row | None) -> str:
    lines = [f"Figure 7, {title}"]
    if star is not None:
        others = [row["tokens_per_step"] for row in rows if row["family"] != "oracle" and row["score"] >= star["score"]]
        lines.append(f"oracle: {star['score']:.1f} % at {star['tokens_per_step']:.2f} tokens per step")
        lines.append(f"fastest sampler with its score: {max(others):.2f}" if others else "no sampler reaches its score")
    return "; ".join(lines)
