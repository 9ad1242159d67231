"""The command `pbcore compare`."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from pbcore.analysis.compare import compare_runs
from pbcore.analysis.gate import judge
from pbcore.errors import InputError
from pbcore.report.commands.said import refused
from pbcore.report.comparison import comparison_markdown, comparison_text
from pbcore.report.gates import gate_text
from pbcore.report.page.compare import write_comparison
from pbcore.report.text import ascii_only, ascii_text, show
from pbcore.results.baseline import read_baseline
from pbcore.results.check import refuse
from pbcore.results.load import load_stored
from pbcore.results.rundir import write_atomic


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `compare`."""
    parser = subparsers.add_parser(
        "compare", help="judge run A against run (or baseline file) B, sample by sample, and show what changed"
    )
    parser.add_argument("head", type=Path, metavar="A", help="run directory to judge")
    parser.add_argument("base", type=Path, metavar="B", help="run directory or baseline file to judge against")
    parser.add_argument("--level", type=float, default=0.05, help="probability of a false alarm per run (default 0.05)")
    parser.add_argument(
        "--markdown", type=Path, metavar="FILE", help="also write the comparison for a pull request; - for the terminal"
    )
    parser.add_argument(
        "--html", type=Path, metavar="FILE", help="also write a page with the flipped answers of both side by side"
    )
    parser.add_argument("--width", type=int, help="columns of the table (default: the terminal's; 120 without one)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Exit status: 0 A passes, 1 A is worse or can't be compared, 2 unusable input."""
    try:
        head, judged_by = load_stored(args.head, refuse), read_baseline(args.base)
        verdict = judge(head, judged_by, args.level)
        # A run's own records have rates that a baseline's rows lack.
        base = load_stored(args.base, refuse) if args.base.is_dir() else judged_by
        comparison = compare_runs(head, base, args.level)
    except (InputError, ValueError) as error:
        return refused("compare", error)
    if args.html:
        answers = [] if isinstance(base, Mapping) else base
        write_comparison(comparison, head, answers, (args.head, args.base), args.html)
    names = args.head.name or str(args.head), args.base.name or str(args.base)
    page = comparison_markdown(comparison, *names, verdict) if args.markdown else ""
    if str(args.markdown) == "-":
        show(page, end="")
        return 0 if verdict.ok else 1
    show(gate_text(verdict, str(args.base)))
    width = shutil.get_terminal_size((120, 24)).columns if args.width is None else args.width
    table = comparison_text(comparison, *names, width)
    show(f"\n{ascii_text(table) if ascii_only(sys.stdout.encoding) else table}")
    if args.markdown:
        show(str(write_atomic(args.markdown, page)))
    if args.html:
        show(str(args.html))
    return 0 if verdict.ok else 1
