"""Tables of columns over rows: as HTML, readable without JavaScript, which the page's script sorts
by what its cells carry; and in Markdown, from the same columns.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from urllib.parse import quote

from markupsafe import Markup

from pbcore.analysis.order import short
from pbcore.printable import printable
from pbcore.report.cells import ROWS_NOTE
from pbcore.report.columns import MODEL, SAMPLER, Column, decimals, scored, words
from pbcore.report.page.html import attribute, rendered, text
from pbcore.report.scopes import LEVELS, Row, Scope, by_sampler, by_task, missing, overview
from pbcore.report.tables import with_interval
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
    scored("mean score %", "plain mean over the model's tasks [95 % interval]", _UNSCORED),
    *THEORY,
    *RATES,
    words("tasks", "tasks scored"),
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
    """
    shown = [column for column in columns if not (column.optional and all(map(column.empty, rows)))]
    linked = links or {}
    return rendered(
        "table.html",
        columns=shown,
        rows=[
            (
                {f"data-{name}": str(row[name]) for name in FILTERED if name in row},
                [_cell(one, row, linked.get(one.task or one.head)) for one in shown],
            )
            for row in rows
        ],
        caption=caption,
        label=label or caption,
        style=style,
        absent=[one for one in shown if one.none and any(map(one.empty, rows))],
        about=[one for one in shown if one.about and explained],
    )


def _cell(column: Column, row: Row, linked: Link | None) -> tuple[str, Markup]:
    """A cell's value to sort by, empty where it was not measured, and its HTML, with the interval
    behind a number apart.
    """
    value = None if column.value is None else column.value(row)
    inner = text(column.text(row), NAME if column.code else 400)
    if column.code:
        inner = f"<code>{inner}</code>"
    elif column.value is not None:
        inner = re.sub(r" (\[.*\])$", r' <span class="ci">\1</span>', inner)
    if linked is not None:
        inner = linked(row, inner)
    return "" if value is None else f"{value:.6g}", Markup(inner)


def link(cell_id: str, inner: str, style: str = "", only: str = "") -> str:
    """A link that opens a cell's samples; `only` wrong ones or flips."""
    chosen = f"&amp;only={only}" if only else ""
    kind = f' class="{style}"' if style else ""
    return f'<a href="#cell={quote(printable(cell_id, 300), safe="/:")}{chosen}"{kind}>{inner}</a>'


def matrix(scope: Scope) -> Markup:
    """Scores of a category: a row per model and sampler, the means over its tasks, and a column per
    task.
    """
    groups = [by_task(group, scope.tasks) for _, _, group in by_sampler(scope.records)]
    rows = [row | {"cells": cells} for row, cells in zip(overview(scope), groups, strict=True)]
    mean = scored("mean", "plain mean over the tasks", _UNSCORED)
    columns = [MODEL, SAMPLER, mean, *THEORY, *STEPS, *map(_of_task, scope.tasks)]
    about = "score in % [95 % interval]; each opens its samples; the redder, the lower"
    links = {task: _task_link(task) for task in scope.tasks}
    return html_table(columns, rows, about, f"{scope.title}: scores", "matrix", links=links)


def _task_link(task: str) -> Link:
    """Opens the samples of a task's cell in a row of the matrix."""

    def linked(row: Row, inner: str) -> str:
        cell = row["cells"][task]
        if cell["status"] == "ok":
            return link(cell["id"], inner, heat(cell["score"]))
        return f'<span title="{attribute(cell.get("error", "not run"))}">{inner}</span>'

    return linked


def _of_task(task: str) -> Column:
    return Column(
        printable(short(task), 40),
        lambda row: with_interval(row["cells"][task]),
        lambda row: row["cells"][task]["score"],
        task,
        task=task,
    )


def heat(score: float | None) -> str:
    """The class that colours a cell: h0 for 100 % to h5 for less than 20 %."""
    return "" if score is None else f"h{min(5, int((100 - score) / 20 + 0.999))}"


def of_task(scope: Scope, task: str) -> Markup:
    """A task's cells, each a row that opens its samples."""
    groups = (group for _, _, group in by_sampler(scope.task(task).records))
    rows = [record | {"missing": missing(group, [task])} for group in groups for record in group]
    columns = [
        MODEL,
        SAMPLER,
        scored("score %", none=_UNSCORED),
        *THEORY,
        decimals("n", "samples", 0),
        *RATES,
        MISSING,
    ]
    headlines = ", ".join(
        sorted({str(row["headline"]) for row in rows if row["headline"]}) or ["unknown"]
    )
    caption = f"{printable(task, 80)}: score is {headlines}"
    links = {SAMPLER.head: lambda row, inner: link(row["id"], inner)}
    return html_table(columns, rows, caption, f"cells of {task}", links=links)
