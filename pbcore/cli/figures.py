"""`pbcore figures`: the paper's table and figures, drawn again."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pbcore.base.errors import InputError
from pbcore.figures.answers import add_answer_options, write_drawings
from pbcore.grid.option import lengths, levels
from pbcore.theory.tables import GAMMAS

if TYPE_CHECKING:
    from pbcore.report.style import Drawing

DECODED = ("table1", "2a", "2b", "2c", "2d", "2e")
PUBLISHED = "published"
FROM_RUNS = ("3", "4", "5", "6", "7", "length", "questions", "film")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options."""
    names = (*DECODED, *FROM_RUNS, PUBLISHED)
    add = parser.add_argument
    about = f"{', '.join(names)}; or theory, with options of its own: pbcore figures theory -h"
    add("which", choices=(*names, "theory"), metavar="FIGURE", help=about)
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
    add_answer_options(parser)


def run(args: argparse.Namespace) -> int:
    """Draws one figure; prints how many points lie within their interval, and the files."""
    if args.which in FROM_RUNS:
        if not args.runs:
            raise InputError(
                f"figure {args.which} is drawn from runs: give their directories, `pbcore figures"
                f" {args.which} RUN`"
            )
        return write_drawings(_from_runs(args.which, args.runs), args.out)
    if args.runs:
        raise InputError(f"{args.which} isn't drawn from runs and takes no run directory")
    if args.which == PUBLISHED:
        from pbcore.figures.published import published_figure

        return write_drawings([published_figure()], args.out)
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
        return write_drawings([lists.threshold_panel(model, count, sizes, gammas, seed)], args.out)
    return write_drawings(
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


def _decimals(text: str) -> tuple[float, ...]:
    return tuple(float(part) for part in text.split(","))
