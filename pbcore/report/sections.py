"""Sections that report.md and report.html share: what factors change, order and variety of answers,
and the frontier. Each is described once and rendered twice.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import isnan
from operator import itemgetter
from typing import Any, Literal

from pbcore.analysis.factors import SEED, FactorChange
from pbcore.analysis.frontier_gap import KINDS, Room, frontier_room
from pbcore.analysis.order import natural, sorted_tasks
from pbcore.base.printable import fixed, signed
from pbcore.base.tabular import Table, markdown, terminal
from pbcore.base.text import folded, md, name
from pbcore.report import columns as tables
from pbcore.report.answers import ReportCell
from pbcore.report.cells import NONE, or_dash
from pbcore.report.rows import CellRow
from pbcore.results.record import Score
from pbcore.results.table_row import Row
from pbcore.tasks.naming import short

LEVELLED = "levelled "  # before the key of a name that the page's filters don't know
EXPLORATION = {"pass_at", "flip_flops", "law"}  # without any of them a cell has no row


@dataclass(frozen=True, slots=True)
class Section:
    """A table with a note, which terminal, report.md, page and LaTeX write.

    Attributes:
        title: its heading.
        short: its name on the page, and of its file.
        note: Markdown under it.
        columns: what it shows.
        rows: of which.
        heads: those of report.md and of the terminal; by default the columns' own.
        caption: what stands above the page's table; by default the title.
        said: the caption in LaTeX; by default that of the page.
        groups: heads above those of the columns, each over so many.
    """

    title: str
    short: str
    note: str
    columns: Sequence[tables.Column]
    rows: Sequence[Row]
    heads: Sequence[str] = ()
    caption: str = ""
    said: str = ""
    groups: Sequence[tuple[str, int]] = ()

    def markdown(self, level: int = 2) -> str:
        """The section of report.md; empty without rows."""
        if not self.rows:
            return ""
        heading = f"{'#' * level} {md(self.title)}\n\n{markdown(self.table())}\n"
        return f"{heading}\n{self.note}\n" if self.note else heading

    def terminal(self, width: int) -> str:
        """The section for a terminal of so many columns; empty without rows."""
        if not self.rows:
            return ""
        table = terminal(self.table(), width)
        return "\n".join([self.title, "", table, "", *folded(self.note, width, 0)]) + "\n"

    def table(self) -> Table:
        """Its texts."""
        heads = self.heads or [name(column.head) for column in self.columns]
        rows = [[column.entry(row) for column in self.columns] for row in self.rows]
        sides = "".join(column.side(self.rows) for column in self.columns)
        return Table(heads, rows, sides)

    @property
    def shown(self) -> list[tables.Column]:
        """Its columns without optional ones that would be empty."""
        shown = []
        for column in self.columns:
            if not column.optional or not all(column.empty(row) for row in self.rows):
                shown.append(column)
        return shown


def listed(title: str, note: str, rows: Sequence[Row], significant: int | None = None) -> Section:
    """A section with a column for each entry of its rows; texts are on the left, numbers on the
    right.

    Args:
        title: that of the section.
        note: what stands under it.
        rows: with the same keys, which are the heads.
        significant: digits of fractions; None for two decimals.
    """
    columns = []
    for key in rows[0] if rows else ():
        has_text = any(isinstance(row[key], str) for row in rows)
        side: Literal["l", ""] = "l" if has_text else ""
        columns.append(tables.Column(key, partial(_written, key, significant), align=side))
    return Section(title, title, note, columns, rows)


def _written(key: str, significant: int | None, row: Row) -> str:
    value = row[key]
    if value is None:
        return NONE
    if not isinstance(value, float):
        return str(value)
    if significant is None:
        return or_dash(value, 2)
    return NONE if isnan(value) else f"{value:.{significant}g}"


def factor_section(changes: Iterable[FactorChange]) -> Section:
    """What changes with a run's factors; no rows for a run without factors and with one seed."""
    changes = list(changes)
    # A level is part of the page's model, or of its sampler (+x8): such a row is of several.
    prefix = "" if all(change.factor == SEED for change in changes) else LEVELLED
    rows = [_factor_row(change, prefix) for change in changes]
    title = "What changes with each factor"
    note = (
        "Answers and scores: the share that is another one when this factor alone changes, beside"
        " the change of the mean, each with its 95 % interval over samples. Flips in both"
        " directions cancel in the mean."
    )
    return Section(title, title, note, _columns(rows), rows)


def _factor_row(change: FactorChange, prefix: str) -> dict[str, str]:
    """What one step of a factor changes; `prefix` stands before the keys of its names."""
    paired = change.paired
    low, high = paired.limits
    interval = f"[{signed(100 * low)} – {signed(100 * high)}]"
    return {
        "task": change.task,
        f"{prefix}model": change.model,
        f"{prefix}sampler": change.sampler,
        "factor": change.factor,
        "from → to": f"{change.base} → {change.head}",
        "n": str(change.answers.n),
        "answers %": _share(change.answers),
        "scores %": _share(change.scores),
        "mean": f"{fixed(100 * paired.base)} → {fixed(100 * paired.head)}",
        "change, points": f"{signed(100 * paired.change)} {interval}",
    }


def _share(share: Score) -> str:
    return f"{fixed(100 * share.mean)} [{fixed(100 * share.low)}–{fixed(100 * share.high)}]"


def _columns(rows: Sequence[Mapping[str, str]]) -> list[tables.Column]:
    """A column of text per entry. Rows carry the task's whole name, by which the page filters them,
    and show its short one.
    """
    keys = list(rows[0]) if rows else []
    columns = [tables.words(key, key.removeprefix(LEVELLED)) for key in keys]
    task = tables.Column("task", lambda row: short(str(row["task"])))
    return [task if column.head == "task" else column for column in columns]


def exploration_section(cells: Iterable[CellRow]) -> Section:
    """Order, remasks and variety of answers: a row per cell with more than one seed, remasks or a
    law to compare with, without columns that are empty.
    """
    rows = []
    for cell in cells:
        decoding = cell["decoding"]
        if decoding is not None and not EXPLORATION.isdisjoint(decoding):
            rows.append(_exploration_row(cell, decoding))
    columns = []
    for column in _columns(rows):
        if any(row[column.head] != NONE for row in rows):
            columns.append(column)
    note = (
        "τ: Kendall's τ-b between position and step, 1 is left to right. Remasks per answer, and"
        " the share after which the same token came back (2602.06161). Texts / seed: different"
        " answers to a question over its seeds; pass@k: at least one of k seeds is right (unbiased,"
        " 2107.03374). TV: total variation between the answers and the exact law, in brackets that"
        " of as many exact draws; transitions and visits of walks (2606.22976), places of the items"
        " of right lists. Bits: entropy per transition of walks, of right answers for lists, and"
        " that of exact draws."
    )
    return Section(
        "Order, remasks and variety of the answers", "Order and variety", note, columns, rows
    )


def _exploration_row(cell: CellRow, decoding: Mapping[str, Any]) -> dict[str, str]:
    law = decoding.get("law", {})
    pass_at = [f"{k}: {100 * share:.0f} %" for k, share in decoding.get("pass_at", {}).items()]
    places = law.get("places", law.get("stationary"))
    return {
        "task": cell["task"],
        "model": cell["model"],
        "sampler": cell["sampler"],
        "τ": _number(decoding.get("kendall"), ".2f"),
        "remasks": _number(decoding.get("remasks"), ".2f"),
        "same token again": _number(decoding.get("flip_flops"), ".0%"),
        "texts / seed": _number(decoding.get("distinct"), ".2f"),
        "pass@k": ", ".join(pass_at) if pass_at else NONE,
        "TV of transitions": _number(law.get("kernel"), ".3f", law.get("kernel_by_chance")),
        "TV of places or visits": _number(places, ".3f", law.get("places_by_chance")),
        "bits (exact)": _number(law.get("entropy"), ".2f", law.get("entropy_exact")),
    }


def _number(value: float | None, form: str, exact: float | None = None) -> str:
    """`0.123 (0.120)`: a value in a format, and behind it the exact one where it is known."""
    text = NONE if value is None else format(value, form)
    return text if exact is None else f"{text} ({exact:{form}})"


def _gap(row: Row) -> str:
    """How much the score lacks to the best; a score above the best is there by chance."""
    gap = row["gap"]
    if gap is None:
        return NONE
    text = signed(gap).replace("-", "−").removeprefix("+")
    by_chance = gap < 0 and row["best"] >= row["low"]
    return f"{text}, by chance" if by_chance else text


def _best(row: Row) -> str:
    return "unbounded" if row["best"] is None else fixed(row["best"])


FRONTIER = (
    tables.MODEL,
    tables.SAMPLER,
    tables.words("task", "task"),
    tables.score_column("score %"),
    tables.decimals("steps", "steps", 2, "mean forwards per answer"),
    tables.words("chooses", "chooses", "which frontier binds the sampler, if one does"),
    tables.Column(
        "best %",
        _best,
        itemgetter("best"),
        "the best accuracy of samplers of its kind in as many steps",
    ),
    tables.Column("gap, points", _gap, itemgetter("gap"), "best less score"),
)

BEST = "the best accuracy of independent draws in as many steps"
FRONTIER_NOTE = (
    "Best: the highest expected accuracy, in the cell's mean steps, of samplers that write only"
    " tokens drawn independently of each other from the exact predictions and keep each,"
    " adaptive orders included; for each n at its own steps, then averaged over samples. It is"
    " an expectation: a score of few samples may lie above it by chance, and then the gap is"
    " negative. Its samplers"
    " choose positions before they look at predicted tokens or noise (positions first), or"
    " after they see them (tokens first). It doesn't bind samplers that take tokens back,"
    " choose their own tokens or declare nothing, nor models whose predictions aren't the exact"
    " ones. Only list_ops tasks with several answers are here, with one token per item, greedy"
    " or at τ = 1: other canvases, of waiting lines and Latin squares too, hold more tokens"
    " than items, and tasks with one answer need one step."
)
FRONTIER_HEADS = (
    "model",
    "sampler",
    "task",
    "score [95 % interval]",
    "steps",
    "chooses",
    "best",
    "gap, points",
)


def rooms(answers: Iterable[ReportCell]) -> list[Room]:
    """The cells that have a frontier, by model and task, samplers in natural order."""
    unordered = []
    for answer in answers:
        lengths = {index: question.length for index, question in answer.questions.items()}
        room = frontier_room(answer.cell, answer.samples, lengths)
        if room is not None:
            unordered.append(replace(room, model=answer.model))
    models = list(dict.fromkeys(room.model for room in unordered))
    tasks = sorted_tasks(room.task for room in unordered)

    def place(room: Room) -> tuple[Any, ...]:
        return models.index(room.model), tasks.index(room.task), natural(room.sampler)

    return sorted(unordered, key=place)


def frontier_section(found: Iterable[Room]) -> Section:
    """Cells beside the optimal frontier: the best accuracy of independent draws in as many
    steps.
    """
    rows: list[Row] = []
    for room in found:
        row = {
            "model": room.model,
            "sampler": room.sampler,
            "task": room.task,
            "steps": room.steps,
            "gap": room.gap,
            "score": 100 * room.score,
            "low": 100 * room.low,
            "high": 100 * room.high,
            "best": None if room.best is None else 100 * room.best,
            "chooses": KINDS[room.kind],
        }
        rows.append(row)
    title = f"Frontier: {BEST}, in %"
    return Section(title, "Frontier", FRONTIER_NOTE, FRONTIER, rows, FRONTIER_HEADS, BEST)
