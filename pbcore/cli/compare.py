"""`pbcore compare`: judges one run against another, sample by sample."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from pbcore.analysis.answering import little_to_lose
from pbcore.analysis.compare import Comparison, compare_runs
from pbcore.analysis.differences import differences, setting_of
from pbcore.analysis.verdict_text import Rerun, gate_text
from pbcore.base.check import refuse
from pbcore.base.errors import InputError
from pbcore.base.printable import command_line, counted
from pbcore.base.text import terminal_width
from pbcore.report.comparison import (
    comparison_markdown,
    comparison_text,
    passed,
    side_names,
    verdict_lines,
)
from pbcore.report.options import add_price_options, check_price_texts
from pbcore.report.page.compare import comparison_page
from pbcore.report.prices import comparison_prices
from pbcore.report.rerun import rerun_of
from pbcore.results.baseline import BaselineCell, read_baseline, rows_by_id, run_rows
from pbcore.results.environment import Machine
from pbcore.results.load import load_stored
from pbcore.results.rundir import RunDir, StoredCell, write_atomic

EXAMPLES = {"model": "my-llada-v2=my-llada", "sampler": "my_sampler-k2=confidence-k2"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options."""
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


def run(args: argparse.Namespace) -> int:
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
    comparison = _compared(args, head_rows, base_rows)
    runs = side_names(comparison, args.head, args.base)
    if args.html:
        write_atomic(args.html, comparison_page(comparison, head, base, (args.head, args.base)))
    comment = comparison_markdown(comparison, *runs) if args.markdown else ""
    if str(args.markdown) == "-":
        print(comment, end="")
    else:
        _say(args, comparison, runs, head, base or base_rows)
        if args.markdown:
            print(write_atomic(args.markdown, comment))
        if args.html:
            print(args.html)
    return 0 if passed(comparison) else 1


def _compared(
    args: argparse.Namespace,
    head_rows: Mapping[str, BaselineCell],
    base_rows: Mapping[str, BaselineCell],
) -> Comparison:
    """The comparison that the options ask for."""
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
    return compare_runs(
        head_rows,
        base_rows,
        args.level,
        exact=args.exact,
        models=models,
        samplers=samplers,
        whole=args.whole,
    )


def _say(
    args: argparse.Namespace,
    comparison: Comparison,
    runs: tuple[str, str],
    head: Sequence[StoredCell],
    base: Sequence[StoredCell] | Mapping[str, BaselineCell],
) -> None:
    """Prints the verdict, the table of both `runs`, and what can be done next."""
    first = "\n".join(verdict_lines(comparison, str(args.base)))
    print(gate_text(comparison.verdict, str(args.base), first=first))
    little = little_to_lose(_base_scores(comparison))
    if little:
        print(f"B {little}: it has hardly anything to lose")
    print(f"\n{comparison_text(comparison, *runs, args.width or terminal_width(120))}")
    lines = [
        *_look_at(comparison, rerun_of(head, RunDir(args.head).read_run())),
        *comparison_prices(head, base, args.price, args.price_batch),
        *_to_explain(comparison, args),
    ]
    for line in lines:
        print(line)


def _machine(run: Path) -> Machine | None:
    """The machine of a run."""
    return RunDir(run).read_run().get("machine")


def _base_scores(comparison: Comparison) -> Iterator[list[float]]:
    """B's scores of the judged questions, cell by cell."""
    for cell in comparison.verdict.judged:
        row = cell.pair.base if cell.pair is not None else None
        if row is not None and row.headline in row.scores:
            of_question = row.by_sample(row.headline)
            yield [of_question[i] for i in cell.paired.indices]


def _to_explain(comparison: Comparison, args: argparse.Namespace) -> list[str]:
    """The command that gives each setting's part, where cells of the same model and task differ in
    settings that can be varied.
    """
    sides = _sides(comparison)
    if sides is None:
        return []
    head, base = sides
    differs = differences(setting_of(head.cell), setting_of(base.cell))
    named = bool(comparison.samplers) and len(differs) == 1  # the names say it
    if not differs.varied or named:
        return []
    words = ["pbcore", "explain", str(args.head), str(args.base)]
    if comparison.samplers:
        words += ["--sampler", f"{head.cell.sampler}={base.cell.sampler}"]
    settings = counted(len(differs), "setting")
    return [f"they differ in {settings}: {command_line(words)}"]


def _sides(comparison: Comparison) -> tuple[StoredCell, StoredCell] | None:
    """A cell of A and one of B with the same model and task: the first pair that was compared, or
    the only ones of their task; None without, and where one is of a baseline file.
    """
    for cell in comparison.of("compared", "refused"):
        rows = [row.stored for row in (cell.pair.head, cell.pair.base) if row is not None]
        stored = [entry for entry in rows if entry is not None]
        if len(stored) == 2:
            return stored[0], stored[1]
    news = [cell.pair.head for cell in comparison.of("new")]
    missing = [cell.pair.base for cell in comparison.of("missing")]
    bases = _by_task(row.stored for row in missing if row is not None)
    for key, head in _by_task(row.stored for row in news if row is not None).items():
        base = bases.get(key, [])
        if len(head) == len(base) == 1:
            return head[0], base[0]
    return None


def _by_task(cells: Iterable[StoredCell | None]) -> dict[tuple[str, str], list[StoredCell]]:
    """The cells of each model and task."""
    groups: dict[tuple[str, str], list[StoredCell]] = {}
    for stored in cells:
        if stored is not None:
            groups.setdefault((stored.cell.model, stored.cell.task), []).append(stored)
    return groups


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
