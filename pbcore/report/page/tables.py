"""Tables of columns over rows: as HTML, readable without JavaScript, which the page's script sorts
by what its cells carry; and in Markdown, from the same columns.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from urllib.parse import quote

from markupsafe import Markup

from pbcore.printable import printable
from pbcore.report.cells import ROWS_NOTE
from pbcore.report.columns import MODEL, SAMPLER, Column, decimals, score_column
from pbcore.report.page.html import attribute, rendered, text
from pbcore.report.scopes import (
    LEVELS,
    Row,
    Scope,
    TaskRow,
    by_sampler,
    by_task,
    missing,
    overview,
)
from pbcore.report.tables import mark, with_interval
from pbcore.tasks.naming import category, short
from pbcore.text import NAME

Link = Callable[[Row, str], str]  # puts a row's HTML into a link
FILTERED = ("model", "task", "sampler")  # by which the page filters rows
_SILENT = "not reported by the model's server, or the cell has no forwards"
_UNLISTED = "the task's right answers can't be listed"
_UNTIMED = "the cells have no time of their own, or were not all run"
_UNREACHED = "no sampler of the policy reached that score"
_UNSCORED = "some task has no score; the column “not measured, and why” has the reason"
_PER_STEP = (
    "mean over samples of canvas tokens / forwards, the paper's axis; of several tasks the plain"
    " mean"
)
_PER_ROW = f"mean over samples of canvas tokens / rows; {ROWS_NOTE}"
_PER_FORWARD = (
    "answer tokens before the first EOS / forwards, both summed over samples; of several tasks the"
    " plain mean"
)
_FORWARDED = (
    "positions that the network computed for an answer, with every cache, window and what-if row"
    " and prefill, without padding"
)
_UNCOUNTED = "not reported, or not counted when the run was measured"
_CEILING = (
    "the ideal model's expected accuracy under the same sampler: what it lacks to 100 is lost by"
    " parallel decoding"
)
_BITS = (
    "what drawing tokens together loses, in bits: the total correlation between the tokens that one"
    " step reveals, summed over steps, mean over answers; 0 is lossless"
)
_AUP = (
    "accuracy under parallelism: the area under score over tokens per forward, where lost score"
    " counts e^(−3·loss)"
)
_LEVEL = (
    "the largest tokens per step at which the mean score is at least {} %; measured points only"
)
STEPS = (
    decimals("tokens_per_step", "tokens/step", 2, _PER_STEP, none=_SILENT),
    decimals("tokens_per_row", "tokens/row", 2, _PER_ROW, optional=True),
)
RATES = (
    *STEPS,
    decimals("tokens_per_forward", "tokens/forward", 2, _PER_FORWARD, none=_SILENT),
    decimals("nfe", "NFE", 1, "forwards (network function evaluations) per sample", none=_SILENT),
    decimals("rows", "rows", 1, f"canvases forwarded per sample; {ROWS_NOTE}", optional=True),
    decimals("tokens_forwarded", "tokens forwarded", 1, _FORWARDED, none=_UNCOUNTED),
    decimals("samples_per_second", "samples/s", 1, none=_UNTIMED),
)
THEORY = (
    decimals(
        "ceiling", "ceiling %", 1, _CEILING, True, f"{_UNLISTED}, or the sampler has no ceiling"
    ),
    decimals("bits_lost", "bits lost", 2, _BITS, True, _UNLISTED),
)
MISSING = Column("not measured, and why", itemgetter("missing"), wide=True, optional=True)
OVERVIEW = (
    MODEL,
    SAMPLER,
    score_column("mean score %", "plain mean over the model's tasks [95 % interval]", _UNSCORED),
    *THEORY,
    *RATES,
    Column("tasks scored", itemgetter("tasks"), key="tasks"),
    MISSING,
)
POLICIES = (
    MODEL,
    Column("policy", lambda row: str(row["family"]), code=True),
    decimals("points", "points", 0, "samplers of this policy that were measured on all tasks"),
    *(
        decimals(f"PB{level}", f"PB{level}", 2, _LEVEL.format(level), none=_UNREACHED)
        for level in LEVELS
    ),
    decimals("AUP", "AUP", 1, _AUP, none="an area needs two points at least"),
)


def html_table(
    columns: Sequence[Column],
    rows: Sequence[Row],
    caption: str,
    label: str = "",
    style: str = "",
    explained: bool = False,
    links: Mapping[str, Link] | None = None,
    name: str = "table",
    groups: Sequence[tuple[str, int]] = (),
    names: Mapping[str, str] | None = None,
) -> Markup:
    """A sortable table; its rows carry model, task and sampler, by which the page filters. Under it
    the reason for each `–`, and if `explained` what the columns are. Optional columns that would be
    empty are left out.

    Args:
        columns: what it shows.
        rows: of which.
        caption: what stands above it.
        label: its name for screen readers (default: the caption).
        style: further classes of the table.
        explained: whether what its columns are stands under it.
        links: by a column's head or task, what its entries lead to.
        name: of its file, where it is saved.
        groups: heads above those of the columns, each over so many.
        names: what models and samplers are, for their tooltips.
    """
    shown = [column for column in columns if not (column.optional and all(map(column.empty, rows)))]
    linked = links or {}
    about = names or {}
    return rendered(
        "table.html",
        columns=shown,
        rows=[
            (
                {f"data-{name}": str(row[name]) for name in FILTERED if name in row},
                [_cell(one, row, linked.get(one.task or one.head), about) for one in shown],
            )
            for row in rows
        ],
        caption=caption,
        label=label or caption,
        style=style,
        name=name,
        groups=groups,
        absent=[one for one in shown if one.none and any(map(one.empty, rows))],
        about=[one for one in shown if one.about and explained],
    )


@dataclass(frozen=True, slots=True)
class Entry:
    """A table's entry: the value to sort by, empty where it was not measured, the bounds of its
    interval, its HTML, and a tooltip.
    """

    value: str
    html: Markup
    low: str = ""
    high: str = ""
    about: str = ""


def _cell(column: Column, row: Row, linked: Link | None, names: Mapping[str, str]) -> Entry:
    value = None if column.value is None else column.value(row)
    whole = column.text(row)
    inner = text(whole, NAME if column.code else 400)
    if column.code:
        inner = f"<code>{broken(inner)}</code>"
    elif column.value is not None:
        inner = re.sub(r" (\[.*\])$", r' <span class="ci">\1</span>', inner)
    elif not column.wide:
        inner = broken(inner)
    if linked is not None:
        inner = linked(row, inner)
    low, high = ("", "")
    bounds = column.bounds(row) if value is not None and column.bounds else None
    if bounds is not None:
        low, high = (f"{bound:.6g}" for bound in bounds)
    about = names.get(whole, "") if column.head in FILTERED else ""
    return Entry("" if value is None else f"{value:.6g}", Markup(inner), low, high, about)


def broken(name: str) -> str:
    """A name in HTML that may be broken before its signs, and nowhere else."""
    return re.sub(r"(?<=\w)([_+/→·])(?=\w)", r"<wbr>\1", name)


def link(cell_id: str, inner: str, style: str = "", only: str = "") -> str:
    """A link that opens a cell's samples.

    Args:
        cell_id: the cell's.
        inner: HTML of the link's text.
        style: a class of the link.
        only: `wrong` or `flips`, where only these are to be shown.
    """
    chosen = f"&amp;only={only}" if only else ""
    kind = f' class="{style}"' if style else ""
    return f'<a href="#cell={quote(printable(cell_id, 300), safe="/:")}{chosen}"{kind}>{inner}</a>'


def heat_map(whole: Scope, names: Mapping[str, str]) -> Markup:
    """Scores of all tasks at a glance: a row per model and sampler, a column per task, grouped by
    category, and the mean, without intervals.
    """
    tasks = whole.tasks
    groups = [by_task(group, tasks) for _, _, group in by_sampler(whole.records)]
    rows = [{**row, "cells": cells} for row, cells in zip(overview(whole), groups, strict=True)]
    mean = decimals("score", "mean", 1, "plain mean over the model's tasks", none=_UNSCORED)
    rate = decimals("tokens_per_step", "tokens/step", 2, _PER_STEP, none=_SILENT)
    columns = [MODEL, SAMPLER, mean, rate]
    heads = [("", len(columns))]
    for kind in dict.fromkeys(map(category, tasks)):
        own = [task for task in tasks if category(task) == kind]
        columns += [_at_a_glance(task) for task in own]
        heads.append((kind.replace("_", " "), len(own)))
    links = {task: _task_link(task) for task in tasks}
    about = "score in %; the redder, the lower; click one for its answers"
    return html_table(
        columns,
        rows,
        about,
        "scores of all tasks",
        "heat means",
        links=links,
        name="scores",
        groups=heads,
        names=names,
    )


def _at_a_glance(task: str) -> Column:
    def shown(row: Row) -> str:
        return mark(row["cells"][task])

    def bounds(row: Row) -> tuple[float, float] | None:
        return _bounds(row["cells"][task])

    value = _score_on(task)
    return Column(printable(short(task), 40), shown, value, task, task=task, bounds=bounds)


def _score_on(task: str) -> Callable[[Row], float | None]:
    def value(row: Row) -> float | None:
        score: float | None = row["cells"][task]["score"]
        return score

    return value


def _bounds(row: TaskRow) -> tuple[float, float] | None:
    low, high = row["low"], row["high"]
    return None if low is None or high is None else (low, high)


def matrix(scope: Scope) -> Markup:
    """Scores of a category: a row per model and sampler, the means over its tasks, and a column per
    task.
    """
    tasks = scope.tasks
    groups = [by_task(group, tasks) for _, _, group in by_sampler(scope.records)]
    rows = [{**row, "cells": cells} for row, cells in zip(overview(scope), groups, strict=True)]
    mean = score_column("mean", "plain mean over the tasks", _UNSCORED)
    columns = [MODEL, SAMPLER, mean, *THEORY, *STEPS, *map(_of_task, tasks)]
    about = "score in % [95 % interval]; each opens its samples; the redder, the lower"
    links = {task: _task_link(task) for task in tasks}
    label = f"{scope.title}: scores"
    return html_table(columns, rows, about, label, "matrix", links=links, name=scope.title)


def _task_link(task: str) -> Link:
    """Opens the samples of a task's cell in a row of the matrix."""

    def linked(row: Row, inner: str) -> str:
        cell: TaskRow = row["cells"][task]
        if cell["status"] == "ok":
            return link(cell["id"], inner, heat(cell["score"]))
        why = cell["error"] or "not run"
        return f'<span title="{attribute(why)}">{inner}</span>'

    return linked


def _of_task(task: str) -> Column:
    return Column(
        printable(short(task), 40),
        lambda row: with_interval(row["cells"][task]),
        _score_on(task),
        task,
        task=task,
        bounds=lambda row: _bounds(row["cells"][task]),
    )


def heat(score: float | None) -> str:
    """The class that colours a cell: h0 for 100 % to h5 for less than 20 %."""
    return "" if score is None else f"h{min(5, int((100 - score) / 20 + 0.999))}"


def of_task(scope: Scope, task: str) -> Markup:
    """A task's cells, each a row that opens its samples."""
    groups = (group for _, _, group in by_sampler(scope.task(task).records))
    rows = [
        {**record, "missing": missing(group, [task], short)} for group in groups for record in group
    ]
    columns = [
        MODEL,
        SAMPLER,
        score_column("score %", none=_UNSCORED),
        *THEORY,
        decimals("n", "samples", 0),
        *RATES,
        MISSING,
    ]
    headlines = ", ".join(
        sorted({str(row["headline"]) for row in rows if row["headline"]}) or ["unknown"]
    )
    caption = f"{printable(short(task), 80)}: score is {headlines}"
    links = {SAMPLER.head: lambda row, inner: link(row["id"], inner)}
    label = f"cells of {short(task)}"
    return html_table(columns, rows, caption, label, links=links, name=short(task))
