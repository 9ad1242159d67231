"""The commands `pbcore report`, `vary`, `merge` and `compare`."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from pbcore.analysis.against import Beside
from pbcore.analysis.compare import Comparison, compare_runs
from pbcore.analysis.factors import factor_changes
from pbcore.analysis.verdict_text import Rerun, gate_text
from pbcore.base.check import refuse
from pbcore.base.errors import InputError
from pbcore.base.printable import counted, printable
from pbcore.base.text import terminal_width
from pbcore.report.answers import name_and_facts, read_all
from pbcore.report.beside import (
    against_markdown,
    against_text,
    beside_published,
    ceiling_text,
    with_ceilings,
)
from pbcore.report.blame_section import blame_section
from pbcore.report.comparison import (
    comparison_markdown,
    comparison_text,
    passed,
    side_names,
    verdict_lines,
)
from pbcore.report.headline import headline_text, headlines
from pbcore.report.junit import write_junit
from pbcore.report.markdown import write_markdown, write_report
from pbcore.report.options import (
    ReportOptions,
    add_axis_option,
    add_loss_option,
    add_price_options,
    check_price_texts,
)
from pbcore.report.page import rebuild, write_page
from pbcore.report.page.compare import comparison_page
from pbcore.report.prices import comparison_prices, price_section
from pbcore.report.rerun import rerun_of
from pbcore.report.sections import factor_section
from pbcore.report.tables import terminals, trade_off_tables
from pbcore.results.baseline import read_baseline, rows_by_id, run_rows
from pbcore.results.load import load_stored
from pbcore.results.merge import merge
from pbcore.results.rundir import CorruptCellWarning, RunDir, StoredCell, new_name, write_atomic

# Factors that the benchmark takes as lists of their own.
OPTIONS = ("seed", "batch-size", "concurrency")
EXAMPLES = {"model": "my-llada-v2=my-llada", "sampler": "my_sampler-k2=confidence-k2"}


def add_parsers(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the four commands."""
    _add_report(subparsers)
    _add_vary(subparsers)
    _add_merge(subparsers)
    _add_compare(subparsers)


def _add_report(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser("report", help="tables and curves from the results of runs")
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
    parser.set_defaults(run=run_report)


def _add_vary(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "vary",
        help=(
            "run cells at the levels of factors (batch size, dtype, threads, seed) and show which"
            " answers change"
        ),
        description=(
            "Runs cells at every level of the factors and shows, by task and sampler, how many"
            " answers and scores each factor changes. All other options are those of the benchmark:"
            " --model, --task, --sampler, --limit … (`pytest --pyargs pbcore.benches -h`)."
        ),
        epilog=(
            "example: pbcore vary --factor batch-size=1,8,32 --factor seed=0-4 --model tiny --task"
            " shuffle"
        ),
        allow_abbrev=False,
    )
    about = (
        "batch-size=1,8,32, dtype=float32,bfloat16, threads=1,2 or seed=0-4 (repeatable: all"
        " combinations)"
    )
    parser.add_argument("--factor", action="append", default=[], metavar="NAME=LEVELS", help=about)
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="run directory to write (default: reports/<date-time>)",
    )
    parser.add_argument(
        "--of", type=Path, metavar="RUN", help="report a finished run with factors; run nothing"
    )
    parser.set_defaults(run=run_vary, more=[])


def _add_merge(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    about = "merge run directories, e.g. of shards, into one with its own report and JUnit file"
    parser = subparsers.add_parser("merge", help=about)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="run directories")
    parser.add_argument(
        "-o", "--out", required=True, type=Path, metavar="DIR", help="the new run directory"
    )
    about = "merge although shards of a divided run are missing"
    parser.add_argument("--allow-missing-shards", action="store_true", help=about)
    parser.set_defaults(run=run_merge)


def _add_compare(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    about = "judge run A against run (or baseline file) B, sample by sample, and show what changed"
    parser = subparsers.add_parser("compare", help=about)
    add = parser.add_argument
    add("head", type=Path, metavar="A", help="run directory to judge")
    add("base", type=Path, metavar="B", help="run directory or baseline file to judge against")
    for kind, example in EXAMPLES.items():
        about = (
            f"compare {kind} NEW of A with {kind} OLD of B, by scores alone and only these"
            f" (repeatable; A and B may be the same run): {example}"
        )
        add(f"--{kind}", action="append", default=[], metavar="NEW=OLD", help=about)
    about = "also fail where A lacks a cell of B, as pytest's --gate does"
    add("--all", dest="whole", action="store_true", help=about)
    add(
        "--level",
        type=float,
        default=0.05,
        help="probability of a false alarm per run (default 0.05)",
    )
    about = "every answer counts with other weights, too, as with pytest's --gate-exact"
    add("--exact", action="store_true", help=about)
    about = "also write the comparison for a pull request; - for the terminal"
    add("--markdown", type=Path, metavar="FILE", help=about)
    about = "also write a page with the flipped answers of both side by side"
    add("--html", type=Path, metavar="FILE", help=about)
    add_price_options(parser)
    add("--width", type=int, help="columns of the table (default: the terminal's; 120 without one)")
    parser.set_defaults(run=run_compare)


def run_report(args: argparse.Namespace) -> int:
    """Prints the tables; with --out, also writes report.md with its curves. Exit status 2 for
    unusable input.
    """
    options = ReportOptions.of(args)
    with _damage_told():
        cells, answers = read_all(args.paths, with_questions=args.out is not None)
    if args.ceilings:
        cells = with_ceilings(cells)
    width = _width(args)
    for text in terminals(trade_off_tables(cells), width):
        print(text, end="\n\n")
    _, facts = name_and_facts(args.paths, options)
    lines = headline_text(headlines(cells, answers, facts), width)
    if lines:
        print("\n".join(lines), end="\n\n")
    prices = price_section(cells, answers, facts).terminal(width)
    if prices:
        print(prices)
    blame = blame_section(answers).terminal(width)
    if blame:
        print(blame)
    if args.ceilings:
        print(ceiling_text(cells) or "no ceilings: no task has listed answers")
    rows, unmatched = _beside(cells, args)
    if args.against_published:
        print(against_text(rows, unmatched), end="\n\n")
    section = against_markdown(rows, unmatched) if args.against_published else ""
    if args.out is not None:
        before = set(args.out.glob("*"))
        markdown, *plots = write_markdown(cells, answers, args.paths, args.out, section, options)
        html = rebuild(cells, args.paths, args.out, answers, options)
        for path in (markdown, html, *plots):
            print(f"{path} (rewritten)" if path in before else str(path))
    return 0


def _width(args: argparse.Namespace) -> int:
    """Columns of tables: what was asked for, else the terminal's."""
    if args.width is not None:
        return int(args.width)
    return shutil.get_terminal_size((120, 24)).columns


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


def _beside(cells: pd.DataFrame, args: argparse.Namespace) -> tuple[list[Beside], str]:
    """The rows beside published figures, if they are asked for. Raises InputError for `--as`
    without `=`.
    """
    if not args.against_published:
        if args.published or args.same:
            raise InputError("--published and --as go with --against-published; add it")
        return [], ""
    same = {}
    for text in args.same:
        ours, _, theirs = text.partition("=")
        if not ours or not theirs:
            raise InputError(f"--as {text}: give OURS=PUBLISHED, e.g. my-checkpoint='LLaDA 1.5'")
        same[ours] = theirs
    return beside_published(cells, args.published, same)


def run_vary(args: argparse.Namespace) -> int:
    """Runs the cells, unless `--of` names a run that has them, and prints the table. Exit status:
    pytest's, if it is not 0.
    """
    path = args.of
    status = 0
    if path is None:
        if not args.factor:
            raise InputError(
                "--factor: name what is varied, e.g. --factor batch-size=1,8,32 --factor seed=0-4"
            )
        path = args.out or Path("reports") / new_name()
        command = [sys.executable, "-m", "pytest", "--pyargs", "pbcore.benches"]
        for factor in args.factor:
            name, _, levels = factor.partition("=")
            command += [f"--{name}", levels] if name in OPTIONS else ["--factor", factor]
        status = subprocess.run([*command, "--out", str(path), *args.more], check=False).returncode
        if not (path / "cells").is_dir():
            return status
    section = factor_section(factor_changes(load_stored(path))).terminal(terminal_width())
    if not section:
        raise InputError(
            f"{path} has no cell that ran at several levels of a factor, or with several seeds"
        )
    print(section)
    return status


def run_merge(args: argparse.Namespace) -> int:
    """Exit status: 0 merged, 1 the runs conflict or a shard is missing, 2 unusable input."""
    merged = merge(args.runs, args.out, allow_missing_shards=args.allow_missing_shards)
    stored = merged.read_cells()
    write_junit([entry.cell for entry in stored], merged.path / "junit.xml")
    write_report(merged.path)
    write_page(merged.path)
    print(
        f"{counted(len(stored), 'cell')} from {counted(len(args.runs), 'run')}:"
        f" {merged.path / 'report.md'}"
    )
    return 0


def run_compare(args: argparse.Namespace) -> int:
    """Exit status: 0 A passes, 1 A is worse or can't be compared, 2 unusable input."""
    check_price_texts(args.price)
    head = load_stored(args.head, refuse)
    head_rows = rows_by_id(head, _machine(args.head))
    base: Sequence[StoredCell] = []  # a baseline file has rows alone
    if args.base.is_dir():
        base = head if args.base == args.head else load_stored(args.base, refuse)
        run_rows(base, args.base)
        base_rows = rows_by_id(base, _machine(args.base))
    else:
        base_rows = read_baseline(args.base)
    models = joined_names(
        "model",
        args.model,
        news={row.model for row in head_rows.values()},
        olds={row.model for row in base_rows.values()},
    )
    samplers = joined_names(
        "sampler",
        args.sampler,
        news={row.sampler for row in head_rows.values()},
        olds={row.sampler for row in base_rows.values()},
    )
    comparison = compare_runs(
        head_rows, base_rows, args.level, exact=args.exact, models=models, samplers=samplers
    )
    if not args.whole:
        comparison = replace(comparison, verdict=comparison.verdict.of_the_run())
    status = 0 if passed(comparison) else 1
    if args.html:
        page = comparison_page(comparison, head, base, (args.head, args.base))
        write_atomic(args.html, page)
    runs = side_names(comparison, args.head, args.base)
    comment = comparison_markdown(comparison, *runs) if args.markdown else ""
    if str(args.markdown) == "-":
        print(comment, end="")
        return status
    first = "\n".join(verdict_lines(comparison, str(args.base)))
    print(gate_text(comparison.verdict, str(args.base), first=first))
    rerun = rerun_of(head, RunDir(args.head).read_run(), Path())
    print(f"\n{comparison_text(comparison, *runs, _width(args))}")
    for line in _look_at(comparison, rerun):
        print(line)
    for line in comparison_prices(head, base or base_rows, args.price, args.price_batch):
        print(line)
    if args.markdown:
        print(write_atomic(args.markdown, comment))
    if args.html:
        print(args.html)
    return status


def _machine(run: Path) -> Mapping[str, Any] | None:
    """The machine of a run."""
    return RunDir(run).read_run().get("machine")


def _look_at(comparison: Comparison, rerun: Rerun) -> list[str]:
    """The command that decodes the worst cell's first worse answer again."""
    for cell in comparison.worst_first():
        if cell.worse and cell.pair.head is not None:
            return [f"the first worse answer: {rerun(cell.pair.head.id, cell.worse[0].index)}"]
    return []


def joined_names(
    kind: str, texts: Sequence[str], news: Collection[str], olds: Collection[str]
) -> dict[str, str]:
    """The values of `--model` or `--sampler`, each NEW=OLD.

    A name may hold `=`, as in `step=1000`: of all ways to divide a value the first that gives a
    name of each run is taken.

    Args:
        kind: the option's name, for errors.
        texts: its values.
        news: the names in the new run.
        olds: the names in the old run.

    Returns:
        NEW → OLD.

    Raises:
        InputError: for a value without `=`, and for a NEW with two OLDs.
    """
    names: dict[str, str] = {}
    for text in texts:
        divided = _ways_to_divide(text)
        if not divided:
            raise InputError(
                f"--{kind} {text}: give NEW=OLD, a {kind} of A and one of B, e.g. {EXAMPLES[kind]}"
            )
        of_the_runs = [(new, old) for new, old in divided if new in news and old in olds]
        new, old = of_the_runs[0] if of_the_runs else divided[0]
        if names.get(new, old) != old:
            raise InputError(
                f"--{kind} {text}: {new} is compared with {names[new]} already; give one OLD for"
                " each NEW"
            )
        names[new] = old
    return names


def _ways_to_divide(text: str) -> list[tuple[str, str]]:
    """What stands before and behind each `=` of a text, where neither is empty."""
    pairs = []
    for place, sign in enumerate(text):
        before = text[:place]
        behind = text[place + 1 :]
        if sign == "=" and before and behind:
            pairs.append((before, behind))
    return pairs
