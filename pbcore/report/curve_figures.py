"""Figures of any runs: score over tokens per step, and tokens per step over k independent
questions on one canvas (`questions/…-xk`).
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from pathlib import Path

from matplotlib.axes import Axes

from pbcore.analysis.order import natural
from pbcore.analysis.tradeoff import curve_rows
from pbcore.base.errors import InputError
from pbcore.report.looks import LineStyle, number_look
from pbcore.report.plots import trade_off_figures
from pbcore.report.rows import cell_rows
from pbcore.report.style import CsvRow, Drawing, finish, label, legend, panels
from pbcore.results.load import load_stored
from pbcore.results.rundir import StoredCell

SEVERAL = re.compile(r"questions/(.+)-x(\d+)$")
StoredCells = Sequence[StoredCell]  # each with its headline score, as `read_curves` gives them


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


def curve_figures(cells: StoredCells) -> list[Drawing]:
    """Score over tokens per step of any tasks: their mean, a panel per category and a panel per
    task, as a run's report has them.
    """
    table = cell_rows(stored.cell for stored in cells)
    points = curve_rows(table)
    drawings = []
    for name, figure in trade_off_figures(table).items():
        drawings.append(Drawing(name.removesuffix(".png"), figure, points))
    if not drawings:
        raise InputError("no cell of the runs has both a score and tokens per step")
    return drawings


def over_questions(cells: StoredCells) -> Drawing:
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


def _question_lines(cells: StoredCells) -> dict[tuple[str, str, str], dict[int, CsvRow]]:
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


def _draw_questions(axis: Axes, line: Mapping[int, CsvRow], name: str, look: LineStyle) -> None:
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
