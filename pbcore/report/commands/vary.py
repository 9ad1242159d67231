"""The command `pbcore vary`: runs cells at the levels of factors and reports what each factor changes."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from pbcore.analysis.factors import factor_changes
from pbcore.errors import InputError
from pbcore.report.page.sections import factor_section
from pbcore.results.load import load_stored
from pbcore.results.rundir import new_name
from pbcore.text import show

OPTIONS = ("seed", "batch-size", "concurrency")  # factors that the benchmark takes as lists of their own


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `vary`."""
    parser = subparsers.add_parser(
        "vary",
        help="run cells at the levels of factors (batch size, dtype, threads, seed) and show which answers change",
        description="Runs cells at every level of the factors and shows, by task and sampler, how many answers and "
        "scores each factor changes. All other options are those of the benchmark: --model, --task, --sampler, --limit "
        "… (`pytest --pyargs pbcore.benches -h`).",
        epilog="example: pbcore vary --factor batch-size=1,8,32 --factor seed=0-4 --model tiny --task shuffle",
        allow_abbrev=False,
    )
    about = "batch-size=1,8,32, dtype=float32,bfloat16, threads=1,2 or seed=0-4 (repeatable: all combinations)"
    parser.add_argument("--factor", action="append", default=[], metavar="NAME=LEVELS", help=about)
    parser.add_argument("--out", type=Path, metavar="DIR", help="run directory to write (default: reports/<date-time>)")
    parser.add_argument("--of", type=Path, metavar="RUN", help="report a finished run with factors; run nothing")
    parser.set_defaults(run=run, more=[])


def run(args: argparse.Namespace) -> int:
    """Runs the cells, unless `--of` names a run that has them, and prints the table. Exit status: pytest's, if it is
    not 0.
    """
    path, status = args.of, 0
    if path is None:
        if not args.factor:
            raise InputError("--factor: name what is varied, e.g. --factor batch-size=1,8,32 --factor seed=0-4")
        path = args.out or Path("reports") / new_name()
        status = subprocess.run([*_pytest(args.factor), "--out", str(path), *args.more], check=False).returncode
        if not (path / "cells").is_dir():
            return status
    section = factor_section(factor_changes(load_stored(path))).markdown()
    if not section:
        raise InputError(f"{path} has no cell that ran at several levels of a factor, or with several seeds")
    show(section)
    return status


def _pytest(factors: list[str]) -> list[str]:
    """The command that runs the stock cells at these levels; some factors are options of their own."""
    words = [sys.executable, "-m", "pytest", "--pyargs", "pbcore.benches"]
    for factor in factors:
        name, _, values = factor.partition("=")
        words += [f"--{name}", values] if name in OPTIONS else ["--factor", factor]
    return words
