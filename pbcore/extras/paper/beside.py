"""A run's scores beside published ones, for `pbcore report --against-published`: as text for the
terminal and as a section of report.md.
"""

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Literal

from pbcore.analysis.order import narrow_name
from pbcore.base.check import LoadError
from pbcore.base.errors import InputError
from pbcore.base.printable import counted, fixed, printable, signed, some
from pbcore.base.tabular import terminal
from pbcore.base.text import md, name
from pbcore.extras.paper.against import BesidePublished, against, same_models, shared_differences
from pbcore.extras.paper.published import figures, read_published
from pbcore.report.added import AddedText
from pbcore.report.cells import NONE, interval_text, or_dash
from pbcore.report.columns import MODEL, SAMPLER, Column
from pbcore.report.rows import CellRow
from pbcore.report.sections import Section

ABOUT = (
    "Scores in %; the interval is ours alone; \\* the published figure lies outside it."
    " Differences:"
)
TITLE = "Beside published figures"


class AgainstPublished:
    """A `report.added.AddedPart`."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Adds `--against-published`, and what goes with it."""
        add = parser.add_argument
        about = (
            "also show published figures of the same cells: the paper's Tables 5-7 and the 2026"
            " rewrite's runs"
        )
        add("--against-published", action="store_true", help=about)
        about = (
            "with --against-published: other figures than the package's, as CSV or run folder"
            " (repeatable)"
        )
        add("--published", type=Path, action="append", default=[], metavar="FILE", help=about)
        about = "with --against-published: the published name of one of these models (repeatable)"
        add("--as", dest="same", action="append", default=[], metavar="OURS=PUBLISHED", help=about)

    def text(self, args: argparse.Namespace, cells: Sequence[CellRow]) -> AddedText | None:
        """The scores beside published figures, if they are asked for. Raises InputError for `--as`
        without `=`, and LoadError.
        """
        if not args.against_published:
            if args.published or args.same:
                raise InputError("--published and --as go with --against-published; add it")
            return None
        same = same_models(args.same)
        rows, unmatched = beside_published(cells, args.published, same)
        return AddedText(against_text(rows, unmatched), against_markdown(rows, unmatched), same)


AGAINST = AgainstPublished()


def beside_published(
    cells: Sequence[CellRow], files: Sequence[Path] = (), same: Mapping[str, str] | None = None
) -> tuple[list[BesidePublished], str]:
    """Our scores beside published ones.

    Args:
        cells: those of a report.
        files: paths that `published.read_published` knows; without any, the package's own figures.
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


def against_text(rows: Sequence[BesidePublished], unmatched: str = "") -> str:
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


def _names(row: BesidePublished) -> tuple[str, str, str]:
    return row.model, row.published_model, row.sampler


def against_markdown(rows: Sequence[BesidePublished], unmatched: str = "") -> str:
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
    source: str, columns: Sequence[Column], rows: Iterable[BesidePublished], note: str = ""
) -> Section:
    shown = [{"model": row.model, "sampler": row.sampler, "beside": row} for row in rows]
    return Section(source, source, note, columns, shown)


def _beside(
    head: str, text: Callable[[BesidePublished], str], align: Literal["l", "r"] = "r"
) -> Column:
    return Column(head, lambda row: text(row["beside"]), align=align)


COLUMNS = (
    _beside("task", lambda row: narrow_name(row.task), "l"),
    _beside("score", lambda row: row.metric, "l"),
    _beside("ours", lambda row: fixed(100 * row.ours)),
    _beside("95 %", lambda row: interval_text(100 * row.low, 100 * row.high).strip() or NONE),
    _beside("published", lambda row: f"{fixed(100 * row.theirs)}{'*' if row.outside else ''}"),
    _beside("difference", lambda row: signed(100 * row.difference)),
    _beside("tok/step", lambda row: or_dash(row.tokens_per_step)),
    _beside("published", lambda row: or_dash(row.their_tokens_per_step)),
)


def _notes(rows: Sequence[BesidePublished], source: str) -> list[str]:
    """What differs between the rows of one source and ours, and in how many rows."""
    total = sum(row.source == source for row in rows)
    notes = shared_differences(rows).get(source, {})
    lines = []
    for note, count in notes.items():
        rows_text = "all rows" if count == total else counted(count, "row")
        lines.append(f"{printable(note, 300)} ({rows_text})")
    return lines
