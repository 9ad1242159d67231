"""The commands `pbcore report`, `pbcore merge` and `pbcore compare`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pbcore.analysis.gate import judge
from pbcore.report.gates import gate_text
from pbcore.report.junit import write_junit
from pbcore.report.markdown import report_text, write_report
from pbcore.report.plots import write_plots
from pbcore.report.tables import terminal, trade_off_tables
from pbcore.results.baseline import BaselineError, read_baseline
from pbcore.results.load import LoadError, load, load_many
from pbcore.results.merge import MergeConflict, merge
from pbcore.results.rundir import RunDirError, open_run, write_atomic
from pbcore.tasks.rewrite import SOURCE as REWRITE

if TYPE_CHECKING:
    import pandas as pd


def add_parsers(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the three commands; each sets `run` to a function of the parsed arguments that returns the exit status."""
    report = subparsers.add_parser("report", help="tables and curves from the results of runs")
    report.add_argument(
        "paths",
        nargs="+",
        type=Path,
        metavar="PATH",
        help="run directory, results.json, junit.xml, benchmark JSON, or CSV",
    )
    report.add_argument(
        "-o",
        "--out",
        type=Path,
        metavar="DIR",
        help="folder for report.md and curves (default: the run directory, if PATH is a single one)",
    )
    report.add_argument("--width", type=int, default=120, help="columns of the terminal tables (default 120)")
    report.set_defaults(run=run_report)
    joined = subparsers.add_parser(
        "merge", help="merge run directories, e.g. of shards, into one with its own report and JUnit file"
    )
    joined.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run directories")
    joined.add_argument("-o", "--out", required=True, type=Path, metavar="DIR", help="the new run directory")
    joined.set_defaults(run=run_merge)
    compare = subparsers.add_parser("compare", help="judge run A against run (or baseline file) B, sample by sample")
    compare.add_argument("head", type=Path, metavar="A", help="run directory to judge")
    compare.add_argument("base", type=Path, metavar="B", help="run directory or baseline file to judge against")
    compare.add_argument(
        "--level", type=float, default=0.05, help="probability of a false alarm per run (default 0.05)"
    )
    compare.set_defaults(run=run_compare)


def side_by_side(cells: pd.DataFrame) -> pd.DataFrame:
    """Rows of several runs for one table: where a cell occurs in more than one run, or a model with other prompts, each model is named
    with its run."""
    ran = cells[cells["status"] == "ok"]
    mixed = (ran["prompts"] == REWRITE).groupby(ran["model"]).nunique().gt(1).any()
    if not mixed and not cells.duplicated(["model", "task", "sampler"]).any():
        return cells
    runs = {run: Path(run).name for run in cells["run"].unique()}
    if len(set(runs.values())) < len(runs):
        runs = {run: run for run in runs}
    named = cells["model"] + " of " + cells["run"].map(runs)
    return cells.assign(model=named, id=named + "/" + cells["id"].str.split("/", n=1).str[1])


def run_report(args: argparse.Namespace) -> int:
    """Prints the tables and writes report.md with its curves. Exit status 2 for unusable input."""
    try:
        cells = load(args.paths[0]) if len(args.paths) == 1 else side_by_side(load_many(args.paths))
        single_run = len(args.paths) == 1 and args.paths[0].is_dir() and (args.paths[0] / "cells").is_dir()
        for table in trade_off_tables(cells):
            print(terminal(table, args.width), end="\n\n")
        if args.out is None and single_run:
            written = write_report(args.paths[0])
        elif args.out is not None:
            plots = write_plots(cells, args.out)
            page = report_text(cells, ", ".join(path.name for path in args.paths), {}, [plot.name for plot in plots])
            written = [write_atomic(args.out / "report.md", page), *plots]
        else:
            written = []
    except (LoadError, RunDirError, ValueError) as error:
        print(f"pbcore report: {error}", file=sys.stderr)
        return 2
    for path in written:
        print(path)
    return 0


def run_merge(args: argparse.Namespace) -> int:
    """Exit status: 0 merged, 1 the runs conflict, 2 unusable input."""
    try:
        run = merge(args.runs, args.out)
    except MergeConflict as error:
        print(f"pbcore merge: {error}", file=sys.stderr)
        return 1
    except RunDirError as error:
        print(f"pbcore merge: {error}", file=sys.stderr)
        return 2
    stored = run.read_cells()
    write_junit([entry.cell for entry in stored], run.path / "junit.xml")
    write_report(run.path)
    print(f"{len(stored)} cells from {len(args.runs)} runs: {run.path / 'report.md'}")
    return 0


def run_compare(args: argparse.Namespace) -> int:
    """Exit status: 0 A passes, 1 A is worse or can't be compared, 2 unusable input."""
    try:
        verdict = judge(open_run(args.head).read_cells(), read_baseline(args.base), args.level)
    except (RunDirError, BaselineError, ValueError) as error:
        print(f"pbcore compare: {error}", file=sys.stderr)
        return 2
    print(gate_text(verdict, str(args.base)))
    return 0 if verdict.ok else 1
