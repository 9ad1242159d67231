"""Scores beside their ceilings, with the bits that parallel decoding lost: as text for the terminal
and as sections of report.md.
"""

from collections.abc import Callable, Iterable, Sequence
from math import isnan
from typing import Any

from pbcore.analysis.order import narrow_name, natural, sorted_tasks
from pbcore.base.printable import counted, fixed
from pbcore.base.tabular import terminal
from pbcore.base.text import name
from pbcore.names import recorded
from pbcore.report.cells import NONE, or_dash
from pbcore.report.columns import MODEL, Column, words
from pbcore.report.looks import FULL
from pbcore.report.rows import CellRow
from pbcore.report.scopes import Scope, scopes
from pbcore.report.sections import Section
from pbcore.results.questions import redrawn
from pbcore.results.table_row import Row
from pbcore.tasks.base import Task
from pbcore.theory.ceiling import Ceiling

NOTE = (
    "Score / ceiling in %, then the gap in points. The ceiling is the ideal model's expected"
    " accuracy on the same samples under the same sampler: what it lacks to 100 is lost by parallel"
    " decoding, and the gap is the model's own. ~: by decoding the ideal model, with sampling"
    " error; others are exact. Rows without a ceiling below 100 are left out."
)
BITS = (
    "L_T of the partition that each decoding took, in bits (ParallelBench, Theorem 1), a mean over"
    " answers; then tokens per step. Rows that lost nothing are left out."
)
LOSSLESS = 5e-4  # bits


def ceiling_section(cells: Sequence[CellRow]) -> str:
    """The part of report.md with both tables; empty where no record has a ceiling or bits."""
    parts = [section.markdown() for section in _sections(cells)]
    within = _within(cells)
    if parts and within:
        parts.append(f"{within}\n")
    return "\n".join(parts)


def ceiling_text(cells: Sequence[CellRow]) -> str:
    """The same for a terminal."""
    parts = []
    for section in _sections(cells):
        parts.append(f"{name(section.title)}\n{terminal(section.table())}\n  {section.note}")
    within = _within(cells)
    if parts and within:
        parts.append(within)
    return "\n\n".join(parts)


def _within(cells: Iterable[CellRow]) -> str:
    """How many cells of `ideal` have their ceiling within their interval; empty without such
    cells.
    """
    ideal = []
    for row in cells:
        if row["model"] == "ideal" and row["status"] == "ok" and not isnan(row["ceiling"]):
            ideal.append(row)
    if not ideal:
        return ""
    inside = 0
    for row in ideal:
        inside += row["low"] <= row["ceiling_high"] and row["ceiling_low"] <= row["high"]
    return (
        f"Of {counted(len(ideal), 'cell')} of ideal, {inside} have their ceiling within"
        " the 95 % interval of their score; about one in twenty of those below 100 should not."
    )


def with_ceilings(cells: Iterable[CellRow]) -> list[CellRow]:
    """The cells with the ceilings that their records lack, for generated samples: these are drawn
    again, and used if they are those of the record.
    """
    # imports torch: only for runs that lack their ceilings
    from pbcore.ceilings.ceiling import Ceilings
    from pbcore.decoding.samplers import sampler_of

    ceilings = Ceilings()
    tasks: dict[tuple[Any, ...], Task | None] = {}
    filled = []
    for row in cells:
        ceiling = None
        own = recorded(row["sampler"])
        if own is not None and row["headline"] == "accuracy" and isnan(row["ceiling"]):
            key = row["task"], row["n"], row["length"], row["data_hash"]
            if key not in tasks:
                tasks[key] = _redrawn(row)
            task = tasks[key]
            block = (row["model_info"] or {}).get("block")
            ceiling = None if task is None else ceilings.of(task, sampler_of(own), block)
        filled.append(row if ceiling is None else _under(ceiling, row))
    return filled


def _redrawn(row: CellRow) -> Task | None:
    """A cell's samples, drawn again; None of a cell that failed, and where they differ now."""
    if row["status"] != "ok":
        return None
    options = row["options"] or {}
    count = int(row["n"])
    return redrawn(row["task"], str(row["length"]), count, options, row["data_hash"])


def _under(ceiling: Ceiling, row: CellRow) -> CellRow:
    """A cell with its ceiling."""
    return {
        **row,
        "ceiling": 100 * ceiling.mean,
        "ceiling_low": 100 * ceiling.low,
        "ceiling_high": 100 * ceiling.high,
        "ceiling_kind": ceiling.kind,
        "gap": ceiling.mean - row["score"] / 100,
    }


def _sections(cells: Iterable[CellRow]) -> list[Section]:
    """A table per category that has something to show."""
    whole, categories = scopes(row for row in cells if row["status"] == "ok")
    sections = []
    for scope in categories:
        capped = [row for row in scope.records if row["ceiling"] < FULL]
        if capped:
            title = f"Ceilings: {scope.title}"
            sections.append(_by_task(title, NOTE, scope, capped, whole.models, _against))
        lossy = [row for row in scope.records if row["bits_lost"] > LOSSLESS]
        if lossy:
            title = f"Bits lost: {scope.title}"
            sections.append(_by_task(title, BITS, scope, lossy, whole.models, _bits))
    return sections


def _by_task(
    title: str,
    note: str,
    scope: Scope,
    shown: Sequence[CellRow],
    models: Sequence[str],
    entry: Callable[[CellRow], str],
) -> Section:
    """A row per model and sampler, a column per task.

    Args:
        title: that of the section.
        note: what stands under it.
        scope: a category.
        shown: those of its cells whose models and samplers, and whose tasks, are in the table.
        models: in their order.
        entry: the text of a cell.
    """
    pairs = {(row["model"], row["sampler"]) for row in shown}
    texts: dict[tuple[str, str], dict[str, str]] = {}
    for row in scope.records:
        texts.setdefault((row["model"], row["sampler"]), {})[row["task"]] = entry(row)
    rows = []
    for model, sampler in sorted(pairs, key=lambda pair: (models.index(pair[0]), natural(pair[1]))):
        rows.append({"model": model, "sampler": sampler, **texts[model, sampler]})
    columns = [MODEL, words("sampler", "sampler")]
    for task in sorted_tasks(row["task"] for row in shown):
        columns.append(Column(narrow_name(task), _text_of(task), align="l"))
    return Section(title, title, note, columns, rows)


def _text_of(task: str) -> Callable[[Row], str]:
    return lambda row: str(row.get(task, NONE))


def _against(row: CellRow) -> str:
    if isnan(row["ceiling"]) or isnan(row["score"]):
        return NONE
    sign = "~" if row["ceiling_kind"] == "sampled" else ""
    ceiling = f"{sign}{fixed(row['ceiling'])}"
    return f"{fixed(row['score'], 0)} / {ceiling}, {fixed(100 * row['gap'], 0)}"


def _bits(row: CellRow) -> str:
    if isnan(row["bits_lost"]):
        return NONE
    return f"{fixed(row['bits_lost'], 2)}, {or_dash(row['tokens_per_step'])}"
