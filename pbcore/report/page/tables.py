"""The page's static tables, readable without JavaScript: columns over rows. The script sorts by what cells carry."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pandas as pd
from markupsafe import Markup

from pbcore.analysis.order import short
from pbcore.printable import first_line, fixed, printable
from pbcore.report.page.figures import LEVELS, Row, Scope, by_sampler, missing, number, overview
from pbcore.report.page.html import rendered
from pbcore.report.page.svg import attribute, text
from pbcore.report.row_counts import NOTE

NONE = "–"


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its head, each row's text as HTML, and the value to sort by (default: the text, in natural order)."""

    head: str
    html: Callable[[Row], str]
    value: Callable[[Row], float | None] | None = None
    about: str = ""  # tooltip of the head
    wide: bool = False  # long text, which wraps
    optional: bool = False  # left out where no row has a value
    none: str = ""  # why a row may have no value
    task: str = ""  # a column of one task, for the page's filter

    @property
    def numeric(self) -> bool:
        return self.value is not None


def decimals(
    key: str, head: str, places: int = 1, about: str = "", optional: bool = False, none: str = "not measured"
) -> Column:
    """A column of numbers; `–` for what was not measured, and `none` says why."""

    def html(row: Row) -> str:
        return NONE if row[key] is None else fixed(row[key], places)

    return Column(head, html, lambda row: row[key], about, optional=optional, none=none)


def words(key: str, head: str, about: str = "", wide: bool = False) -> Column:
    """A column of foreign text."""
    return Column(head, lambda row: text(str(row[key]), 400), None, about, wide)


def scored(row: Row, places: int = 1) -> str:
    """A score in % with its 95 % interval."""
    if row["score"] is None:
        return NONE
    ends = "" if row["low"] is None else f"[{fixed(row['low'], 0)}–{fixed(row['high'], 0)}]"
    return fixed(row["score"], places) + (f' <span class="ci">{ends}</span>' if ends else "")


MODEL = words("model", "model")
SAMPLER = Column("sampler", lambda row: f"<code>{text(row['sampler'], 60)}</code>")
_SILENT = "not reported by the model's server, or the cell has no forwards"
STEPS = (
    decimals(
        "tokens_per_step",
        "tokens/step",
        2,
        "mean over samples of canvas tokens / forwards, the paper's axis; of several tasks the plain mean",
        none=_SILENT,
    ),
    decimals("tokens_per_row", "tokens/row", 2, f"mean over samples of canvas tokens / rows; {NOTE}", optional=True),
)
RATES = (
    *STEPS,
    decimals(
        "tokens_per_forward",
        "tokens/forward",
        2,
        "answer tokens before the first EOS / forwards, both summed over samples; of several tasks the plain mean",
        none=_SILENT,
    ),
    decimals("nfe", "NFE", 1, "forwards (network function evaluations) per sample", none=_SILENT),
    decimals("rows", "rows", 1, f"canvases forwarded per sample; {NOTE}", optional=True),
    decimals("samples_per_second", "samples/s", 1, none="the cells have no time of their own, or were not all run"),
)
THEORY = (
    decimals(
        "ceiling",
        "ceiling %",
        1,
        "the ideal model's expected accuracy under the same sampler: what it lacks to 100 is lost by parallel decoding",
        optional=True,
        none="the task's right answers can't be listed, or the sampler has no ceiling",
    ),
    decimals(
        "bits_lost",
        "bits lost",
        2,
        "what drawing tokens together loses, in bits: the total correlation between the tokens that one step reveals, "
        "summed over steps, mean over answers; 0 is lossless",
        optional=True,
        none="the task's right answers can't be listed",
    ),
)
_UNSCORED = "some task has no score; the column “not measured, and why” has the reason"
OVERVIEW = (
    MODEL,
    SAMPLER,
    Column("mean score %", scored, lambda row: row["score"], "plain mean over the model's tasks [95 % interval]",
           none=_UNSCORED),
    *THEORY,
    *RATES,
    words("tasks", "tasks scored"),
)  # fmt: skip
MISSING = words("missing", "not measured, and why", wide=True)
POLICIES = (
    MODEL,
    Column("policy", lambda row: f"<code>{text(row['family'], 60)}</code>"),
    decimals("points", "points", 0, "samplers of this policy that were measured on all tasks"),
    *(
        decimals(
            f"PB{level}",
            f"PB{level}",
            2,
            f"the largest tokens per step at which the mean score is at least {level} %; measured points only",
            none="no sampler of the policy reached that score",
        )
        for level in LEVELS
    ),
    decimals(
        "AUP",
        "AUP",
        1,
        "accuracy under parallelism: the area under score over tokens per forward, where lost score counts e^(−3·loss)",
        none="an area needs two points at least",
    ),
)


def present(columns: Sequence[Column], rows: Sequence[Row]) -> list[Column]:
    """The columns without those optional ones that would be empty."""
    return [
        column
        for column in columns
        if not (column.optional and column.value and all(column.value(row) is None for row in rows))
    ]


def with_missing(columns: Sequence[Column], rows: Sequence[Row]) -> Sequence[Column]:
    """The columns, and one for what was not measured if there is such."""
    return [*columns, MISSING] if any(row["missing"] for row in rows) else columns


def html_table(
    columns: Sequence[Column],
    rows: Iterable[Row],
    caption: str,
    label: str = "",
    style: str = "",
    explained: bool = False,
) -> str:
    """A sortable table; its rows carry model, task and sampler, by which the page filters. Under it the reason for each
    `–`, and if `explained` what the columns are."""
    rows = list(rows)
    shown = present(columns, rows)
    absent = [one for one in shown if one.none and one.value and any(one.value(row) is None for row in rows)]
    about = [one for one in shown if one.about and explained]
    return rendered(
        "table.html",
        columns=shown,
        rows=[(_keys(row), [_cell_of(column, row) for column in shown]) for row in rows],
        caption=Markup(caption),
        label=label or caption,
        style=style,
        absent=absent,
        about=about,
    )


def _cell_of(column: Column, row: Row) -> tuple[str, Markup]:
    """A cell's value to sort by, empty where it was not measured, and its HTML."""
    value = None if column.value is None else column.value(row)
    return "" if value is None else f"{value:.6g}", Markup(column.html(row))


def _keys(row: Row) -> dict[str, str]:
    return {f"data-{name}": str(row[name]) for name in ("model", "task", "sampler") if name in row}


def link(cell_id: str, inner: str, style: str = "", only: str = "") -> str:
    """A link that opens a cell's samples; `only` wrong ones or flips."""
    chosen = f"&amp;only={only}" if only else ""
    kind = f' class="{style}"' if style else ""
    return f'<a href="#cell={quote(printable(cell_id, 300), safe="/:")}{chosen}"{kind}>{inner}</a>'


def matrix(scope: Scope) -> str:
    """Scores of a category: a row per model and sampler, the means over its tasks, and a column per task."""
    rows = overview(scope)
    for row, (_, _, group) in zip(rows, by_sampler(scope.records), strict=True):
        row["cells"] = {record["task"]: _cell(record) for record in group}
    mean = Column("mean", scored, lambda row: row["score"], "plain mean over the tasks", none=_UNSCORED)
    columns = [MODEL, SAMPLER, mean, *THEORY, *STEPS, *(_of_task(task) for task in scope.tasks)]
    about = "score in % [95 % interval]; each opens its samples; the redder, the lower"
    return html_table(columns, rows, about, f"{scope.title}: scores", "matrix")


def _of_task(task: str) -> Column:
    def html(row: Row) -> str:
        cell = row["cells"].get(task)
        if cell is None:
            return '<span title="not run">·</span>'
        if cell["status"] != "ok":
            return f'<span title="{attribute(cell["error"])}">error</span>'
        return link(cell["id"], scored(cell, 0), heat(cell["score"]))

    def value(row: Row) -> float | None:
        cell = row["cells"].get(task)
        return None if cell is None else cell["score"]

    return Column(text(short(task), 40), html, value, task, task=task)


def heat(score: float | None) -> str:
    """The class that colours a cell: h0 for 100 % to h5 for less than 20 %."""
    return "" if score is None else f"h{min(5, int((100 - score) / 20 + 0.999))}"


def _cell(record: dict[Any, Any]) -> Row:
    """A row of `results.load` for a table."""
    names = {"score": "score", "low": "score_low", "high": "score_high"}
    shown = {name: number(record.get(key)) for name, key in names.items()}
    names_of_rates = ("tokens_per_step", "tokens_per_row", "tokens_per_forward", "nfe", "rows", "samples_per_second")
    rates = {key: number(record.get(key)) for key in names_of_rates}
    ceiling = number(record.get("ceiling"))
    return {
        "ceiling": None if ceiling is None else 100 * ceiling,
        "bits_lost": number(record.get("bits_lost")),
        **{key: str(record[key]) for key in ("id", "model", "task", "sampler", "status")},
        **{name: None if value is None else 100 * value for name, value in shown.items()},
        **rates,
        "error": first_line(str(record["error"] or "no cause recorded")) if record["status"] != "ok" else "",
        "n": number(record["n"]),
    }


def of_task(scope: Scope, task: str) -> str:
    """A task's cells, each a row that opens its samples."""
    one = scope.task(task)
    groups = (group for _, _, group in by_sampler(one.records))
    rows = [_cell(record) | {"missing": missing(group, [task])} for group in groups for record in group]
    cell = Column("sampler", lambda row: link(row["id"], f"<code>{text(row['sampler'], 60)}</code>"))
    columns = [
        MODEL,
        cell,
        Column("score %", scored, lambda row: row["score"], none=_UNSCORED),
        *THEORY,
        decimals("n", "samples", 0),
        *RATES,
    ]
    return html_table(
        with_missing(columns, rows), rows, f"{text(task, 80)}: {text(_headlines(one.cells))}", f"cells of {task}"
    )


def _headlines(cells: pd.DataFrame) -> str:
    return "score is " + ", ".join(sorted({str(name) for name in cells["headline"].dropna()} - {""}) or ["unknown"])
