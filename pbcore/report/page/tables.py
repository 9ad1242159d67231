"""The page's static tables, readable without JavaScript: columns over rows. The script sorts by what cells carry."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pandas as pd

from pbcore.analysis.order import short
from pbcore.printable import first_line, printable
from pbcore.report.page.figures import LEVELS, Row, Scope, by_sampler, missing, number, overview
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

    @property
    def numeric(self) -> bool:
        return self.value is not None


def decimals(key: str, head: str, places: int = 1, about: str = "", optional: bool = False) -> Column:
    """A column of numbers; `–` for what was not measured."""

    def html(row: Row) -> str:
        return NONE if row[key] is None else f"{row[key]:,.{places}f}"

    return Column(head, html, lambda row: row[key], about, optional=optional)


def words(key: str, head: str, about: str = "", wide: bool = False) -> Column:
    """A column of foreign text."""
    return Column(head, lambda row: text(str(row[key]), 400), None, about, wide)


def scored(row: Row, places: int = 1) -> str:
    """A score in % with its 95 % interval."""
    if row["score"] is None:
        return NONE
    interval = "" if row["low"] is None else f' <span class="ci">[{row["low"]:.0f}–{row["high"]:.0f}]</span>'
    return f"{row['score']:.{places}f}{interval}"


MODEL = words("model", "model")
SAMPLER = Column("sampler", lambda row: f"<code>{text(row['sampler'], 60)}</code>")
STEPS = (
    decimals("tokens_per_step", "tokens/step", 2, "mean over samples of canvas tokens / forwards, the paper's axis"),
    decimals("tokens_per_row", "tokens/row", 2, f"mean over samples of canvas tokens / rows; {NOTE}", optional=True),
)
RATES = (
    *STEPS,
    decimals("tokens_per_forward", "tokens/forward", 2, "answer tokens before the first EOS / forwards"),
    decimals("nfe", "NFE", 1, "forwards per sample"),
    decimals("rows", "rows", 1, f"canvases forwarded per sample; {NOTE}", optional=True),
    decimals("samples_per_second", "samples/s", 1),
)
THEORY = (
    Column(
        "ceiling %",
        lambda row: NONE if row["ceiling"] is None else f"{row['ceiling']:.1f}",
        lambda row: row["ceiling"],
        "the ideal model's expected accuracy under the same sampler: what it lacks to 100 is lost by parallel decoding",
        optional=True,
    ),
    Column(
        "bits lost",
        lambda row: NONE if row["bits_lost"] is None else f"{row['bits_lost']:.2f}",
        lambda row: row["bits_lost"],
        "mean over answers of L_T of the partition that each decoding took",
        optional=True,
    ),
)
OVERVIEW = (
    MODEL,
    SAMPLER,
    Column("mean score %", scored, lambda row: row["score"], "plain mean over the model's tasks [95 % interval]"),
    *THEORY,
    *RATES,
    words("tasks", "tasks scored"),
)
MISSING = words("missing", "not measured, and why", wide=True)
POLICIES = (
    MODEL,
    Column("policy", lambda row: f"<code>{text(row['family'], 60)}</code>"),
    decimals("points", "points", 0, "samplers of this policy that were measured on all tasks"),
    *(
        decimals(
            f"PB{level}", f"PB{level}", 2, f"the largest tokens per step at which the mean score is at least {level} %"
        )
        for level in LEVELS
    ),
    decimals("AUP", "AUP", 1, "accuracy under parallelism: area under score over tokens per forward"),
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


def html_table(columns: Sequence[Column], rows: Iterable[Row], caption: str, label: str = "", style: str = "") -> str:
    """A sortable table; its rows carry model, task and sampler, by which the page filters."""
    rows = list(rows)
    columns = present(columns, rows)
    heads = "".join(
        f'<th scope="col"{" class=num" if column.numeric else ""}{_title(column.about)}>{column.head}</th>'
        for column in columns
    )
    body = "".join(f"<tr{_keys(row)}>{''.join(_cells(columns, row))}</tr>" for row in rows)
    head = f"<caption>{caption}</caption><thead><tr>{heads}</tr></thead>"
    return scrolling(f'<table class="sortable {style}">{head}<tbody>{body}</tbody></table>', label or caption)


def scrolling(inner: str, label: str) -> str:
    """A part that scrolls sideways on a narrow screen, by keyboard too."""
    return f'<div class="wide" role="region" tabindex="0" aria-label="{attribute(label)}">{inner}</div>'


def _title(about: str) -> str:
    return f' title="{attribute(about)}"' if about else ""


def _cells(columns: Sequence[Column], row: Row) -> Iterable[str]:
    for number_of, column in enumerate(columns):
        tag = 'th scope="row"' if number_of == 1 else "td"
        value = None if column.value is None else column.value(row)
        sort = (
            " class=text"
            if column.wide
            else ""
            if column.value is None
            else f' class=num data-v="{"" if value is None else f"{value:.6g}"}"'
        )
        yield f"<{tag}{sort}>{column.html(row)}</{tag.split(' ')[0]}>"


def _keys(row: Row) -> str:
    return "".join(
        f' data-{name}="{attribute(str(row[name]))}"' for name in ("model", "task", "sampler") if name in row
    )


def link(cell_id: str, inner: str, only: str = "") -> str:
    """A link that opens a cell's samples; `only` wrong ones or flips."""
    chosen = f"&amp;only={only}" if only else ""
    return f'<a href="#cell={quote(printable(cell_id, 300), safe="/:")}{chosen}">{inner}</a>'


def matrix(scope: Scope) -> str:
    """Scores of a category: a row per model and sampler, the means over its tasks, and a column per task."""
    rows = overview(scope)
    for row, (_, _, group) in zip(rows, by_sampler(scope.cells), strict=True):
        row["cells"] = {record["task"]: _cell(record) for record in group.to_dict("records")}
    mean = Column("mean", scored, lambda row: row["score"], "plain mean over the tasks")
    columns = [MODEL, SAMPLER, mean, *THEORY, *STEPS, *(_of_task(task) for task in scope.tasks)]
    about = "score in % [95 % interval]; each opens its samples"
    return html_table(columns, rows, about, f"{scope.title}: scores", "matrix")


def _of_task(task: str) -> Column:
    def html(row: Row) -> str:
        cell = row["cells"].get(task)
        if cell is None:
            return '<span title="not run">·</span>'
        if cell["status"] != "ok":
            return f'<span title="{attribute(cell["error"])}">error</span>'
        return link(cell["id"], scored(cell, 0))

    def value(row: Row) -> float | None:
        cell = row["cells"].get(task)
        return None if cell is None else cell["score"]

    return Column(text(short(task), 40), html, value, task)


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
    rows = []
    for _, _, group in by_sampler(one.cells):
        rows += [_cell(record) | {"missing": missing(group, [task])} for record in group.to_dict("records")]
    cell = Column("sampler", lambda row: link(row["id"], f"<code>{text(row['sampler'], 60)}</code>"))
    columns = [
        MODEL,
        cell,
        Column("score %", scored, lambda row: row["score"]),
        *THEORY,
        decimals("n", "samples", 0),
        *RATES,
    ]
    return html_table(
        with_missing(columns, rows), rows, f"{text(task, 80)}: {text(_headlines(one.cells))}", f"cells of {task}"
    )


def _headlines(cells: pd.DataFrame) -> str:
    return "score is " + ", ".join(sorted({str(name) for name in cells["headline"].dropna()} - {""}) or ["unknown"])
