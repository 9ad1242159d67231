"""Tables of scores, a row per sampler, grouped by model, and a column per task: of a whole run and
of a category, and the trade-off table, which has tokens per step beside them.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from math import isnan
from operator import itemgetter
from textwrap import wrap

from pbcore.analysis.order import narrow_name
from pbcore.base import tabular
from pbcore.base.grouping import grouped
from pbcore.base.printable import fixed, printable
from pbcore.base.text import md, name
from pbcore.report.captions import scores_caption
from pbcore.report.cells import (
    NONE,
    interval_text,
    is_elsewhere,
    or_dash,
    prompts_note,
    rates_beside,
    rows_differ,
    samples_a_cell,
    served_notes,
)
from pbcore.report.columns import MODEL, SAMPLER, Column, decimals, of_measure, score_column
from pbcore.report.rows import CellRow, TaskRow
from pbcore.report.scopes import MeansRow, Scope, overview
from pbcore.report.sections import Section
from pbcore.results.measures import ROWS_NOTE, Measure, page_columns
from pbcore.results.table_row import Row
from pbcore.tasks.naming import category, short

NOT_RUN = "·"
FAILED = "error"
BY_TASK = ("tokens_per_step", "tokens_per_row")  # the rates that each task's score is told with
UNSCORED = "some task has no score; the column “not measured, and why” has the reason"
CATEGORY = [of_measure(measure) for measure in page_columns("category")]


def mark(cell: TaskRow, places: int = 0) -> str:
    """A cell's score in %, or why there is none."""
    if isnan(cell["score"]):
        return {"absent": NOT_RUN, "ok": NONE}.get(cell["status"], FAILED)
    return fixed(cell["score"], places)


def with_interval(cell: TaskRow, places: int = 0) -> str:
    """`88 [70–95]`; the score alone where its interval isn't known, or why there is none."""
    return mark(cell, places) + interval_text(cell["low"], cell["high"])


def scores_table(whole: Scope) -> Section:
    """Scores of all tasks at a glance: a row per model and sampler, a column per task, grouped by
    category, and the mean.
    """
    mean = decimals("score", "mean", 1, "plain mean over the model's tasks", none=UNSCORED)
    mean = replace(mean, bounds=itemgetter("low", "high"), best="high")
    columns = [MODEL, SAMPLER, mean, *map(of_measure, rates_beside(whole.records))]
    heads = [("", len(columns))]
    for kind, members in grouped(whole.tasks, category).items():
        for task in members:
            own = task.partition("/")[2]  # the category stands above
            columns.append(task_column(task, mark, printable(own, 40)))
        heads.append((kind.replace("_", " "), len(members)))
    return Section(
        title="scores of all tasks",
        short="scores",
        note="",
        columns=columns,
        rows=overview(whole),
        caption="score in %; the redder, the lower; click one for its answers",
        said=scores_caption(whole.records),
        groups=heads,
    )


def category_table(scope: Scope) -> Section:
    """Scores of a category: a row per model and sampler, the means over its tasks, and a column per
    task.
    """
    mean = score_column("mean", "plain mean over the model's tasks", UNSCORED)
    columns = [MODEL, SAMPLER, mean, *CATEGORY]
    columns += [task_column(task, with_interval) for task in scope.tasks]
    return Section(
        title=f"{scope.title}: scores",
        short=scope.title,
        note="",
        columns=columns,
        rows=overview(scope),
        caption="score in % [95 % interval]; each opens its samples; the redder, the lower",
        said=scores_caption(scope.records, scope.title.replace("_", " ")),
    )


def task_column(task: str, shown: Callable[[TaskRow], str], head: str = "") -> Column:
    """A task's scores among those of others.

    Args:
        task: its name.
        shown: what a cell's entry says.
        head: that of the column; the task's short name by default.
    """

    def text_of(row: Row) -> str:
        return shown(row["cells"][task])

    def score(row: Row) -> float:
        cell: TaskRow = row["cells"][task]
        return cell["score"]

    def bounds(row: Row) -> tuple[float, float]:
        cell: TaskRow = row["cells"][task]
        return cell["low"], cell["high"]

    return Column(
        head or printable(short(task), 40),
        text_of,
        score,
        task,
        task=task,
        align="r",
        bounds=bounds,
        best="high",
    )


def _trade_off(scope: Scope, rows: Sequence[MeansRow], shown: Callable[[TaskRow], str]) -> Section:
    """The table of some rows, without what stands under it.

    Args:
        scope: a category.
        rows: as of `overview`.
        shown: a cell's text.
    """
    columns = [MODEL, SAMPLER, *_of_tasks(scope, shown)]
    if len(scope.tasks) > 1:  # the mean of one task would stand there twice
        columns.append(decimals("score", "mean"))
    columns += map(_of_rate, rates_beside(scope.records))
    intervals = " [95 % interval]" if shown is with_interval else ""
    title = f"{name(scope.title)}: score in %{intervals}, then tokens per step"
    if rows_differ(scope.records):
        title += " / per row"
    samples = samples_a_cell(scope.records)
    if samples:
        title += f" ({samples})"
    return Section(title, title, "", columns, rows)


def _of_tasks(scope: Scope, shown: Callable[[TaskRow], str]) -> list[Column]:
    return [task_column(task, shown, narrow_name(task)) for task in scope.tasks]


def _of_rate(rate: Measure) -> Column:
    """The one rate of all tasks that have one, or else the mean."""

    def text(row: Row) -> str:
        rates = set(_known_rates(row, rate.key).values())
        return or_dash(rates.pop() if len(rates) == 1 else row[rate.key])

    return Column(rate.short or rate.head, text)


def _known_rates(row: Row, key: str) -> dict[str, float]:
    """Task → its rate, of those that have one."""
    cells: Mapping[str, Row] = row["cells"]
    return {task: cell[key] for task, cell in cells.items() if not isnan(cell[key])}


def _is_uniform(row: Row) -> bool:
    """Whether a sampler's tasks have the same tokens per step and per row."""
    return all(len(set(_known_rates(row, key).values())) <= 1 for key in BY_TASK)


def trade_off_terminal(scope: Scope, width: int = 100, without: Sequence[str] = ()) -> str:
    """A category's trade-off table as aligned text; task columns that don't fit continue in another
    part.

    A sampler's line has its scores. If its tokens per step differ between tasks, a second line
    shows them; where it forwards what-if rows, a third its tokens per row.

    Args:
        scope: the category.
        width: the most columns of a line.
        without: notes of the table that are left out.
    """
    means = overview(scope)
    table = _trade_off(scope, means, with_interval)
    texts = table.table()
    rows: list[Sequence[tabular.Value]] = []
    for row, entries in zip(table.rows, texts.rows, strict=True):
        rows += [entries, *_rates_by_task(row, scope)]
    aligned = with_intervals_aligned(rows, texts.heads[2:])
    lines = [table.title, tabular.terminal(aligned, width, stacked=1)]
    for note in trade_off_notes(scope, means):
        if note not in without:
            lines += note_lines(note, width)
    return "\n".join(lines)


def with_intervals_aligned(
    rows: Sequence[Sequence[tabular.Value]], heads: Sequence[str]
) -> tabular.Table:
    """A table for the terminal whose scores with intervals end in the same place.

    Args:
        rows: model, sampler and figures of each.
        heads: those of the figures.
    """
    models, samplers, *figures = zip(*rows, strict=True)
    sides = "ll"
    columns = [models, samplers]
    for column in figures:
        has_intervals = any(" " in str(text) for text in column)
        sides += "l" if has_intervals else "r"
        columns.append(tuple(tabular.with_intervals(list(map(str, column)))))
    return tabular.Table(["", "", *heads], list(zip(*columns, strict=True)), sides)


def trade_off_terminals(categories: Iterable[Scope], width: int = 100) -> list[str]:
    """Tables as `trade_off_terminal` gives them, one under the other: the note on rows and calls,
    which is the same for all, stands once, under the last one that it concerns.
    """
    scopes = list(categories)
    concerned = [number for number, scope in enumerate(scopes) if rows_differ(scope.records)]
    texts = []
    for number, scope in enumerate(scopes):
        without = (ROWS_NOTE,) if number in concerned[:-1] else ()
        texts.append(trade_off_terminal(scope, width, without))
    return texts


def note_lines(note: str, width: int) -> list[str]:
    """A note under a table as indented lines of at most `width` columns."""
    return wrap(printable(note, 400), width, initial_indent="  ", subsequent_indent="  ")


def _rates_by_task(row: Row, scope: Scope) -> list[list[str]]:
    """Further lines of a sampler for the terminal: the rates of its tasks where they differ."""
    if _is_uniform(row):
        return []
    rates = rates_beside(scope.records)
    empty = [""] * (len(rates) + (len(scope.tasks) > 1))
    lines = []
    shown: list[dict[str, float]] = []
    for key in [rate.key for rate in rates if rate.key in BY_TASK]:
        known = _known_rates(row, key)
        if known not in shown:
            texts = [or_dash(known[task]) if task in known else "" for task in scope.tasks]
            lines.append([name(row["model"]), f"  {key.replace('_', ' ')}", *texts, *empty])
            shown.append(known)
    return lines


def trade_off_section(scope: Scope) -> Section:
    """A category's trade-off table with its footnotes under it, and its intervals in a second,
    folded one. Where tokens per step differ between a row's tasks, entries are `100 at 4.4`.
    """
    rows = overview(scope)
    shown = mark if all(map(_is_uniform, rows)) else with_rates
    intervals = Section("", "", "", [MODEL, SAMPLER, *_of_tasks(scope, _interval)], rows)
    lines = [
        *(f"{md(note, 400)}  " for note in trade_off_notes(scope, rows)),
        "",
        "<details><summary>95 % intervals</summary>",
        "",
        tabular.markdown(intervals.table()),
        "",
        "</details>",
    ]
    return replace(_trade_off(scope, rows, shown), note="\n".join(lines))


def _interval(cell: TaskRow) -> str:
    return interval_text(cell["low"], cell["high"]).strip()


def with_rates(cell: TaskRow) -> str:
    """The score with its tokens per step, and behind a slash per row where they are others."""
    if isnan(cell["score"]):
        return mark(cell)
    per_step = cell["tokens_per_step"]
    per_row = cell["tokens_per_row"]
    beside = "" if isnan(per_row) or per_row == per_step else f" / {or_dash(per_row)}"
    return f"{mark(cell)} at {or_dash(per_step)}{beside}"


def trade_off_notes(scope: Scope, rows: Iterable[MeansRow]) -> list[str]:
    """What the marks of a category's table mean, and how its prompts and rates differ.

    Args:
        scope: the category.
        rows: as of `overview`.
    """
    cells = scope.records
    marks = {mark(cell) for row in rows for cell in row["cells"].values()}
    notes = marks_notes(cells, marks)
    if rows_differ(cells):
        notes.append(ROWS_NOTE)
    return notes + prompts_note(cells)


def marks_notes(cells: Iterable[CellRow], marks: Collection[str]) -> list[str]:
    """What stands in the place of scores and speeds, and why.

    Args:
        cells: those of the table.
        marks: texts of its entries.
    """
    notes = []
    ran = [row for row in cells if row["status"] == "ok"]
    if NONE in marks:
        reasons: dict[str, None] = {}
        for row in ran:
            if isnan(row["score"]):
                why = (row["absent"] or {}).get(row["headline"])
                reasons[f"{row['headline']} ({why or 'no reason recorded'})"] = None
        notes.append(f"{NONE} not measured: {'; '.join(reasons)}")
    if FAILED in marks:
        notes.append(f"{FAILED}: the cell could not be run; its cause is listed under the tables")
    if NOT_RUN in marks:
        notes.append(f"{NOT_RUN} not run; means are over a model's own tasks, if all have a score")
    silent = [row for row in ran if is_elsewhere(row) and isnan(row["tokens_per_step"])]
    if silent:
        models = [name(model) for model in dict.fromkeys(row["model"] for row in silent)]
        notes.append(f"{NONE} tokens per step: not reported by {', '.join(models)}")
    return notes + served_notes(ran)
