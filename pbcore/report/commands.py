"""The commands `pbcore report`, `pbcore merge` and `pbcore compare`."""

from __future__ import annotations

import argparse
import shutil
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pbcore.analysis.gate import judge
from pbcore.errors import InputError
from pbcore.printable import printable
from pbcore.report.ceilings import ceiling_text, with_ceilings
from pbcore.report.gates import gate_text
from pbcore.report.junit import write_junit
from pbcore.report.markdown import report_text, write_report
from pbcore.report.plots import write_plots
from pbcore.report.speed import write_speed
from pbcore.report.tables import terminal, trade_off_tables
from pbcore.report.text import ascii_only, show
from pbcore.results.baseline import read_baseline
from pbcore.results.check import refuse
from pbcore.results.load import load, load_many, load_stored
from pbcore.results.merge import MergeConflict, merge
from pbcore.results.rundir import CorruptCellWarning, RunDir, write_atomic
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
        help="folder for report.md and curves (default: tables on the terminal only)",
    )
    report.add_argument(
        "--ceilings",
        action="store_true",
        help="print scores beside their ceilings, and bits lost; work out ceilings that the records lack",
    )
    report.add_argument("--width", type=int, help="columns of the tables (default: the terminal's; 120 without one)")
    report.set_defaults(run=run_report)
    joined = subparsers.add_parser(
        "merge", help="merge run directories, e.g. of shards, into one with its own report and JUnit file"
    )
    joined.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run directories")
    joined.add_argument("-o", "--out", required=True, type=Path, metavar="DIR", help="the new run directory")
    joined.add_argument(
        "--allow-missing-shards", action="store_true", help="merge although shards of a divided run are missing"
    )
    joined.set_defaults(run=run_merge)
    compare = subparsers.add_parser("compare", help="judge run A against run (or baseline file) B, sample by sample")
    compare.add_argument("head", type=Path, metavar="A", help="run directory to judge")
    compare.add_argument("base", type=Path, metavar="B", help="run directory or baseline file to judge against")
    compare.add_argument(
        "--level", type=float, default=0.05, help="probability of a false alarm per run (default 0.05)"
    )
    compare.set_defaults(run=run_compare)


def side_by_side(cells: pd.DataFrame) -> pd.DataFrame:
    """Rows of several runs for one table: where a cell occurs in more than one run, or a model with other prompts, each
    model is named with its run."""
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
    """Prints the tables; with --out, also writes report.md with its curves. Exit status 2 for unusable input."""
    try:
        with _damage_told("report"):
            cells = load(args.paths[0]) if len(args.paths) == 1 else side_by_side(load_many(args.paths))
        cells = with_ceilings(cells) if args.ceilings else cells
        width = shutil.get_terminal_size((120, 24)).columns if args.width is None else args.width
        for table in trade_off_tables(cells):
            show(terminal(table, width, ascii_only(sys.stdout.encoding)), end="\n\n")
        if args.ceilings:
            show(ceiling_text(cells, ascii_only(sys.stdout.encoding)) or "no ceilings: no task has listed answers")
        written = [] if args.out is None else _write(cells, args.paths, args.out)
    except (InputError, ValueError) as error:
        return _refused("report", error)
    for path in written:
        show(str(path))
    return 0


def _write(cells: pd.DataFrame, sources: list[Path], out: Path) -> list[Path]:
    plots = [*write_plots(cells, out), *write_speed(cells, out)]
    facts = RunDir(sources[0]).read_run() if len(sources) == 1 and sources[0].is_dir() else {}
    page = report_text(cells, ", ".join(path.name for path in sources), facts, [plot.name for plot in plots])
    return [write_atomic(out / "report.md", page), *plots]


def run_merge(args: argparse.Namespace) -> int:
    """Exit status: 0 merged, 1 the runs conflict or a shard is missing, 2 unusable input."""
    try:
        run = merge(args.runs, args.out, allow_missing_shards=args.allow_missing_shards)
    except MergeConflict as error:
        return _refused("merge", error, 1)
    except InputError as error:
        return _refused("merge", error)
    stored = run.read_cells()
    write_junit([entry.cell for entry in stored], run.path / "junit.xml")
    write_report(run.path)
    show(f"{len(stored)} cells from {len(args.runs)} runs: {run.path / 'report.md'}")
    return 0


def run_compare(args: argparse.Namespace) -> int:
    """Exit status: 0 A passes, 1 A is worse or can't be compared, 2 unusable input."""
    try:
        verdict = judge(load_stored(args.head, refuse), read_baseline(args.base), args.level)
    except (InputError, ValueError) as error:
        return _refused("compare", error)
    show(gate_text(verdict, str(args.base)))
    return 0 if verdict.ok else 1


@contextmanager
def _damage_told(command: str) -> Iterator[None]:
    """Cell files that can't be read are named in a line each on stderr."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CorruptCellWarning)
        yield
    for one in caught:
        if issubclass(one.category, CorruptCellWarning):
            _refused(command, one.message)
        else:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)


def _refused(command: str, error: Exception | Warning | str, status: int = 2) -> int:
    """Says why on stderr, without control characters, and returns the exit status."""
    print("\n".join(printable(line, 1000) for line in f"pbcore {command}: {error}".split("\n")), file=sys.stderr)
    return status
