"""Score over what differs between cells, such as the length of the canvas."""

from collections import Counter
from collections.abc import Mapping, Sequence
from math import ceil

from matplotlib.axes import Axes

from pbcore.analysis.order import sorted_tasks
from pbcore.base.errors import InputError
from pbcore.base.printable import counted
from pbcore.report import style
from pbcore.report.curve_figures import StoredCells
from pbcore.report.looks import LineStyle, looks, number_look, policy_of
from pbcore.report.style import CsvRow, Drawing
from pbcore.results.questions import lengths_of
from pbcore.results.record import CellRecord, Score
from pbcore.tasks.naming import category
from pbcore.tasks.registry import all_task_names, task_spec

MOST_COLUMNS = 5


def over_length(cells: StoredCells) -> Drawing:
    """Score over canvas length, from runs with different ones: a panel per task, a curve per model
    and sampler. Tasks with a pre-filled canvas are left out. Raises InputError for fewer than two
    lengths, and for a cell that two runs have at the same length.
    """
    rows = []
    for stored in cells:
        length = canvas_length(stored.cell)
        if length is not None:
            rows.append(point(stored.cell, "canvas length", length))
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
    return sweep("length", "Canvas length", "canvas length", rows)


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


def sweep(
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
    panels: dict[str, dict[str, list[CsvRow]]] = {}
    for row in rows:
        panel, curve = _place(row, names)
        panels.setdefault(panel, {}).setdefault(curve, []).append(row)
    look = _looks(rows, names)
    columns = min(MOST_COLUMNS, len(panels))
    rows_of_keys = ceil(len(look) / (2 * columns))
    shape = [min(columns, len(panels) - start) for start in range(0, len(panels), columns)]
    figure, axes = style.panels(shape, rows_of_keys, x, "score (%)")
    for axis, (panel, curves) in zip(axes, panels.items(), strict=True):
        for curve in look:
            if curve in curves:
                _draw(axis, x, curves[curve], look[curve], curve)
        style.percent(axis)
        if x in ("block length", "canvas length"):
            axis.set_xscale("log", base=2)
        style.plain_ticks(axis.xaxis, sorted({row[x] for row in rows}))
        style.finish(axis, style.label(f"{title}: {panel}"))
    style.legend(figure, 2 * columns, 7.5)
    return Drawing(name, figure, rows, f"{title}: {counted(len(rows), 'point')}")


def _place(row: CsvRow, names: Mapping[tuple[str, str], str] | None) -> tuple[str, str]:
    """The panel and the curve of a point."""
    if names:
        return category(row["task"]), names[row["model"], row["task"]]
    return row["task"], f"{row['model']} {row['sampler']}"


def _looks(
    rows: Sequence[CsvRow], names: Mapping[tuple[str, str], str] | None
) -> dict[str, LineStyle]:
    """Matplotlib's options of each curve: its policy's, or its own where curves have names or a
    model has several samplers of one policy.
    """
    of_policies = looks((row["model"], row["sampler"]) for row in rows)
    policies = Counter((model, policy_of(sampler)) for model, sampler in of_policies)
    own = names is not None or max(policies.values(), default=0) > 1
    drawn: dict[str, LineStyle] = {}
    for row in rows:
        _, curve = _place(row, names)
        if curve not in drawn:
            usual = style.drawn_as(of_policies[row["model"], row["sampler"]])
            drawn[curve] = number_look(len(drawn)) if own else usual
    return drawn


def _draw(axis: Axes, x: str, points: list[CsvRow], look: LineStyle, name: str) -> None:
    """A curve with its intervals.

    Args:
        axis: the panel.
        x: the key of its x-axis.
        points: of the curve, in any order.
        look: matplotlib's options.
        name: in the legend.
    """
    line = sorted(points, key=lambda row: float(row[x]))
    style.draw_points(
        axis,
        [float(row[x]) for row in line],
        [row["score"] for row in line],
        [row["low"] for row in line],
        [row["high"] for row in line],
        **look,
        linewidth=1.1,
        markersize=4,
        label=name,
    )


def point(cell: CellRecord, x: str, at: int, score: Score | None = None) -> CsvRow:
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
