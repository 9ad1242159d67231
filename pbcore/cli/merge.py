"""`pbcore merge`: run directories, e.g. of shards, as one with its own report and JUnit file."""

from __future__ import annotations

import argparse
from pathlib import Path

from pbcore.base.printable import counted
from pbcore.base.text import terminal_width
from pbcore.report.files import write_files_of
from pbcore.report.junit import write_junit
from pbcore.report.report import report_of
from pbcore.report.runs import page_lines
from pbcore.report.summary import answer
from pbcore.results.merge import merge


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options."""
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run directories")
    parser.add_argument(
        "-o", "--out", required=True, type=Path, metavar="DIR", help="the new run directory"
    )
    about = "merge although shards of a divided run are missing"
    parser.add_argument("--allow-missing-shards", action="store_true", help=about)


def run(args: argparse.Namespace) -> int:
    """Exit status: 0 merged, 1 the runs conflict or a shard is missing, 2 unusable input."""
    merged = merge(args.runs, args.out, allow_missing_shards=args.allow_missing_shards)
    report = report_of(merged)
    write_junit((entry.cell for entry in report.answers), merged.path / "junit.xml")
    _, page, *_ = write_files_of(report, merged.path)
    print(
        f"{counted(len(report.answers), 'cell')} from {counted(len(args.runs), 'run')}:"
        f" {merged.path / 'report.md'}"
    )
    print(f"\n{answer(report, terminal_width(120))}", *page_lines(merged.path, page), sep="\n")
    return 0
