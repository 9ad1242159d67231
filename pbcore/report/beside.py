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
from pbcore.base.tabular import Code, Table, markdown, terminal
from pbcore.base.text import md, name
from pbcore.names import recorded
from pbcore.report.cells import NONE, interval_text, or_dash
from pbcore.report.looks import FULL
from pbcore.report.rows import CellRow
from pbcore.report.scopes import Scope, scopes
from pbcore.results.published import figures, read_published
from pbcore.results.questions import redrawn
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
HEADERS = ("task", "score", "ours", "95 %", "published", "difference", "tok/step", "published")
SIDES = "llrrrrrr"
TITLE = "Beside published figures"


def ceiling_section(cells: Sequence[CellRow]) -> str:
    """The part of report.md with both tables; empty where no record has a ceiling or bits."""
    parts = []
    for title, note, table in _tables(cells):
        parts.append(f"## {md(title)}\n\n{markdown(table)}\n\n{note}\n")
    within = _within(cells)
    if parts and within:
        parts.append(f"{within}\n")
    return "\n".join(parts)


def ceiling_text(cells: Sequence[CellRow]) -> str:
    """The same for a terminal."""
    parts = []
    for title, note, table in _tables(cells):
        parts.append(f"{name(title)}\n{terminal(table)}\n  {note}")
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


def _tables(cells: Iterable[CellRow]) -> list[tuple[str, str, Table]]:
    """(title, note, table) per category that has something to show."""
    whole, categories = scopes(row for row in cells if row["status"] == "ok")
    tables = []
    for scope in categories:
        capped = [row for row in scope.records if row["ceiling"] < FULL]
        if capped:
            table = _by_task(scope, capped, whole.models, _against)
            tables.append((f"Ceilings: {scope.title}", NOTE, table))
        lossy = [row for row in scope.records if row["bits_lost"] > LOSSLESS]
        if lossy:
            table = _by_task(scope, lossy, whole.models, _bits)
            tables.append((f"Bits lost: {scope.title}", BITS, table))
    return tables


def _by_task(
    scope: Scope,
    shown: Sequence[CellRow],
    models: Sequence[str],
    entry: Callable[[CellRow], str],
) -> Table:
    """A row per model and sampler, a column per task.

    Args:
        scope: a category.
        shown: those of its cells whose models and samplers, and whose tasks, are in the table.
        models: in their order.
        entry: the text of a cell.
    """
    texts = {}
    for row in scope.records:
        texts[row["model"], row["sampler"], row["task"]] = entry(row)
    tasks = sorted_tasks(row["task"] for row in shown)
    pairs = {(row["model"], row["sampler"]) for row in shown}
    rows = []
    for model, sampler in sorted(pairs, key=lambda pair: (models.index(pair[0]), natural(pair[1]))):
        entries = [name(texts.get((model, sampler, task), NONE)) for task in tasks]
        rows.append([name(model), name(sampler), *entries])
    return Table(["model", "sampler", *(name(narrow_name(task)) for task in tasks)], rows)


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
            parts.append(terminal(Table(HEADERS, [_cells(row) for row in group], SIDES)))
        parts += [f"  {note}" for note in _notes(rows, source)]
    return "\n".join(parts)


def _names(row: Beside) -> tuple[str, str, str]:
    return row.model, row.published_model, row.sampler


def against_markdown(rows: Sequence[Beside], unmatched: str = "") -> str:
    """The same as a section of report.md."""
    if not rows:
        return f"## {TITLE}\n\n{md(unmatched.replace(chr(10), '; '), 2000)}\n"
    parts = [f"## {TITLE}\n"]
    about = (
        "Scores in %; the interval is ours alone; \\* the published figure lies outside it."
        " Differences:"
    )
    for source, of_source in groupby(rows, key=lambda row: row.source):
        lines = [[name(row.model), Code(name(row.sampler)), *_cells(row)] for row in of_source]
        table = Table(["model", "sampler", *HEADERS], lines, f"ll{SIDES}")
        parts += [f"### {md(source)}\n", markdown(table), "", about, ""]
        parts += [f"- {md(note)}" for note in _notes(rows, source)]
        parts.append("")
    return "\n".join(parts)


def _cells(row: Beside) -> list[str]:
    return [
        narrow_name(row.task),
        row.metric,
        fixed(100 * row.ours),
        interval_text(100 * row.low, 100 * row.high).strip() or NONE,
        f"{fixed(100 * row.theirs)}{'*' if row.outside else ''}",
        signed(100 * row.difference),
        or_dash(row.tokens_per_step),
        or_dash(row.their_tokens_per_step),
    ]


def _notes(rows: Sequence[Beside], source: str) -> list[str]:
    """What differs between the rows of one source and ours, and in how many rows."""
    total = sum(row.source == source for row in rows)
    notes = shared_differences(rows).get(source, {})
    lines = []
    for note, count in notes.items():
        rows_text = "all rows" if count == total else counted(count, "row")
        lines.append(f"{printable(note, 300)} ({rows_text})")
    return lines
