"""Scores beside published figures, as text for the terminal and as a section of report.md."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path

import pandas as pd
from tabulate import tabulate

from pbcore.analysis.against import Beside, against, shared_differences
from pbcore.analysis.order import short
from pbcore.printable import counted, fixed, printable, signed
from pbcore.report.cells import or_dash
from pbcore.results.check import LoadError
from pbcore.results.published import figures, read
from pbcore.text import NAME, code, md, name

HEADERS = ("task", "score", "ours", "95 %", "published", "difference", "tok/step", "published")
TITLE = "Beside published figures"


def beside_published(
    cells: pd.DataFrame, files: Sequence[Path] = (), same: Mapping[str, str] | None = None
) -> tuple[list[Beside], str]:
    """The rows beside the package's figures, or those of `files` (paths that `results.published.read` knows), and a
    text for the case that none matches, with the names on both sides. Raises LoadError for a file of another kind."""
    from pbcore.models.registry import sources

    tables = []
    for file in files:
        table = read(file)
        if table is None:
            raise LoadError(f"{file} has no published figures; give the paper's or the rewrite's CSV, or a run folder")
        tables.append(table)
    published = pd.concat(tables, ignore_index=True) if tables else figures()
    rows = against(cells, published, sources(), same)
    return rows, "" if rows else _unmatched(cells, published)


def _unmatched(cells: pd.DataFrame, published: pd.DataFrame) -> str:
    lines = ["no cell has a published figure of the same model, task and sampler"]
    for whose, table in (("here", cells), ("published", published)):
        for what in ("model", "sampler"):
            names = list(dict.fromkeys(table[what]))
            more = f" … ({len(names)})" if len(names) > 12 else ""
            lines.append(f"  {whose}, {what}s: {', '.join(name(one) for one in names[:12])}{more}")
    lines.append(
        "  a model of another name: --as OURS=PUBLISHED; the paper's tables match confidence-k2, ar, or server"
    )
    return "\n".join(lines)


def against_text(rows: Sequence[Beside], unmatched: str = "") -> str:
    """A table per source, model and sampler; then, per source, what differs and in how many rows."""
    if not rows:
        return f"{TITLE}: {unmatched}"
    parts = []
    for source, of in groupby(rows, key=lambda row: row.source):
        parts.append(f"{TITLE}: {printable(source)} (scores in %, our 95 % interval; * published figure outside it)")
        for (model, theirs, sampler), lines in groupby(
            of, key=lambda row: (row.model, row.published_model, row.sampler)
        ):
            parts.append(f"{name(model)} {name(sampler)} beside {name(theirs)}")
            parts.append(tabulate(map(_cells, lines), HEADERS, tablefmt="plain", disable_numparse=True))
        parts += [f"  {note}" for note in _notes(rows, source)]
    return "\n".join(parts)


def against_markdown(rows: Sequence[Beside], unmatched: str = "") -> str:
    """The same as a section of report.md."""
    if not rows:
        return f"## {TITLE}\n\n{md(unmatched.replace(chr(10), '; '), 2000)}\n"
    parts = [f"## {TITLE}\n"]
    for source, of in groupby(rows, key=lambda row: row.source):
        heads = f"| model | sampler | {' | '.join(HEADERS)} |"
        parts += [f"### {md(source)}\n", heads, "|---|---|---|---|" + "---:|" * 6]
        for row in of:
            names = [md(row.model, NAME), code(row.sampler, NAME, cell=True)]
            parts.append(f"| {' | '.join([*names, *map(md, _cells(row))])} |")
        note = "Scores in %; the interval is ours alone; \\* the published figure lies outside it. Differences:"
        parts += ["", note, "", *(f"- {md(note)}" for note in _notes(rows, source)), ""]
    return "\n".join(parts)


def _cells(row: Beside) -> list[str]:
    return [
        short(row.task),
        row.metric,
        fixed(100 * row.ours),
        f"[{fixed(100 * row.low, 0)}–{fixed(100 * row.high, 0)}]",
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
