"""`pbcore report`: tables and curves from the results of runs."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from pbcore.base.printable import printable
from pbcore.base.text import terminal_width
from pbcore.report.added import PARTS
from pbcore.report.ceilings import ceiling_text, with_ceilings
from pbcore.report.files import write_files_of
from pbcore.report.headline import headline_text
from pbcore.report.options import (
    ReportOptions,
    add_axis_option,
    add_loss_option,
    add_price_options,
)
from pbcore.report.report import read_report
from pbcore.report.tables import trade_off_terminals
from pbcore.results.rundir import CorruptCellWarning


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options."""
    add = parser.add_argument
    about = "run directory, results.json, junit.xml, benchmark JSON, or CSV"
    add("paths", nargs="+", type=Path, metavar="PATH", help=about)
    about = "folder for report.md, report.html and curves (default: tables on the terminal only)"
    add("-o", "--out", type=Path, metavar="DIR", help=about)
    add_loss_option(parser)
    add_axis_option(parser)
    add_price_options(parser)
    about = (
        "print scores beside their ceilings, and bits lost; work out ceilings that the records lack"
    )
    add("--ceilings", action="store_true", help=about)
    add(
        "--width", type=int, help="columns of the tables (default: the terminal's; 120 without one)"
    )
    for part in PARTS.all().values():
        part.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Prints the tables; with --out, also writes report.md with its curves. Exit status 2 for
    unusable input.
    """
    options = ReportOptions.of(args)
    with _damage_told():
        report = read_report(args.paths, options, with_questions=args.out is not None)
    if args.ceilings:
        report = replace(report, rows=with_ceilings(report.rows))
    width = args.width or terminal_width(120)
    for text in trade_off_terminals(report.categories, width):
        print(text, end="\n\n")
    lines = headline_text(report.told, width)
    if lines:
        print("\n".join(lines), end="\n\n")
    for part in (report.prices, report.blame, report.factors):
        if part.rows:
            print(part.terminal(width))
    if args.ceilings:
        print(ceiling_text(report.rows) or "no ceilings: no task has listed answers")
    sections = []
    same: dict[str, str] = {}
    for added in PARTS.all().values():
        shown = added.text(args, report.rows)
        if shown is not None:
            print(shown.terminal, end="\n\n")
            sections.append(shown.markdown)
            same |= shown.same
    if args.out is not None:
        before = set(args.out.glob("*"))
        for path in write_files_of(report, args.out, "\n".join(sections), same):
            print(f"{path} (rewritten)" if path in before else str(path))
    return 0


@contextmanager
def _damage_told() -> Iterator[None]:
    """Cell files that can't be read are named in a line each on stderr."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CorruptCellWarning)
        yield
    for warning in caught:
        if issubclass(warning.category, CorruptCellWarning):
            print(f"pbcore report: {printable(str(warning.message), 1000)}", file=sys.stderr)
        else:
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )
