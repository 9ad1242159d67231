"""Sections as HTML, readable without JavaScript, which the page's script sorts by what their cells
carry.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from operator import itemgetter
from urllib.parse import quote

from markupsafe import Markup

from pbcore.base.printable import printable
from pbcore.base.text import NAME
from pbcore.report.cells import rows_differ
from pbcore.report.columns import MODEL, SAMPLER, Column, decimals, of_measure, score_column
from pbcore.report.page.html import attribute, rendered, text
from pbcore.report.rows import TaskRow
from pbcore.report.scopes import (
    LEVELS,
    Scope,
    by_sampler,
    missing,
    overview,
    policy_rows,
)
from pbcore.report.sections import Section
from pbcore.report.tables import UNSCORED, category_table, scores_table
from pbcore.results.measures import ROWS_NOTE, page_columns
from pbcore.results.table_row import Row
from pbcore.tasks.naming import short

Link = Callable[[Row, str], str]  # puts a row's HTML into a link
FILTERED = ("model", "task", "sampler")  # by which the page filters rows
_UNREACHED = "no sampler of the policy reached that score"
_AUP = (
    "accuracy under parallelism: the area under score over tokens per forward, where lost score"
    " counts e^(−3·loss)"
)
_LEVEL = (
    "the largest tokens per step at which the mean score is at least {} %; measured points only"
)
MEANS = "means over each model's own tasks"
PBX = "speed at a quality, by policy: means over all tasks"
RATES = [of_measure(measure) for measure in page_columns("page", "rate", "cost", "time", "other")]
SPEEDS = frozenset(column.key for column in RATES)
THEORY = [of_measure(measure) for measure in page_columns("page", "theory")]
MISSING = Column("not measured, and why", itemgetter("missing"), wide=True, optional=True)
OVERVIEW = (
    MODEL,
    SAMPLER,
    score_column("mean score %", "plain mean over the model's tasks [95 % interval]", UNSCORED),
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


def html_table(
    section: Section,
    label: str = "",
    style: str = "",
    explained: bool = False,
    links: Mapping[str, Link] | None = None,
    names: Mapping[str, str] | None = None,
    folded: Collection[str] = (),
) -> Markup:
    """A sortable table; its rows carry model, task and sampler, by which the page filters. Under it
    the reason for each `–`, and if `explained` what the columns are. Optional columns that would be
    empty are left out.

    Args:
        section: what it shows.
        label: its name for screen readers (default: the caption).
        style: further classes of the table.
        explained: whether what its columns are stands under it.
        links: by a column's head or task, what its entries lead to.
        names: what models and samplers are, for their tooltips.
        folded: the keys of columns that the page's script shows on demand.
    """
    shown = section.shown
    caption = section.caption or f"{section.title[:1].lower()}{section.title[1:]}"
    # a narrow screen puts models above the rows' names
    classes = f"{style} models" if shown[0] is MODEL else style
    return rendered(
        "table.html",
        columns=shown,
        styles=[_style(column, folded, style) for column in shown],
        more=any(column.key in folded for column in shown),
        rows=[_row(shown, row, links or {}, names or {}) for row in section.rows],
        caption=caption,
        label=label or caption,
        style=classes,
        name=section.short,
        groups=section.groups,
        absent=[column for column in shown if _has_gaps(column, section.rows)],
        about=[column for column in shown if column.about] if explained else [],
        said=section.said or caption,
    )


def _has_gaps(column: Column, rows: Iterable[Row]) -> bool:
    """Whether a column says why some row has no value."""
    return bool(column.none) and any(column.empty(row) for row in rows)


def _row(
    columns: Sequence[Column], row: Row, links: Mapping[str, Link], names: Mapping[str, str]
) -> tuple[dict[str, str], list[Entry]]:
    """A row's attributes, by which the page filters, and its entries.

    Args:
        columns: what the table shows.
        row: of which.
        links: by a column's head or task, what its entries lead to.
        names: what models and samplers are.
    """
    attributes = {f"data-{key}": str(row[key]) for key in FILTERED if key in row}
    entries = []
    for column in columns:
        entries.append(_entry(column, row, links.get(column.task or column.head), names))
    return attributes, entries


def _style(column: Column, folded: Collection[str], style: str) -> Markup:
    """The attribute with the classes of a column's cells; empty without any."""
    classes = []
    if column.wide:
        classes.append("text")
    elif column.value is not None:
        classes.append("num")
    if column.key and column.key in folded:
        classes.append("more")
    if column.key and "heat" in style:
        classes.append("of-all")  # tasks, which a filter by task hides
    return Markup(f' class="{" ".join(classes)}"') if classes else Markup()


def _entry(column: Column, row: Row, linked: Link | None, names: Mapping[str, str]) -> Entry:
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
    about = names.get(whole, "") if column.head in FILTERED else ""
    value = _sorted_by(None if column.value is None else column.value(row))
    if not value or column.bounds is None:
        return Entry(value, Markup(inner), about=about)
    low, high = map(_sorted_by, column.bounds(row))
    return Entry(value, Markup(inner), low, high, about)


def _sorted_by(value: float | None) -> str:
    """A number for the script; empty for what was not measured."""
    return "" if value is None or isnan(value) else f"{value:.6g}"


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
    """The scores of all tasks, without intervals."""
    table = scores_table(whole)
    links = {task: _task_link(task) for task in whole.tasks}
    return html_table(table, table.title, "heat", links=links, names=names)


def matrix(scope: Scope) -> Markup:
    """Scores of a category, with intervals."""
    table = category_table(scope)
    links = {task: _task_link(task) for task in scope.tasks}
    return html_table(table, table.title, "matrix", links=links)


def _task_link(task: str) -> Link:
    """Opens the samples of a task's cell in a row of the matrix."""

    def linked(row: Row, inner: str) -> str:
        cell: TaskRow = row["cells"][task]
        if cell["status"] == "ok":
            return link(cell["id"], inner, heat(cell["score"]))
        why = cell["error"] or "not run"
        return f'<span title="{attribute(why)}">{inner}</span>'

    return linked


def heat(score: float) -> str:
    """The class that colours a cell: h0 for 100 % to h5 for less than 20 %."""
    return "" if isnan(score) else f"h{min(5, int((100 - score) / 20 + 0.999))}"


def of_task(scope: Scope, task: str, folded: Collection[str]) -> Markup:
    """A task's cells, each a row that opens its samples; measures of speed that are `folded` are
    shown on demand.
    """
    rows: list[Row] = []
    for _, _, group in by_sampler(scope.task(task).records):
        why = missing(group, [task], short)
        rows += [{**cell, "missing": why} for cell in group]
    columns = [
        MODEL,
        SAMPLER,
        score_column("score %", none=UNSCORED),
        *THEORY,
        decimals("n", "samples", 0),
        *RATES,
        MISSING,
    ]
    headlines = sorted({str(row["headline"]) for row in rows if row["headline"]})
    metric = ", ".join(headlines) if headlines else "unknown"
    caption = f"{printable(short(task), 80)}: score is {metric}"
    section = Section(f"cells of {short(task)}", short(task), "", columns, rows, caption=caption)
    links: dict[str, Link] = {SAMPLER.head: lambda row, inner: link(row["id"], inner)}
    return html_table(section, section.title, links=links, folded=folded)


def means_table(whole: Scope, folded: Collection[str]) -> Markup:
    """All figures of each model and sampler, those that are `folded` on demand."""
    rows = overview(whole, short)
    if not rows:
        return Markup()
    caption = f"{MEANS}; {ROWS_NOTE}" if rows_differ(whole.records) else MEANS
    section = Section(MEANS, "figures", "", OVERVIEW, rows, caption=caption)
    return html_table(section, MEANS, "means", True, folded=folded)


def policies_table(whole: Scope) -> Markup:
    """PBx and AUP of each policy; empty without any."""
    rows = policy_rows(whole)
    if not rows:
        return Markup()
    section = Section(PBX, "speed at a quality", "", POLICIES, rows)
    return html_table(section, PBX, "policies", True)
