"""`pbcore tune MODEL`: the fastest sampler that is confirmed to lose at most so much."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from pbcore.base.errors import InputError
from pbcore.base.printable import command_line
from pbcore.base.speed import MAX_LOSS
from pbcore.base.tabular import terminal
from pbcore.base.text import folded, terminal_width
from pbcore.extras.tune.axis import AXES
from pbcore.extras.tune.report import (
    front_line,
    plan_text,
    proof_table,
    recommendation_text,
    server_lines,
    why_left,
    write_tuning_report,
)
from pbcore.extras.tune.state import FILE, TuningRequest, TuningState, read_state
from pbcore.extras.tune.tuning import Tuning, Watcher, prepare
from pbcore.extras.tune.tuning import run as run_tuning
from pbcore.grid.option import points
from pbcore.models.registry import model_label
from pbcore.plugin.pytest_runs import read_settings
from pbcore.report.rerun import stock_run
from pbcore.results.lock import lock_run
from pbcore.results.rundir import new_name

UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
PARSER = {
    "description": (
        "Races the samplers that the model can run on paired questions in growing rounds, and"
        " confirms the best on others. All other options are those of the benchmark: --task,"
        " --profile, --gpu, --dtype, --models, -n, --ray … (`pytest --help-pbcore`)."
    ),
    "epilog": "example: pbcore tune tiny --task shuffle --task copy --budget 30m",
    "allow_abbrev": False,
}
LOCK = "race"  # the folder whose lock keeps a second tuning away


def budget(text: str) -> float:
    """`90s`, `30m` or `2h` in seconds. Raises argparse.ArgumentTypeError for other texts."""
    match = re.fullmatch(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)([smh])", text)
    seconds = float(match[1]) * UNITS[match[2]] if match else 0.0
    if not seconds:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time; write 90s, 30m or 2h")
    return seconds


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options; all others are pytest's."""
    add = parser.add_argument
    add("model", nargs="?", metavar="MODEL", help="the model: a name, a folder or a hub id")
    add(
        "--max-loss",
        type=points,
        metavar="POINTS",
        help=f"loss that is allowed (default: {MAX_LOSS:g})",
    )
    about = "what is to be small (default: seconds where their prices are known, else calls)"
    add("--axis", choices=AXES, help=about)
    about = "price list of the seconds: here (default), a device such as h200, or a file"
    add("--price", metavar="LIST", help=about)
    add("--budget", type=budget, metavar="TIME", help="time for all, e.g. 90s, 30m or 2h")
    about = "a policy, with all its candidates, or a whole sampler to choose from (repeatable)"
    add("--samplers", action="append", default=[], metavar="NAME", help=about)
    add("-n", dest="workers", metavar="N", help="processes, as pytest -n")
    add("--out", type=Path, metavar="DIR", help="run folder (default: reports/<date-time>)")
    add("--resume", type=Path, metavar="DIR", help="go on with an interrupted tuning")
    add("--plan", action="store_true", help="print the plan, and run nothing")
    parser.set_defaults(more=[])


def run(args: argparse.Namespace) -> int:
    """Plans, runs and reports a tuning. Exit status: 0 a sampler is recommended, 1 none is
    confirmed, 2 unusable input, 130 interrupted.
    """
    width = terminal_width(120)
    if args.resume is not None:
        out, state = _resumed(args)
        settings = read_settings(["--model", state.request.model, *state.request.words])
    else:
        out = args.out or Path("reports") / new_name()
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise InputError(f"--out {out} exists and is not empty; to go on: --resume {out}")
        state, settings = prepare(_request(args))
        print("\n".join(plan_text(state, width)), flush=True)
        if args.plan:
            return 0
        (out / LOCK).mkdir(parents=True, exist_ok=True)
        state.write(out)
    lock = lock_run(out / LOCK)
    try:
        result = run_tuning(state, settings, out, _watcher(state.axis_unit, width))
    except KeyboardInterrupt:
        resume = command_line(["pbcore", "tune", "--resume", str(out)])
        print(f"\ninterrupted; go on with: {resume}", file=sys.stderr)
        return 130
    finally:
        lock.release()
    return _end(state, result, out, width)


def _request(args: argparse.Namespace) -> TuningRequest:
    """What the command line asks. Raises InputError."""
    if args.model is None:
        raise InputError("name the model, e.g. pbcore tune tiny")
    if args.model.startswith("-") or any(not word for word in args.more):
        raise InputError("name the model first, then the options")
    words = list(args.more)
    if args.workers is not None:
        words += ["-n", args.workers]
    samplers = [name for text in args.samplers for name in text.split(",") if name]
    return TuningRequest(
        model=model_label(args.model),
        samplers=samplers,
        max_loss=args.max_loss or MAX_LOSS,
        axis=args.axis,
        price=args.price,
        budget=args.budget,
        words=words,
    )


def _resumed(args: argparse.Namespace) -> tuple[Path, TuningState]:
    """The tuning to go on with. Raises InputError for options beside it, which it has already."""
    given = {
        args.model: args.model,
        "--max-loss": args.max_loss,
        "--axis": args.axis,
        "--price": args.price,
        "--budget": args.budget,
        "--samplers": args.samplers,
        "-n": args.workers,
        "--out": args.out,
        " ".join(args.more): args.more,
    }
    for option, value in given.items():
        if value:
            raise InputError(
                f"--resume {args.resume} goes on as it began ({FILE}); leave {option} out"
            )
    return args.resume, read_state(args.resume)


def _watcher(words: str, width: int) -> Watcher:
    """Lines on stdout; on a terminal the present run rewrites one line."""
    stream = sys.stdout
    shown = stream.isatty()

    def line(text: str) -> None:
        if shown:
            stream.write("\r" + " " * (width - 1) + "\r")
        stream.write("\n".join(folded(text, width)) + "\n")
        stream.flush()

    def progress(name: str, done: int, cells: int) -> None:
        if shown:
            stream.write(f"\r{name}: {done} of {cells} cells"[:width])
            stream.flush()

    def after(name: str, result: Tuning, racing: Sequence[str]) -> None:
        ran = len(result.rounds[-1].cells) - 1
        if result.standing:
            front = front_line(result.standing, words)
        else:
            number = len(result.rounds)
            front = why_left([left for left in result.left if left.round == number])
        new = len(racing) - len(result.standing)
        joined = f", {new} join" if new else ""
        line(f"{name}: {len(result.standing)} of {ran} go on{joined}; {front}")

    return Watcher(line, after, progress)


def _end(state: TuningState, result: Tuning, out: Path, width: int) -> int:
    """Prints and writes the report."""
    if result.why_not:
        print("\n".join(folded(result.why_not, width)))
        return 1
    paths = write_tuning_report(state, result, out)
    if result.left or result.trials:
        from pbcore.extras.tune.picture import picture  # imports matplotlib

        paths = [*picture(state, result).write(out), *paths]
    if result.trials:
        print(f"\n{terminal(proof_table(state, result), width)}\n")
    for text in recommendation_text(state, result):
        print("\n".join(folded(text, width)))
    if result.chosen is not None:
        for text in server_lines(state, result.chosen.sampler):
            print("\n".join(folded(text, width)))
        use = stock_run("--model", state.request.model, "--preset", paths[-1])
        print(f"to use it: {use}")
    print(f"{out}: {', '.join(path.name for path in paths)}")
    return 0 if result.chosen is not None else 1
