"""The commands `pbcore figures` and `pbcore theory --frontier`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pbcore.base.errors import InputError
from pbcore.grid.option import lengths, levels, positive
from pbcore.theory.tables import GAMMAS, report

if TYPE_CHECKING:
    from pbcore.report.style import Drawing

DECODED = ("table1", "2a", "2b", "2c", "2d", "2e")
PUBLISHED = "published"
FROM_RUNS = ("3", "4", "5", "6", "7", "length", "questions", "film")
SAMPLES = 400


def add_parsers(commands: Any) -> None:
    """Adds `figures`, and `theory` with what it measures by decoding."""
    for parser in (_add_figures(commands), _add_theory(commands)):
        count = f"answers per point (default {SAMPLES})"
        parser.add_argument("--samples", type=positive, default=SAMPLES, metavar="N", help=count)
        parser.add_argument("--seed", type=int, default=0, help="seed of the answers (default 0)")


def _add_figures(commands: Any) -> argparse.ArgumentParser:
    names = (*DECODED, *FROM_RUNS, PUBLISHED)
    about = "the paper's table and figures, drawn again"
    parser: argparse.ArgumentParser = commands.add_parser("figures", help=about)
    add = parser.add_argument
    add("which", choices=names, metavar="FIGURE", help=", ".join(names))
    add(
        "runs",
        nargs="*",
        type=Path,
        metavar="RUN",
        help="run directories (figures 3 to 7, length, questions and film)",
    )
    out = Path("reports/figures")
    add(
        "-o",
        "--out",
        type=Path,
        default=out,
        metavar="DIR",
        help=f"folder for PNG and CSV (default {out})",
    )
    add(
        "--model", default="ideal", help="model to decode with (table1 and 2a to 2e; default ideal)"
    )
    about = "lengths of the lists; several are points, or curves (2e) or rows (table1) of their own"
    add("--n", type=lengths, metavar="N,N", help=about)
    blocks = "also decode in blocks, a curve for each length (2a to 2d)"
    add("--block-length", type=levels, default=(), metavar="B,B", help=blocks)
    add("--threshold", type=_decimals, metavar="γ,γ", help="thresholds of 2e")
    parser.set_defaults(run=run_figures)
    return parser


def _add_theory(commands: Any) -> argparse.ArgumentParser:
    about = "losses of an ideal model: closed forms for the list operations"
    parser: argparse.ArgumentParser = commands.add_parser("theory", help=about)
    add = parser.add_argument
    add("--n", type=int, default=10, help="length of the lists (default 10)")
    about = "the optimal frontier, and each sampler's regret with the model `ideal`"
    add("--frontier", action="store_true", help=about)
    add(
        "--sampler",
        action="append",
        metavar="NAME",
        help="with --frontier: a sampler to measure (repeatable)",
    )
    add(
        "-o",
        "--out",
        type=Path,
        metavar="DIR",
        help="with --frontier: folder for its figure and CSV",
    )
    parser.set_defaults(run=run_theory)
    return parser


def run_theory(args: argparse.Namespace) -> int:
    """`pbcore theory`; with --frontier, the frontier and the regrets."""
    if not args.frontier:
        print(report(args.n))
        return 0
    from pbcore.figures import frontier_figure
    from pbcore.models import load_model
    from pbcore.report.style import write_csv

    rows = frontier_figure.frontier_rows(args.n)
    print(frontier_figure.frontier_text(rows), end="\n\n")
    tasks = frontier_figure.tasks(args.n)
    samplers = args.sampler or frontier_figure.SAMPLERS
    regrets = frontier_figure.regrets(
        load_model("ideal"), args.samples, tasks, samplers, seed=args.seed
    )
    drawing = frontier_figure.frontier_drawing(regrets)
    if args.out is None:
        print(drawing.said)
        return 0
    _write([drawing], args.out)
    print(write_csv(rows, args.out / "frontier_bits.csv"))
    return 0


def run_figures(args: argparse.Namespace) -> int:
    """Draws one figure; prints how many points lie within their interval, and the files."""
    if args.which in FROM_RUNS:
        if not args.runs:
            raise InputError(
                f"figure {args.which} is drawn from runs: give their directories, `pbcore figures"
                f" {args.which} RUN`"
            )
        return _write(_from_runs(args.which, args.runs), args.out)
    if args.runs:
        raise InputError(f"{args.which} isn't drawn from runs and takes no run directory")
    if args.which == PUBLISHED:
        from pbcore.figures.published import published_figure

        return _write([published_figure()], args.out)
    from pbcore.figures import lists
    from pbcore.models import load_model
    from pbcore.report.style import write_csv

    model = load_model(args.model)
    count = args.samples
    seed = args.seed
    if args.which == "table1":
        text, rows = lists.measured_table1(model, count, args.n or (10,), seed)
        print(text)
        print(write_csv(rows, args.out / "table1.csv"))
        return 0
    if args.which == "2e":
        sizes = args.n or lists.THRESHOLD_LENGTHS
        gammas = args.threshold or GAMMAS
        return _write([lists.threshold_panel(model, count, sizes, gammas, seed)], args.out)
    return _write(
        [lists.panel(args.which, model, count, args.n or lists.LENGTHS, args.block_length, seed)],
        args.out,
    )


def _from_runs(which: str, paths: Sequence[Path]) -> list[Drawing]:
    from pbcore.figures import runs, sweeps
    from pbcore.figures.film import film

    draw: dict[str, Callable[[runs.Cells], Drawing | list[Drawing]]] = {
        "3": runs.figure3,
        "4": sweeps.figure4,
        "5": sweeps.figure5,
        "6": sweeps.figure6,
        "7": runs.figure7,
        "length": sweeps.over_length,
        "questions": runs.over_questions,
        "film": film,
    }
    drawn = draw[which](runs.read_curves(paths))
    return drawn if isinstance(drawn, list) else [drawn]


def _write(drawings: Sequence[Drawing], out: Path) -> int:
    for drawing in drawings:
        print(drawing.said)
        print(*drawing.write(out), sep="\n")
    return 0


def _decimals(text: str) -> tuple[float, ...]:
    return tuple(float(part) for part in text.split(","))
