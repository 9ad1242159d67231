"""`pbcore figures`: the paper's table and figures, drawn again."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from pbcore.base.errors import InputError
from pbcore.figures.answers import add_answer_options, write_drawings, write_rows
from pbcore.grid.option import lengths, levels
from pbcore.theory.tables import GAMMAS

if TYPE_CHECKING:
    from pbcore.report.style import Drawing

DECODED = ("table1", "2a", "2b", "2c", "2d", "2e")
PUBLISHED = "published"
FROM_RUNS = ("3", "4", "5", "6", "7", "curves", "length", "questions", "film")
FORMATS = ("png", "svg", "pdf")


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
        help="run directories (figures 3 to 7, curves, length, questions and film; published draws"
        " a run's points over the published ones)",
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
    add("--model", help="model to decode with (table1 and 2a to 2e; default ideal), or published")
    add(
        "--format",
        type=_formats,
        default=("png",),
        metavar="F,F",
        help=f"of the pictures: {', '.join(FORMATS)} (default png)",
    )
    add("--cell", metavar="MODEL/TASK/SAMPLER", help="the only cell that film looks at")
    add("--question", type=int, metavar="N", help="the only question that film looks at")
    about = (
        "published: draw the run's model OURS over PUBLISHED (repeatable):"
        " GSAI-ML/LLaDA-8B-Instruct, GSAI-ML/LLaDA-1.5, Dream-org/Dream-v0-Instruct-7B or"
        " apple/DiffuCoder-7B-Instruct"
    )
    add("--as", dest="same", action="append", default=[], metavar="OURS=PUBLISHED", help=about)
    about = "lengths of the lists; several are points, or curves (2e) or rows (table1) of their own"
    add("--n", type=lengths, metavar="N,N", help=about)
    blocks = "also decode in blocks, a curve for each length (2a to 2d)"
    add("--block-length", type=levels, default=(), metavar="B,B", help=blocks)
    add("--threshold", type=_decimals, metavar="γ,γ", help="thresholds of 2e")
    add_answer_options(parser)


def run(args: argparse.Namespace) -> int:
    """Draws one figure; prints how many points lie within their interval, and the files."""
    _check(args)
    if args.which in FROM_RUNS:
        if not args.runs:
            raise InputError(
                f"figure {args.which} is drawn from runs: give their directories, `pbcore figures"
                f" {args.which} RUN`"
            )
        return write_drawings(_from_runs(args), args.out, args.format)
    if args.which == PUBLISHED:
        return write_drawings([_published(args)], args.out, args.format)
    if args.runs:
        raise InputError(f"{args.which} isn't drawn from runs and takes no run directory")
    from pbcore.figures import lists
    from pbcore.models import load_model

    model = load_model(args.model or "ideal")
    count = args.samples
    seed = args.seed
    if args.which == "table1":
        text, rows = lists.measured_table1(model, count, args.n or (10,), seed)
        print(text)
        write_rows(rows, args.out / "table1.csv")
        return 0
    if args.which == "2e":
        sizes = args.n or lists.THRESHOLD_LENGTHS
        gammas = args.threshold or GAMMAS
        drawn = lists.threshold_panel(model, count, sizes, gammas, seed)
    else:
        sizes = args.n or lists.LENGTHS
        drawn = lists.panel(args.which, model, count, sizes, args.block_length, seed)
    return write_drawings([drawn], args.out, args.format)


def _check(args: argparse.Namespace) -> None:
    """Raises InputError for options that belong to another figure."""
    for option, value, figures in (
        ("--cell", args.cell, ("film",)),
        ("--question", args.question, ("film",)),
        ("--as", args.same, (PUBLISHED,)),
        ("--model", args.model, (*DECODED, PUBLISHED)),
    ):
        if value not in (None, []) and args.which not in figures:
            raise InputError(f"{option} goes with {', '.join(figures)}, not with {args.which}")


def _published(args: argparse.Namespace) -> Drawing:
    from pbcore.analysis.against import same_models
    from pbcore.figures.runs import read_curves
    from pbcore.report.published import published_figure
    from pbcore.results.official_site import MODELS

    if args.same and not args.runs:
        raise InputError("--as goes with a run: pbcore figures published RUN --as OURS=PUBLISHED")
    cells = read_curves(args.runs) if args.runs else []
    return published_figure(args.model, cells, same_models(args.same, list(MODELS)))


def _from_runs(args: argparse.Namespace) -> list[Drawing]:
    from pbcore.figures import runs, sweeps
    from pbcore.figures.film import film

    cells = runs.read_curves(args.runs)
    if args.which == "film":
        return [film(cells, args.cell, args.question)]
    draw: dict[str, Callable[[runs.Cells], Drawing | list[Drawing]]] = {
        "3": runs.figure3,
        "4": sweeps.figure4,
        "5": sweeps.figure5,
        "6": sweeps.figure6,
        "7": runs.figure7,
        "length": sweeps.over_length,
        "questions": runs.over_questions,
        "curves": runs.curve_figures,
    }
    drawn = draw[args.which](cells)
    return drawn if isinstance(drawn, list) else [drawn]


def _formats(text: str) -> tuple[str, ...]:
    formats = tuple(text.split(","))
    unknown = [kind for kind in formats if kind not in FORMATS]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r}: formats are {', '.join(FORMATS)}")
    return formats


def _decimals(text: str) -> tuple[float, ...]:
    return tuple(float(part) for part in text.split(","))
