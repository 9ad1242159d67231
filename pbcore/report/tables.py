"""The trade-off table: a row per sampler, grouped by model, a column per task; each cell has score,
interval and tokens per step.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from math import isnan, nan
from textwrap import wrap
from typing import cast

from pbcore.analysis.order import narrow_name
from pbcore.base import tabular
from pbcore.base.printable import fixed, printable
from pbcore.base.text import md, name
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
from pbcore.report.columns import MODEL, SAMPLER, Column
from pbcore.report.rows import CellRow, TaskRow
from pbcore.report.scopes import Scope, average, by_sampler, by_task
from pbcore.report.sections import Section
from pbcore.results.measures import ROWS_NOTE, Measure, shown_in
from pbcore.results.table_row import Row

NOT_RUN = "·"
FAILED = "error"
BY_TASK = ("tokens_per_step", "tokens_per_row")  # the rates that each task's score is told with


@dataclass(frozen=True, slots=True)
class Line:
    """One sampler of one model: a row of its scope per task (scores and interval in %; status
    `absent` where it was not run), and the plain means over all tasks (NaN unless every task has a
    value).
    """

    model: str
    sampler: str
    cells: tuple[TaskRow, ...]
    mean: TaskRow

    def rate(self, key: str) -> str:
        """The one rate of all tasks that have one, or else the mean."""
        rates = self._rates(key)
        if len(rates) == 1:
            return or_dash(rates.pop())
        means: Row = self.mean
        return or_dash(means[key])

    @property
    def uniform(self) -> bool:
        """Whether its tasks have the same tokens per step and per row."""
        return all(len(self._rates(key)) <= 1 for key in BY_TASK)

    def _rates(self, key: str) -> set[float]:
        """The rates of its tasks, each once."""
        cells: Sequence[Row] = self.cells
        return {cell[key] for cell in cells if not isnan(cell[key])}


@dataclass(frozen=True, slots=True)
class TradeOffTable:
    """One category's trade-off table with the footnotes that explain its marks, and the `rates`
    that it shows.
    """

    title: str
    tasks: tuple[str, ...]
    lines: tuple[Line, ...]
    notes: tuple[str, ...]
    rates: tuple[Measure, ...]

    @property
    def means(self) -> list[str]:
        """The title of the column of means; none for one task, which would stand there twice."""
        return ["mean"] if len(self.tasks) > 1 else []

    @property
    def rate_heads(self) -> list[str]:
        """The heads of the columns of rates."""
        return [rate.short or rate.head for rate in self.rates]


def mark(cell: TaskRow, places: int = 0) -> str:
    """A cell's score in %, or why there is none."""
    if isnan(cell["score"]):
        return {"absent": NOT_RUN, "ok": NONE}.get(cell["status"], FAILED)
    return fixed(cell["score"], places)


def with_interval(cell: TaskRow, places: int = 0) -> str:
    """`88 [70–95]`; the score alone where its interval isn't known, or why there is none."""
    return mark(cell, places) + interval_text(cell["low"], cell["high"])


def trade_off_tables(categories: Iterable[Scope]) -> list[TradeOffTable]:
    """A table per category. Dummy models (random weights, for speed only) are left out."""
    return [_table(scope) for scope in categories]


def trade_off_terminal(table: TradeOffTable, width: int = 100, without: Sequence[str] = ()) -> str:
    """The table as aligned text; task columns that don't fit continue in another part.

    A sampler's line has its scores. If its tokens per step differ between tasks, a second line
    shows them; where it forwards what-if rows, a third its tokens per row.

    Args:
        table: what to show.
        width: the most columns of a line.
        without: notes of the table that are left out.
    """
    tasks = [name(narrow_name(task)) for task in table.tasks]
    heads = ["", "", *tasks, *table.means, *table.rate_heads]
    rows = []
    for sampler in table.lines:
        rows += _text_rows(sampler, table)
    models, samplers, *figures = zip(*rows, strict=True)
    sides = "ll"
    columns = [models, samplers]
    for texts in figures:
        has_intervals = any(" " in text for text in texts)
        sides += "l" if has_intervals else "r"
        columns.append(tuple(tabular.with_intervals(texts)))
    aligned = tabular.Table(heads, list(zip(*columns, strict=True)), sides)
    lines = [table.title, tabular.terminal(aligned, width, stacked=1)]
    for note in table.notes:
        if note not in without:
            lines += note_lines(note, width)
    return "\n".join(lines)


def terminals(tables: Sequence[TradeOffTable], width: int = 100) -> list[str]:
    """Tables as `terminal` gives them, one under the other: the note on rows and calls, which is
    the same for all, stands once, under the last one that it concerns.
    """
    concerned = [number for number, table in enumerate(tables) if ROWS_NOTE in table.notes]
    texts = []
    for number, table in enumerate(tables):
        without = (ROWS_NOTE,) if number in concerned[:-1] else ()
        texts.append(trade_off_terminal(table, width, without))
    return texts


def note_lines(note: str, width: int) -> list[str]:
    """A note under a table as indented lines of at most `width` columns."""
    return wrap(printable(note, 400), width, initial_indent="  ", subsequent_indent="  ")


def _text_rows(line: Line, table: TradeOffTable) -> list[list[str]]:
    """A line's model, sampler and texts for the terminal, and further rows with the rates of tasks
    where they differ.
    """
    model = name(line.model)
    scores = [with_interval(cell) for cell in line.cells]
    if table.means:
        scores.append(mark(line.mean, 1))
    of_line = [line.rate(rate.key) for rate in table.rates]
    rows = [[model, name(line.sampler), *scores, *of_line]]
    if line.uniform:
        return rows
    empty = [""] * (len(table.means) + len(table.rates))
    shown: list[dict[int, float]] = []
    cells: Sequence[Row] = line.cells
    for key in [rate.key for rate in table.rates if rate.key in BY_TASK]:
        rates = [cell[key] for cell in cells]
        known = {place: rate for place, rate in enumerate(rates) if not isnan(rate)}
        if known not in shown:
            texts = ["" if isnan(rate) else or_dash(rate) for rate in rates]
            rows.append([model, f"  {key.replace('_', ' ')}", *texts, *empty])
            shown.append(known)
    return rows


def trade_off_section(table: TradeOffTable) -> Section:
    """The table with its footnotes under it, and its intervals in a second, folded one. Where
    tokens per step differ between a row's tasks, entries are `100 at 4.4`.
    """
    uniform = all(line.uniform for line in table.lines)
    shown = mark if uniform else with_rates
    columns = [_of_task(table, place, shown) for place in range(len(table.tasks))]
    columns += [Column(head, lambda row: mark(row["line"].mean, 1)) for head in table.means]
    columns += [_of_rate(rate) for rate in table.rates]
    rows = [{"model": line.model, "sampler": line.sampler, "line": line} for line in table.lines]
    bounds = [_of_task(table, place, _interval) for place in range(len(table.tasks))]
    intervals = Section("", "", "", [MODEL, SAMPLER, *bounds], rows)
    lines = [
        *(f"{md(note, 400)}  " for note in table.notes),
        "",
        "<details><summary>95 % intervals</summary>",
        "",
        tabular.markdown(intervals.table()),
        "",
        "</details>",
    ]
    # the intervals stand in a table of their own, so the title has none
    title = table.title.replace(" [95 % interval]", "")
    return Section(title, title, "\n".join(lines), [MODEL, SAMPLER, *columns], rows)


def _of_task(table: TradeOffTable, place: int, shown: Callable[[TaskRow], str]) -> Column:
    """A task's column.

    Args:
        table: what it is of.
        place: the task's.
        shown: a cell's text.
    """
    head = narrow_name(table.tasks[place])
    return Column(head, lambda row: shown(row["line"].cells[place]), align="r")


def _of_rate(rate: Measure) -> Column:
    return Column(rate.short or rate.head, lambda row: row["line"].rate(rate.key))


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


def _table(scope: Scope) -> TradeOffTable:
    cells = scope.records
    tasks = scope.tasks
    lines = []
    for model, sampler, group in by_sampler(scope.records):
        row = tuple(by_task(group, tasks).values())
        lines.append(Line(model, sampler, row, _mean_row(row)))
    title = f"{name(scope.title)}: score in % [95 % interval], then tokens per step"
    rates = tuple(rates_beside(cells))
    if rows_differ(cells):
        title += " / per row"
    samples = samples_a_cell(cells)
    if samples:
        title += f" ({samples})"
    return TradeOffTable(title, tuple(tasks), tuple(lines), tuple(_notes(cells, lines)), rates)


def _mean_row(row: Sequence[TaskRow]) -> TaskRow:
    """The plain means over all tasks, without an interval."""
    tasks: Sequence[Row] = row
    figures = ("score", *(measure.key for measure in shown_in("scores")))
    means = {key: average([cell[key] for cell in tasks], len(tasks)) for key in figures}
    return cast(TaskRow, {"id": "", "status": "ok", "error": "", "low": nan, "high": nan, **means})


def _notes(cells: Sequence[CellRow], lines: list[Line]) -> list[str]:
    """What the marks of a table mean, and how its prompts and rates differ."""
    notes = marks_notes(cells, {mark(cell) for line in lines for cell in line.cells})
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
        notes.append(f"{NOT_RUN} not run; a mean is given only where every task has a score")
    silent = [row for row in ran if is_elsewhere(row) and isnan(row["tokens_per_step"])]
    if silent:
        models = [name(model) for model in dict.fromkeys(row["model"] for row in silent)]
        notes.append(f"{NONE} tokens per step: not reported by {', '.join(models)}")
    return notes + served_notes(ran)
