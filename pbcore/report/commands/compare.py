"""The command `pbcore compare`."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from pbcore.analysis.compare import compare_runs
from pbcore.errors import InputError
from pbcore.gates.judge import judge
from pbcore.gates.text import gate_text
from pbcore.report.comparison import comparison_markdown, comparison_text, joined
from pbcore.report.page.compare import comparison_page
from pbcore.report.rerun import rerun_of
from pbcore.results.baseline import BaselineCell, read_baseline, run_rows
from pbcore.results.check import refuse
from pbcore.results.load import load_stored
from pbcore.results.rundir import RunDir, StoredCell, write_atomic
from pbcore.text import show

EXAMPLES = {"model": "my-llada-v2=my-llada", "sampler": "my_sampler-k2=confidence-k2"}


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `compare`."""
    about = "judge run A against run (or baseline file) B, sample by sample, and show what changed"
    parser = subparsers.add_parser("compare", help=about)
    add = parser.add_argument
    add("head", type=Path, metavar="A", help="run directory to judge")
    add("base", type=Path, metavar="B", help="run directory or baseline file to judge against")
    for kind, example in EXAMPLES.items():
        about = (
            f"compare {kind} NEW of A with {kind} OLD of B, by scores alone and only these (repeatable; A and B may "
        )
        about += f"be the same run): {example}"
        add(f"--{kind}", action="append", default=[], metavar="NEW=OLD", help=about)
    add("--level", type=float, default=0.05, help="probability of a false alarm per run (default 0.05)")
    about = "also write the comparison for a pull request; - for the terminal"
    add("--markdown", type=Path, metavar="FILE", help=about)
    about = "also write a page with the flipped answers of both side by side"
    add("--html", type=Path, metavar="FILE", help=about)
    add("--width", type=int, help="columns of the table (default: the terminal's; 120 without one)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Exit status: 0 A passes, 1 A is worse or can't be compared, 2 unusable input."""
    head = load_stored(args.head, refuse)
    base = head if args.base == args.head else _cells_or_rows(args.base)
    judged_by = base if isinstance(base, Mapping) else run_rows(base, args.base)
    sides = [entry.cell for entry in head], judged_by.values()
    models = joined_names("model", args.model, *({cell.model for cell in side} for side in sides))
    samplers = joined_names("sampler", args.sampler, *({cell.sampler for cell in side} for side in sides))
    verdict = judge(head, judged_by, args.level, models=models, samplers=samplers)
    comparison = compare_runs(head, base, args.level, models=models, samplers=samplers)
    if args.html:
        answers = [] if isinstance(base, Mapping) else base
        write_atomic(args.html, comparison_page(comparison, head, answers, (args.head, args.base)))
    runs = args.head.name or str(args.head), args.base.name or str(args.base)
    page = comparison_markdown(comparison, *runs, verdict) if args.markdown else ""
    if str(args.markdown) == "-":
        show(page, end="")
        return 0 if verdict.ok else 1
    by_scores = ["by scores alone"] if any(cell.pair.renamed for cell in comparison.cells) else []
    judged = ", ".join(filter(None, (str(args.base), joined(comparison), *by_scores)))
    show(gate_text(verdict, judged, rerun_of(head, RunDir(args.head).read_run(), Path())))
    width = shutil.get_terminal_size((120, 24)).columns if args.width is None else args.width
    show(f"\n{comparison_text(comparison, *runs, width)}")
    if args.markdown:
        show(str(write_atomic(args.markdown, page)))
    if args.html:
        show(str(args.html))
    return 0 if verdict.ok else 1


def _cells_or_rows(base: Path) -> Sequence[StoredCell] | Mapping[str, BaselineCell]:
    """A run's own records, with rates that a baseline's rows lack; the rows of a baseline file."""
    return load_stored(base, refuse) if base.is_dir() else read_baseline(base)


def joined_names(kind: str, texts: Sequence[str], news: Collection[str], olds: Collection[str]) -> dict[str, str]:
    """NEW → OLD of the values of `--model` or `--sampler` (`kind`). A name may hold `=`, as in `step=1000`: of all ways
    to divide a value the first that gives a name of each run is taken. Raises InputError for a value without `=`, and
    for a NEW with two OLDs."""
    names: dict[str, str] = {}
    for text in texts:
        ways = [(text[:i], text[i + 1 :]) for i in range(1, len(text) - 1) if text[i] == "="]
        if not ways:
            raise InputError(f"--{kind} {text}: give NEW=OLD, a {kind} of A and one of B, e.g. {EXAMPLES[kind]}")
        new, old = next((way for way in ways if way[0] in news and way[1] in olds), ways[0])
        if names.get(new, old) != old:
            raise InputError(f"--{kind} {text}: {new} is compared with {names[new]} already; give one OLD for each NEW")
        names[new] = old
    return names
