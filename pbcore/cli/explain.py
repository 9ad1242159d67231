"""`pbcore explain`: which part of the difference between two settings each option makes."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

from pbcore.base.errors import InputError
from pbcore.base.printable import counted
from pbcore.base.text import folded, terminal_width
from pbcore.explain.measuring import (
    ExplanationPlan,
    estimate,
    make_plan,
    measure,
    measured_gap,
    missing,
)
from pbcore.explain.sides import (
    SIDES,
    CellChoice,
    Side,
    of_options,
    of_preset,
    of_run,
    words_of,
)
from pbcore.report.explanation import explanation_section, sentence
from pbcore.report.files import write_files
from pbcore.results.rundir import RunDir, new_name, write_atomic

PARSER = {
    "description": (
        "Lists in which options two settings differ, measures what is missing on the same"
        " questions, and gives each option's part of the difference of their scores. All other"
        " options are those of the benchmark: --gpu, --models … (`pytest --help-pbcore`)."
    ),
    "epilog": "example: pbcore explain reports/mine --preset dream",
    "allow_abbrev": False,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options; all others are pytest's."""
    add = parser.add_argument
    add("first", nargs="?", type=Path, metavar="A", help="run directory to start from")
    add("second", nargs="?", type=Path, metavar="B", help="run directory to go to")
    add("--preset", metavar="NAME", help="go to a preset's setting (`pbcore list presets`)")
    about = "start from these options, in quotation marks: '--sampler confidence-k4 --shots 1'"
    add("--from", dest="start", metavar="OPTIONS", help=about)
    add("--to", metavar="OPTIONS", help="go to these options")
    for name, added in SIDES.all().items():
        add(f"--{name}", metavar=added.metavar, help=added.help)
    about = "the model of the runs that is meant, or that --from and --to are measured with"
    add("--model", action="append", default=[], metavar="NAME", help=about)
    add("--task", action="append", default=[], metavar="NAME", help="task (repeatable)")
    about = "the sampler of the runs that is meant, or of A and of B: FIRST=SECOND"
    add("--sampler", metavar="NAME", help=about)
    add("--level", metavar="LEVEL", help="the level of factors of the runs that is meant")
    add("--limit", metavar="N", help="at most N questions a task, for --from and --to")
    add("-n", dest="workers", metavar="N", help="processes, as pytest -n")
    add("--out", type=Path, metavar="DIR", help="run folder (default: reports/<date-time>)")
    add("--resume", type=Path, metavar="DIR", help="go on with what was measured in DIR")
    add("--estimate", action="store_true", help="print what the run would take, and run nothing")
    add("--json", type=Path, metavar="OUT", help="also write the parts as JSON")
    parser.set_defaults(more=[])


def run(args: argparse.Namespace) -> int:
    """Explains, measuring what is missing. Exit status: 0, 2 unusable input, 130 interrupted."""
    first, second = _sides(args)
    more = list(args.more)
    if args.workers is not None:
        more += ["-n", args.workers]
    if args.limit is not None and not first.scores:
        more += ["--limit", args.limit]
    plan = make_plan(first, second, more)
    width = terminal_width(120)
    if not plan.changes:
        return _nothing_varies(plan, args, width)
    _print_plan(plan, width)
    if args.estimate:
        return estimate(plan)
    out = args.resume or args.out or Path("reports") / new_name()
    if args.resume is None and out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"--out {out} exists and is not empty; to go on: --resume {out}")
    try:
        explanation = measure(plan, out, _progress(plan))
    except KeyboardInterrupt:
        print(f"\ninterrupted; go on with the same command and --resume {out}", file=sys.stderr)
        return 130
    data = explanation.to_json()
    print()
    print("\n".join(folded(sentence(explanation), width)))
    print(f"\n{explanation_section(explanation).terminal(width)}")
    if args.json is not None:
        print(write_atomic(args.json, json.dumps(data, indent=1, ensure_ascii=False) + "\n"))
    if (out / "cells").is_dir() and any((out / "cells").glob("*.json")):
        folder = RunDir(out)
        folder.write_run({**folder.read_run(), "explanation": data})
        write_files(out)
        print(f"page: {out / 'report.html'}")
        if explanation.additive:
            from pbcore.report.explanation_picture import waterfall  # imports matplotlib

            picture, *_ = waterfall(explanation).write(out, ("svg",))
            print(f"picture: {picture}")
    return 0


def _sides(args: argparse.Namespace) -> tuple[Side, Side]:
    """The two sides. Raises InputError for none, or more than two."""
    before, _, after = (args.sampler or "").partition("=")
    choice = CellChoice(args.model, args.task, before or None, args.level)
    others = {
        "B": args.second,
        "--preset": args.preset,
        "--to": args.to,
        **{f"--{name}": getattr(args, name) for name in SIDES.all()},
    }
    given = [name for name, value in others.items() if value is not None]
    if (args.first is None) == (args.start is None) or len(given) != 1:
        added = [f"--{name} {side.metavar}" for name, side in SIDES.all().items()]
        *ways, last = ["--preset NAME", "--to OPTIONS", *added]
        raise InputError(
            f"give two settings: two runs (pbcore explain A B), a run and {', '.join(ways)} or"
            f" {last}, or --from OPTIONS and --to OPTIONS"
        )
    common = []
    for flag, values in (("--model", args.model), ("--task", args.task)):
        for value in values:
            common += [flag, value]
    common += args.more
    if args.start is not None:
        if args.to is None:
            raise InputError("--from OPTIONS goes with --to OPTIONS")
        first = of_options(words_of(args.start), common, args.start)
    else:
        first = of_run(args.first, choice)
    if args.second is not None:
        second_choice = CellChoice(args.model, args.task, after or before or None, args.level)
        return first, of_run(args.second, second_choice)
    if args.preset is not None:
        return first, of_preset(first, args.preset, after or None)
    for name, side in SIDES.all().items():
        if getattr(args, name) is not None:
            return first, side.side(first, getattr(args, name), after or None)
    return first, of_options(words_of(args.to), common, args.to)


def _nothing_varies(plan: ExplanationPlan, args: argparse.Namespace, width: int) -> int:
    """Says that there is nothing to measure, and writes that as JSON."""
    text = f"{plan.first.name} and {plan.second.name} have the same settings"
    if plan.differs.fixed:
        fixed = "; ".join(map(str, plan.differs.fixed))
        text = f"they differ in nothing that can be varied here, and in: {fixed}"
    print("\n".join(folded(f"no difference to explain: {text}", width)))
    if args.json is not None:
        empty = {"gap": 0.0, "low": 0.0, "high": 0.0, "shares": []}
        if plan.first.scores and plan.second.scores:
            empty = measured_gap(plan).to_json()
        print(write_atomic(args.json, json.dumps(empty, indent=1, ensure_ascii=False) + "\n"))
    return 0


def _print_plan(plan: ExplanationPlan, width: int) -> None:
    """What differs, and how much is to be measured."""
    lines = [f"{plan.first.name} → {plan.second.name}: {counted(len(plan.changes), 'option')}"]
    lines += [f"  {change.name}: {change.before} → {change.after}" for change in plan.changes]
    lines += [f"  {change} (can't be varied here)" for change in plan.differs.fixed]
    runs = len(missing(plan))
    lines.append(
        f"{counted(runs, 'combination')} to measure, on {counted(len(plan.tasks), 'task')}"
    )
    for one in plan.combinations.values():
        if one.why:
            lines.append(f"  {one.name} can't run: {one.why}")
    for line in lines:
        print("\n".join(folded(line, width)), flush=True)


def _progress(plan: ExplanationPlan) -> Callable[[str], None]:
    """Rewrites a line on a terminal."""
    done: list[str] = []
    cells = len(missing(plan)) * len(plan.tasks)

    def say(node_id: str) -> None:
        done.append(node_id)
        if sys.stdout.isatty():
            print(f"\r{len(done)} of {cells} cells", end="", flush=True)

    return say
