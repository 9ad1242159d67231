"""Figures 3 and 7 from the cells of runs: score over tokens per step, and the oracle of
thresholds.
"""

from collections import defaultdict
from collections.abc import Sequence

from pbcore.analysis.oracle import oracle
from pbcore.analysis.order import narrow_name, natural, sorted_tasks
from pbcore.analysis.tradeoff import curve_rows
from pbcore.base.errors import InputError
from pbcore.base.printable import counted
from pbcore.names import SamplerName, recorded
from pbcore.report.curve_figures import StoredCells
from pbcore.report.plots import figure as curve_figure
from pbcore.report.plots import file_part
from pbcore.report.rows import cell_rows
from pbcore.report.style import CsvRow, Drawing
from pbcore.results.rundir import StoredCell

LISTS = tuple(
    f"waiting_line/{name}"
    for name in ("copy", "reverse", "replace_index", "replace_random", "shuffle")
)
TEXTS = ("text_writing/paraphrasing", "text_writing/w2s_easy", "text_writing/w2s_hard")
PUZZLES = ("puzzle/latin_square", "puzzle/sudoku")
FIGURE_3 = (*LISTS, *TEXTS, *PUZZLES)
# The 12 tasks of Figure 7; the paper's text says 10.
FIGURE_7 = (*LISTS, "text_writing/summarization", "text_writing/w2s_medium", *TEXTS, *PUZZLES)


def figure3(cells: StoredCells) -> list[Drawing]:
    """Score over tokens per step, a panel per task, a curve per policy; one figure per model, which
    names the tasks that it lacks.
    """
    drawings = []
    for model, of_model in _by_model(cells, FIGURE_3):
        cells_of_model = cell_rows(stored.cell for stored in of_model)
        panels = []
        rows: list[CsvRow] = []
        for task in sorted_tasks(row["task"] for row in cells_of_model):
            of_task = [row for row in cells_of_model if row["task"] == task]
            panels.append((narrow_name(task), of_task))
            rows += [{"task": task, **row} for row in curve_rows(of_task)]
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


def figure7(cells: StoredCells) -> list[Drawing]:
    """Mean score of the 12 tasks over tokens per step, a curve per policy, and a star: the oracle
    that chooses a threshold for each sample; one figure per model.
    """
    drawings = []
    for model, of_model in _by_model(cells, FIGURE_7):
        cells_of_model = cell_rows(stored.cell for stored in of_model)
        rows = curve_rows(cells_of_model)
        if not rows:
            continue
        count = len({stored.cell.task for stored in of_model})
        title = f"{model}: mean of {count} of the {len(FIGURE_7)} tasks"
        said = [f"Figure 7, {title}"]
        drawn = curve_figure([[(title, cells_of_model)]], "mean score (%)", "Figure 7")
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


def _by_model(cells: StoredCells, tasks: Sequence[str]) -> list[tuple[str, StoredCells]]:
    """Each model with its cells of these tasks, models in the order of their cells."""
    by_model: dict[str, list[StoredCell]] = {}
    for stored in cells:
        of_model = by_model.setdefault(stored.cell.model, [])
        if stored.cell.task in tasks:
            of_model.append(stored)
    return list(by_model.items())


def oracle_mean(cells: StoredCells) -> CsvRow | None:
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
