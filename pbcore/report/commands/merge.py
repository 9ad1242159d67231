"""The command `pbcore merge`."""

from __future__ import annotations

import argparse
from pathlib import Path

from pbcore.printable import counted
from pbcore.report.junit import write_junit
from pbcore.report.markdown import write_report
from pbcore.report.page import write_page
from pbcore.results.merge import merge
from pbcore.text import show


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `merge`."""
    parser = subparsers.add_parser(
        "merge", help="merge run directories, e.g. of shards, into one with its own report and JUnit file"
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run directories")
    parser.add_argument("-o", "--out", required=True, type=Path, metavar="DIR", help="the new run directory")
    parser.add_argument(
        "--allow-missing-shards", action="store_true", help="merge although shards of a divided run are missing"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Exit status: 0 merged, 1 the runs conflict or a shard is missing, 2 unusable input."""
    merged = merge(args.runs, args.out, allow_missing_shards=args.allow_missing_shards)
    stored = merged.read_cells()
    write_junit([entry.cell for entry in stored], merged.path / "junit.xml")
    write_report(merged.path)
    write_page(merged.path)
    show(f"{counted(len(stored), 'cell')} from {counted(len(args.runs), 'run')}: {merged.path / 'report.md'}")
    return 0
