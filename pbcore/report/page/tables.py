"""Tables of columns over rows: as HTML, readable without JavaScript, which the page's script sorts
by what its cells carry; and in Markdown, from the same columns.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from urllib.parse import quote

from markupsafe import Markup

from pbcore.analysis.order import short
from pbcore.printable import printable
from pbcore.report.cells import ROWS_NOTE, interval, or_dash
from pbcore.report.page.html import attribute, rendered, text
from pbcore.report.scopes import LEVELS, Row, Scope, by_sampler, by_task, missing, overview
from pbcore.report.tables import with_interval
from pbcore.text import NAME, code, md


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its head, each row's text, and the value to sort by (default: the text, in natural
    order).
    """

    head: str
    text: Callable[[Row], str]
    value: Callable[[Row], float | None] | None = None
    about: str = ""  # tooltip of the head
    wide: bool = False  # long text, which wraps
    optional: bool = False  # left out where no row has a value
    none: str = ""  # why a row may have no value
    task: str = ""  # a column of one task, for the page's filter
    code: bool = False  # a name that people type
    linked: Callable[[Row, str], str] = lambda row, inner: inner  # puts a row's HTML into a link

    def empty(self, row: Row) -> bool:
        """Whether a row has nothing here."""
        return not self.text(row) if self.value is None else self.value(row) is None

    def html(self, row: Row) -> str:
        """A row's entry; the interval behind a number is apart."""
        inner = text(self.text(row), NAME if self.code else 400)
        if self.code:
            inner = f"<code>{inner}</code>"
        elif self.value is not None:
            inner = re.sub(r" (\[.*\])$", r' <span class="ci">\1</span>', inner)
        return self.linked(row, inner)

    def markdown(self, row: Row) -> str:
        """The same within a table of Markdown."""
        return code(self.text(row), NAME, cell=True) if self.code else md(self.text(row), NAME)


def decimals(
    key: str,
    head: str,
    places: int = 1,
    about: str = "",
    optional: bool = False,
    none: str = "not measured",
) -> Column:
    """A column of numbers; `–` for what was not measured, and `none` says why."""
    value = itemgetter(key)
    return Column(
        head, lambda row: or_dash(row[key], places), value, about, optional=optional, none=none
    )


def words(key: str, head: str, about: str = "", wide: bool = False) -> Column:
    """A column of foreign text."""
    return Column(head, lambda row: str(row[key]), None, about, wide)


def scored(head: str, about: str = "", none: str = "") -> Column:
    """A column of scores in %, each with its 95 % interval."""

    def shown(row: Row) -> str:
        return or_dash(row["score"]) + interval(row["low"], row["high"])

    return Column(head, shown, itemgetter("score"), about, none=none)


FILTERED = ("model", "task", "sampler")  # by which the page filters rows
MODEL = words("model", "model")
SAMPLER = Column("sampler", lambda row: str(row["sampler"]), code=True)
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
) -> Markup:
    """A sortable table; its rows carry model, task and sampler, by which the page filters. Under it
    the reason for each `–`, and if `explained` what the columns are. Optional columns that would be
    empty are left out.
    """
    shown = [column for column in columns if not (column.optional and all(map(column.empty, rows)))]
    return rendered(
        "table.html",
        columns=shown,
        rows=[
            (
                {f"data-{name}": str(row[name]) for name in FILTERED if name in row},
                [_cell(one, row) for one in shown],
            )
            for row in rows
        ],
        caption=caption,
        label=label or caption,
        style=style,
        absent=[one for one in shown if one.none and any(map(one.empty, rows))],
        about=[one for one in shown if one.about and explained],
    )


def _cell(column: Column, row: Row) -> tuple[str, Markup]:
    """A cell's value to sort by, empty where it was not measured, and its HTML."""
    value = None if column.value is None else column.value(row)
    return "" if value is None else f"{value:.6g}", Markup(column.html(row))


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
    return html_table(columns, rows, about, f"{scope.title}: scores", "matrix")


def _of_task(task: str) -> Column:
    def linked(row: Row, inner: str) -> str:
        cell = row["cells"][task]
        if cell["status"] == "ok":
            return link(cell["id"], inner, heat(cell["score"]))
        return f'<span title="{attribute(cell.get("error", "not run"))}">{inner}</span>'

    return Column(
        printable(short(task), 40),
        lambda row: with_interval(row["cells"][task]),
        lambda row: row["cells"][task]["score"],
        task,
        task=task,
        linked=linked,
    )


def heat(score: float | None) -> str:
    """The class that colours a cell: h0 for 100 % to h5 for less than 20 %."""
    return "" if score is None else f"h{min(5, int((100 - score) / 20 + 0.999))}"


def of_task(scope: Scope, task: str) -> Markup:
    """A task's cells, each a row that opens its samples."""
    groups = (group for _, _, group in by_sampler(scope.task(task).records))
    rows = [record | {"missing": missing(group, [task])} for group in groups for record in group]
    sampler = Column(
        "sampler", SAMPLER.text, code=True, linked=lambda row, inner: link(row["id"], inner)
    )
    columns = [
        MODEL,
        sampler,
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
    return html_table(columns, rows, caption, f"cells of {task}")
