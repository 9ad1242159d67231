"""The command `pbcore report`."""

from __future__ import annotations

import argparse
import shutil
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd

from pbcore.analysis.against import Beside
from pbcore.errors import InputError
from pbcore.printable import printable
from pbcore.report.against import against_markdown, against_text, beside_published
from pbcore.report.ceilings import ceiling_text, with_ceilings
from pbcore.report.markdown import write_markdown
from pbcore.report.page import rebuild
from pbcore.report.page.write import read_all
from pbcore.report.tables import terminal, trade_off_tables
from pbcore.results.rundir import CorruptCellWarning
from pbcore.text import ascii_only, show


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `report`."""
    parser = subparsers.add_parser("report", help="tables and curves from the results of runs")
    add = parser.add_argument
    about = "run directory, results.json, junit.xml, benchmark JSON, or CSV"
    add("paths", nargs="+", type=Path, metavar="PATH", help=about)
    about = "folder for report.md, report.html and curves (default: tables on the terminal only)"
    add("-o", "--out", type=Path, metavar="DIR", help=about)
    about = "print scores beside their ceilings, and bits lost; work out ceilings that the records lack"
    add("--ceilings", action="store_true", help=about)
    add("--width", type=int, help="columns of the tables (default: the terminal's; 120 without one)")
    about = "also show published figures of the same cells: the paper's Tables 5-7 and the 2026 rewrite's runs"
    add("--against-published", action="store_true", help=about)
    about = "with --against-published: other figures than the package's, as CSV or run folder (repeatable)"
    add("--published", type=Path, action="append", default=[], metavar="FILE", help=about)
    about = "with --against-published: the published name of one of these models (repeatable)"
    add("--as", dest="same", action="append", default=[], metavar="OURS=PUBLISHED", help=about)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints the tables; with --out, also writes report.md with its curves. Exit status 2 for unusable input."""
    with _damage_told():
        cells, answers = read_all(args.paths, with_answers=args.out is not None)
    cells = with_ceilings(cells) if args.ceilings else cells
    width = shutil.get_terminal_size((120, 24)).columns if args.width is None else args.width
    plain = ascii_only(sys.stdout.encoding)
    for table in trade_off_tables(cells):
        show(terminal(table, width, plain), end="\n\n")
    if args.ceilings:
        show(ceiling_text(cells, plain) or "no ceilings: no task has listed answers")
    rows, unmatched = _beside(cells, args)
    if args.against_published:
        show(against_text(rows, unmatched), end="\n\n")
    section = against_markdown(rows, unmatched) if args.against_published else ""
    if args.out is not None:
        before = set(args.out.glob("*"))
        markdown, *plots = write_markdown(cells, answers, args.paths, args.out, section)
        for path in (markdown, rebuild(cells, args.paths, args.out, answers), *plots):
            show(f"{path} (rewritten)" if path in before else str(path))
    return 0


@contextmanager
def _damage_told() -> Iterator[None]:
    """Cell files that can't be read are named in a line each on stderr."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CorruptCellWarning)
        yield
    for one in caught:
        if issubclass(one.category, CorruptCellWarning):
            print(f"pbcore report: {printable(str(one.message), 1000)}", file=sys.stderr)
        else:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)


def _beside(cells: pd.DataFrame, args: argparse.Namespace) -> tuple[list[Beside], str]:
    """The rows beside published figures, if they are asked for. Raises InputError for `--as` without `=`."""
    if not args.against_published:
        if args.published or args.same:
            raise InputError("--published and --as go with --against-published; add it")
        return [], ""
    same = dict(text.partition("=")[::2] for text in args.same)
    odd = next((text for text in args.same if not all(text.partition("="))), None)
    if odd is not None:
        raise InputError(f"--as {odd}: give OURS=PUBLISHED, e.g. my-checkpoint='LLaDA 1.5'")
    return beside_published(cells, args.published, same)
