"""Scores beside other figures, as text for the terminal and as sections of report.md: their
ceilings, with the bits that parallel decoding lost, and published scores.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from math import isnan
from pathlib import Path
from typing import Any

from pbcore.analysis.against import Beside, against, shared_differences
from pbcore.analysis.order import narrow_name, natural, sorted_tasks
from pbcore.base.check import LoadError
from pbcore.base.printable import counted, fixed, printable, signed, some
from pbcore.base.tabular import terminal
from pbcore.base.text import md, name
from pbcore.names import recorded
from pbcore.report.cells import NONE, interval_text, or_dash
from pbcore.report.columns import MODEL, SAMPLER, Column, words
from pbcore.report.looks import FULL
from pbcore.report.rows import CellRow
from pbcore.report.scopes import Scope, scopes
from pbcore.report.sections import Section
from pbcore.results.published import figures, read_published
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
ABOUT = (
    "Scores in %; the interval is ours alone; \\* the published figure lies outside it."
    " Differences:"
)
TITLE = "Beside published figures"


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
        columns.append(Column(narrow_name(task), _text_of(task), left=True))
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


def beside_published(
    cells: Sequence[CellRow], files: Sequence[Path] = (), same: Mapping[str, str] | None = None
) -> tuple[list[Beside], str]:
    """Our scores beside published ones.

    Args:
        cells: those of a report.
        files: paths that `results.published.read_published` knows; without any, the package's own
            figures.
        same: our name of a model → the published one, where these don't match.

    Returns:
        The rows, and a text for the case that none matches, with the names on both sides.

    Raises:
        LoadError: for a file of another kind.
    """
    import pandas as pd

    from pbcore.models.registry import sources

    tables = []
    for file in files:
        table = read_published(file)
        if table is None:
            raise LoadError(
                f"{file} has no published figures; give the paper's or the rewrite's CSV, or a run"
                " folder"
            )
        tables.append(table)
    published = pd.concat(tables, ignore_index=True) if tables else figures()
    rows = against(cells, published, sources(), same)
    if rows:
        return rows, ""
    lines = ["no cell has a published figure of the same model, task and sampler"]
    for whose, known in (("here", cells), ("published", published.to_dict("records"))):
        for what in ("model", "sampler"):
            names = [name(text) for text in dict.fromkeys(row[what] for row in known)]
            lines.append(f"  {whose}, {what}s: {some(names, 12)}")
    lines.append(
        "  a model of another name: --as OURS=PUBLISHED; the paper's tables match confidence-k2,"
        " ar, or server"
    )
    return rows, "\n".join(lines)


def against_text(rows: Sequence[Beside], unmatched: str = "") -> str:
    """A table per source, model and sampler; then, per source, what differs and in how many
    rows.
    """
    if not rows:
        return f"{TITLE}: {unmatched}"
    parts = []
    for source, of_source in groupby(rows, key=lambda row: row.source):
        parts.append(
            f"{TITLE}: {printable(source)} (scores in %, our 95 % interval; * published figure"
            " outside it)"
        )
        for (model, theirs, sampler), group in groupby(of_source, key=_names):
            parts.append(f"{name(model)} {name(sampler)} beside {name(theirs)}")
            parts.append(terminal(_section(source, COLUMNS, group).table()))
        parts += [f"  {note}" for note in _notes(rows, source)]
    return "\n".join(parts)


def _names(row: Beside) -> tuple[str, str, str]:
    return row.model, row.published_model, row.sampler


def against_markdown(rows: Sequence[Beside], unmatched: str = "") -> str:
    """The same as a section of report.md."""
    if not rows:
        return f"## {TITLE}\n\n{md(unmatched.replace(chr(10), '; '), 2000)}\n"
    parts = [f"## {TITLE}\n"]
    for source, of_source in groupby(rows, key=lambda row: row.source):
        notes = "\n".join(f"- {md(note)}" for note in _notes(rows, source))
        section = _section(source, [MODEL, SAMPLER, *COLUMNS], of_source, f"{ABOUT}\n\n{notes}")
        parts.append(section.markdown(level=3))
    return "\n".join(parts)


def _section(
    source: str, columns: Sequence[Column], rows: Iterable[Beside], note: str = ""
) -> Section:
    shown = [{"model": row.model, "sampler": row.sampler, "beside": row} for row in rows]
    return Section(source, source, note, columns, shown)


def _beside(head: str, text: Callable[[Beside], str], left: bool = False) -> Column:
    return Column(head, lambda row: text(row["beside"]), left=left)


COLUMNS = (
    _beside("task", lambda row: narrow_name(row.task), left=True),
    _beside("score", lambda row: row.metric, left=True),
    _beside("ours", lambda row: fixed(100 * row.ours)),
    _beside("95 %", lambda row: interval_text(100 * row.low, 100 * row.high).strip() or NONE),
    _beside("published", lambda row: f"{fixed(100 * row.theirs)}{'*' if row.outside else ''}"),
    _beside("difference", lambda row: signed(100 * row.difference)),
    _beside("tok/step", lambda row: or_dash(row.tokens_per_step)),
    _beside("published", lambda row: or_dash(row.their_tokens_per_step)),
)


def _notes(rows: Sequence[Beside], source: str) -> list[str]:
    """What differs between the rows of one source and ours, and in how many rows."""
    total = sum(row.source == source for row in rows)
    notes = shared_differences(rows).get(source, {})
    lines = []
    for note, count in notes.items():
        rows_text = "all rows" if count == total else counted(count, "row")
        lines.append(f"{printable(note, 300)} ({rows_text})")
    return lines
