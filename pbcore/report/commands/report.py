"""The command `pbcore report`."""

from __future__ import annotations

import argparse
import shutil
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pbcore.analysis.against import Beside
from pbcore.analysis.factors import factor_changes
from pbcore.errors import InputError
from pbcore.printable import printable
from pbcore.report.against import against_markdown, against_text, beside_published
from pbcore.report.ceilings import ceiling_text, with_ceilings
from pbcore.report.markdown import report_text
from pbcore.report.page import rebuild
from pbcore.report.page.frontier_table import rooms
from pbcore.report.page.write import answers_of, read
from pbcore.report.plots import write_plots
from pbcore.report.speed import write_speed
from pbcore.report.tables import terminal, trade_off_tables
from pbcore.report.under_load import write_under_load
from pbcore.results.load import load_many
from pbcore.results.rundir import CorruptCellWarning, RunDir, write_atomic
from pbcore.tasks.naming import REWRITE
from pbcore.text import ascii_only, ascii_text, show

if TYPE_CHECKING:
    import pandas as pd

    from pbcore.report.page.data import Answers


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `report`."""
    parser = subparsers.add_parser("report", help="tables and curves from the results of runs")
    parser.add_argument(
        "paths",
        nargs="+",
        type=Path,
        metavar="PATH",
        help="run directory, results.json, junit.xml, benchmark JSON, or CSV",
    )
    parser.add_argument(
        "-o",
        "--out",
        type=Path,
        metavar="DIR",
        help="folder for report.md, report.html and curves (default: tables on the terminal only)",
    )
    parser.add_argument(
        "--ceilings",
        action="store_true",
        help="print scores beside their ceilings, and bits lost; work out ceilings that the records lack",
    )
    parser.add_argument("--width", type=int, help="columns of the tables (default: the terminal's; 120 without one)")
    parser.add_argument(
        "--against-published",
        action="store_true",
        help="also show published figures of the same cells: the paper's Tables 5-7 and the 2026 rewrite's runs",
    )
    parser.add_argument(
        "--published",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="with --against-published: other figures than the package's, as CSV or run folder (repeatable)",
    )
    parser.add_argument(
        "--as",
        dest="same",
        action="append",
        default=[],
        metavar="OURS=PUBLISHED",
        help="with --against-published: the published name of one of these models (repeatable)",
    )
    parser.set_defaults(run=run)


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


def run(args: argparse.Namespace) -> int:
    """Prints the tables; with --out, also writes report.md with its curves. Exit status 2 for unusable input."""
    with _damage_told():
        if len(args.paths) == 1:
            cells, answers = read(args.paths[0])
        else:
            cells = side_by_side(load_many(args.paths))
            answers = [] if args.out is None else answers_of(cells, args.paths)
    cells = with_ceilings(cells) if args.ceilings else cells
    width = shutil.get_terminal_size((120, 24)).columns if args.width is None else args.width
    for table in trade_off_tables(cells):
        show(terminal(table, width, ascii_only(sys.stdout.encoding)), end="\n\n")
    if args.ceilings:
        show(ceiling_text(cells, ascii_only(sys.stdout.encoding)) or "no ceilings: no task has listed answers")
    rows, unmatched = _beside(cells, args)
    if args.against_published:
        text = against_text(rows, unmatched)
        show(ascii_text(text) if ascii_only(sys.stdout.encoding) else text, end="\n\n")
    section = against_markdown(rows, unmatched) if args.against_published else ""
    written = [] if args.out is None else _write(cells, answers, args.paths, args.out, section)
    for path, rewritten in written:
        show(f"{path} (rewritten)" if rewritten else str(path))
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


def _write(
    cells: pd.DataFrame, answers: list[Answers], sources: list[Path], out: Path, section: str
) -> list[tuple[Path, bool]]:
    """Writes report.md, report.html and the curves. Returns each file with whether it replaced one."""
    before = set(out.glob("*"))
    plots = [*write_plots(cells, out), *write_speed(cells, out), *write_under_load(cells, out)]
    facts = RunDir(sources[0]).read_run() if len(sources) == 1 and sources[0].is_dir() else {}
    name = ", ".join(path.name for path in sources)
    page = report_text(cells, name, facts, [plot.name for plot in plots], rooms(answers), factor_changes(answers))
    markdown = write_atomic(out / "report.md", f"{page}\n{section}" if section else page)
    return [(path, path in before) for path in (markdown, rebuild(cells, sources, out, answers), *plots)]
