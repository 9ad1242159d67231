"""Scores beside other figures, as text for the terminal and as sections of report.md: their
ceilings, with the bits that parallel decoding lost, and published scores.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import pandas as pd

from pbcore.analysis.against import Beside, against, shared_differences
from pbcore.analysis.order import narrow_name, natural, sorted_tasks
from pbcore.printable import counted, fixed, printable, signed, some
from pbcore.report.cells import NONE, interval_text, or_dash, real
from pbcore.results.check import LoadError
from pbcore.results.published import figures, read_published
from pbcore.results.questions import redrawn
from pbcore.results.table_row import THEORY
from pbcore.tabular import Code, Table, markdown, terminal
from pbcore.tasks.base import Task
from pbcore.tasks.naming import category
from pbcore.text import md, name

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
HEADERS = ("task", "score", "ours", "95 %", "published", "difference", "tok/step", "published")
SIDES = "llrrrrrr"
TITLE = "Beside published figures"


def ceiling_section(cells: pd.DataFrame) -> str:
    """The part of report.md with both tables; empty where no record has a ceiling or bits."""
    parts = [
        f"## {md(title)}\n\n{markdown(_table(rows))}\n\n{note}\n"
        for title, note, rows in _tables(cells)
    ]
    return "\n".join(parts + [f"{line}\n" for line in _within(cells) if parts])


def ceiling_text(cells: pd.DataFrame) -> str:
    """The same for a terminal."""
    parts = [
        f"{name(title)}\n{terminal(_table(rows))}\n  {note}" for title, note, rows in _tables(cells)
    ]
    return "\n\n".join(parts + [line for line in _within(cells) if parts])


def _table(rows: list[list[str]]) -> Table:
    heads, *entries = [list(map(name, row)) for row in rows]
    return Table(heads, entries)


def _within(cells: pd.DataFrame) -> list[str]:
    """How many cells of `ideal` have their ceiling within their interval; empty without such
    cells.
    """
    known = cells[
        (cells["model"] == "ideal") & (cells["status"] == "ok") & cells["ceiling"].notna()
    ]
    if known.empty:
        return []
    inside = (known["score_low"] <= known["ceiling_high"]) & (
        known["ceiling_low"] <= known["score_high"]
    )
    return [
        f"Of {counted(len(known), 'cell')} of ideal, {int(inside.sum())} have their ceiling within"
        " the 95 % interval of their score; about one in twenty of those below 100 should not."
    ]


def with_ceilings(cells: pd.DataFrame) -> pd.DataFrame:
    """The cells with the ceilings that their records lack, for generated samples: these are drawn
    again, and used if they are those of the record.
    """
    from pbcore.ceilings.ceiling import (
        Ceilings,
    )  # imports torch: only for runs that lack their ceilings

    ceilings = Ceilings()
    tasks: dict[tuple[Any, ...], Task | None] = {}
    columns: dict[str, Any] = {
        name: list(cells[name]) if name in cells else [None] * len(cells)
        for name in (*THEORY, "ceiling_kind")
    }
    for i, row in enumerate(cells.to_dict("records")):
        if (
            row["status"] != "ok"
            or row.get("headline") != "accuracy"
            or not pd.isna(columns["ceiling"][i])
        ):
            continue
        key = row["task"], row["n"], row["length"], row["data_hash"]
        info, options = (
            row[name] if isinstance(row.get(name), dict) else {}
            for name in ("model_info", "options")
        )
        if key not in tasks:
            tasks[key] = redrawn(
                row["task"], str(row["length"]), int(row["n"]), options, row["data_hash"]
            )
        task = tasks[key]
        block = info.get("block")
        known = None if task is None else ceilings.of(task, row["sampler"], block)
        if known is not None:
            values = (known.mean, known.low, known.high, known.mean - row["score"], known.kind)
            for name, value in zip((*THEORY[:4], "ceiling_kind"), values, strict=True):
                columns[name][i] = value
    return cells.assign(**columns).astype(dict.fromkeys(THEORY, "float64"))


def _tables(cells: pd.DataFrame) -> list[tuple[str, str, list[list[str]]]]:
    """(title, note, head and rows) per category that has something to show: a row per model and
    sampler, a column per task.
    """
    ran = real(cells[cells["status"] == "ok"])
    models = list(dict.fromkeys(ran["model"]))
    found = []
    for kind in dict.fromkeys(map(category, sorted_tasks(ran["task"]))):
        group = ran[ran["category"] == kind]
        for title, note, entry, lossy in (
            (f"Ceilings: {kind}", NOTE, _against, group[group["ceiling"] < 1 - 5e-4]),
            (f"Bits lost: {kind}", BITS, _bits, group[group["bits_lost"] > 5e-4]),
        ):
            if lossy.empty:
                continue
            tasks = sorted_tasks(lossy["task"])
            pairs = set(zip(lossy["model"], lossy["sampler"], strict=True))
            texts = {
                (row["model"], row["sampler"], row["task"]): entry(row)
                for row in group.to_dict("records")
            }
            order = sorted(pairs, key=lambda pair: (models.index(pair[0]), natural(pair[1])))
            rows = [[*pair, *(texts.get((*pair, task), NONE) for task in tasks)] for pair in order]
            found.append((title, note, [["model", "sampler", *map(narrow_name, tasks)], *rows]))
    return found


def _against(row: dict[Any, Any]) -> str:
    if pd.isna(row["ceiling"]) or pd.isna(row["score"]):
        return NONE
    sign = "~" if row.get("ceiling_kind") == "sampled" else ""
    return (
        f"{fixed(100 * row['score'], 0)} / {sign}{fixed(100 * row['ceiling'])},"
        f" {fixed(100 * row['gap'], 0)}"
    )


def _bits(row: dict[Any, Any]) -> str:
    if pd.isna(row["bits_lost"]):
        return NONE
    return f"{fixed(row['bits_lost'], 2)}, {or_dash(row['tokens_per_step'])}"


def beside_published(
    cells: pd.DataFrame, files: Sequence[Path] = (), same: Mapping[str, str] | None = None
) -> tuple[list[Beside], str]:
    """Our scores beside published ones.

    Args:
        cells: a frame of `results.load`.
        files: paths that `results.published.read_published` knows; without any, the package's own
            figures.
        same: our name of a model → the published one, where these don't match.

    Returns:
        The rows, and a text for the case that none matches, with the names on both sides.

    Raises:
        LoadError: for a file of another kind.
    """
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
    if rows := against(cells, published, sources(), same):
        return rows, ""
    lines = ["no cell has a published figure of the same model, task and sampler"]
    for whose, table in (("here", cells), ("published", published)):
        for what in ("model", "sampler"):
            names = [name(one) for one in dict.fromkeys(table[what])]
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
    for source, of in groupby(rows, key=lambda row: row.source):
        parts.append(
            f"{TITLE}: {printable(source)} (scores in %, our 95 % interval; * published figure"
            " outside it)"
        )
        for (model, theirs, sampler), lines in groupby(
            of, key=lambda row: (row.model, row.published_model, row.sampler)
        ):
            parts.append(f"{name(model)} {name(sampler)} beside {name(theirs)}")
            parts.append(terminal(Table(HEADERS, list(map(_cells, lines)), SIDES)))
        parts += [f"  {note}" for note in _notes(rows, source)]
    return "\n".join(parts)


def against_markdown(rows: Sequence[Beside], unmatched: str = "") -> str:
    """The same as a section of report.md."""
    if not rows:
        return f"## {TITLE}\n\n{md(unmatched.replace(chr(10), '; '), 2000)}\n"
    parts = [f"## {TITLE}\n"]
    for source, of in groupby(rows, key=lambda row: row.source):
        lines = [[name(row.model), Code(name(row.sampler)), *_cells(row)] for row in of]
        table = Table(["model", "sampler", *HEADERS], lines, f"ll{SIDES}")
        parts += [f"### {md(source)}\n", markdown(table)]
        note = (
            "Scores in %; the interval is ours alone; \\* the published figure lies outside it."
            " Differences:"
        )
        parts += ["", note, "", *(f"- {md(note)}" for note in _notes(rows, source)), ""]
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
    return [
        f"{printable(note, 300)} ({'all rows' if count == total else counted(count, 'row')})"
        for note, count in notes.items()
    ]
