"""The commands `pbcore figures` and `pbcore theory --frontier`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pbcore.errors import InputError
from pbcore.text import show
from pbcore.theory.tables import report

if TYPE_CHECKING:
    from pbcore.figures.figure_io import Drawing
    from pbcore.models.base import Model

DECODED = ("table1", "2a", "2b", "2c", "2d", "2e")
FROM_RUNS = ("3", "4", "5", "6", "7", "length", "questions")
SAMPLES = 400


def add_parsers(commands: Any) -> None:
    """Adds `figures`, and `theory` with what it measures by decoding."""
    figures = commands.add_parser("figures", help="the paper's table and figures, drawn again")
    figures.add_argument(
        "which", choices=(*DECODED, *FROM_RUNS), metavar="FIGURE", help=", ".join((*DECODED, *FROM_RUNS))
    )
    figures.add_argument(
        "runs", nargs="*", type=Path, metavar="RUN", help="run directories (figures 3 to 7, length and questions)"
    )
    figures.add_argument(
        "-o",
        "--out",
        type=Path,
        default=Path("reports/figures"),
        metavar="DIR",
        help="folder for PNG and CSV (default reports/figures)",
    )
    figures.add_argument("--model", default="ideal", help="model to decode with (table1 and 2a to 2e; default ideal)")
    figures.add_argument(
        "--n",
        type=_numbers,
        metavar="N,N",
        help="lengths of the lists; several are points, or curves (2e) or rows (table1) of their own",
    )
    figures.add_argument(
        "--block-length",
        type=_numbers,
        default=(),
        metavar="B,B",
        help="also decode in blocks, a curve for each length (2a to 2d)",
    )
    figures.add_argument("--threshold", type=_decimals, metavar="γ,γ", help="thresholds of 2e")
    _add_samples(figures)
    figures.set_defaults(run=run_figures)
    parser = commands.add_parser("theory", help="losses of an ideal model: closed forms for the list operations")
    parser.add_argument("--n", type=int, default=10, help="length of the lists (default 10)")
    parser.add_argument(
        "--frontier", action="store_true", help="the optimal frontier, and each sampler's regret with the model `ideal`"
    )
    parser.add_argument(
        "--sampler", action="append", metavar="NAME", help="with --frontier: a sampler to measure (repeatable)"
    )
    parser.add_argument("-o", "--out", type=Path, metavar="DIR", help="with --frontier: folder for its figure and CSV")
    _add_samples(parser)
    parser.set_defaults(run=run_theory)


def run_theory(args: argparse.Namespace) -> int:
    """`pbcore theory`; with --frontier, the frontier and the regrets."""
    if args.frontier:
        return _frontier(args.n, args)
    print(report(args.n))
    return 0


def run_figures(args: argparse.Namespace) -> int:
    """Draws one figure; prints how many points lie within their interval, and the files."""
    if args.which in FROM_RUNS:
        if not args.runs:
            raise InputError(
                f"figure {args.which} is drawn from runs: give their directories, `pbcore figures {args.which} RUN`"
            )
        _write(_from_runs(args.which, args.runs), args.out)
        return 0
    if args.runs:
        raise InputError(f"{args.which} is decoded anew and takes no run directory")
    _decoded(args, _model(args.model))
    return 0


def _decoded(args: argparse.Namespace, model: Model) -> None:
    from pbcore.figures import lists
    from pbcore.figures.figure_io import write_csv

    if args.which == "table1":
        text, rows = lists.measured_table1(model, args.samples, args.n or (10,), args.seed)
        show(text)
        args.out.mkdir(parents=True, exist_ok=True)
        show(str(write_csv(rows, args.out / "table1.csv")))
    elif args.which == "2e":
        chosen = {"gammas": args.threshold} if args.threshold else {}
        _write(
            [lists.threshold_panel(model, args.samples, args.n or lists.THRESHOLD_LENGTHS, seed=args.seed, **chosen)],
            args.out,
        )
    else:
        _write(
            [lists.panel(args.which, model, args.samples, args.n or lists.LENGTHS, args.block_length, args.seed)],
            args.out,
        )


def _from_runs(which: str, paths: Sequence[Path]) -> list[Drawing]:
    from pbcore.figures import runs, several, sweeps

    draw: dict[str, Callable[[runs.Cells], Drawing | list[Drawing]]] = {
        "3": runs.figure3,
        "4": sweeps.figure4,
        "5": sweeps.figure5,
        "6": sweeps.figure6,
        "7": runs.figure7,
        "length": sweeps.over_length,
        "questions": several.over_questions,
    }
    drawn = draw[which](runs.read(paths))
    return drawn if isinstance(drawn, list) else [drawn]


def _frontier(n: int, args: argparse.Namespace) -> int:
    from pbcore.figures import frontier_figure
    from pbcore.figures.figure_io import write_csv
    from pbcore.figures.regret import SAMPLERS, regrets

    rows = frontier_figure.frontier_rows(n)
    show(frontier_figure.frontier_text(rows), end="\n\n")
    found = regrets(_model("ideal"), args.samples, frontier_figure.tasks(n), args.sampler or SAMPLERS, seed=args.seed)
    drawing = frontier_figure.frontier_drawing(found)
    if args.out is None:
        show(drawing.said)
        return 0
    _write([drawing], args.out)
    show(str(write_csv(rows, args.out / "frontier_bits.csv")))
    return 0


def _write(drawings: Sequence[Drawing], out: Path) -> None:
    from pbcore.figures.figure_io import write

    for drawing in drawings:
        show(drawing.said)
        for path in write(drawing, out):
            show(str(path))


def _model(name: str) -> Model:
    from pbcore.models import load_model

    return load_model(name)


def _add_samples(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--samples", type=_positive, default=SAMPLES, metavar="N", help=f"answers per point (default {SAMPLES})"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the answers (default 0)")


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(_positive(part) for part in text.split(","))


def _decimals(text: str) -> tuple[float, ...]:
    return tuple(float(part) for part in text.split(","))
