"""`pbcore figures`: figures of runs, and those that neighbours add."""

from __future__ import annotations

import argparse
from pathlib import Path

from pbcore.base.errors import InputError
from pbcore.report.figure_sets import FIGURES

FORMATS = ("png", "svg", "pdf")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options."""
    sets = FIGURES.all().values()
    names = [name for one in sets for name in one.names]
    add = parser.add_argument
    about = f"{', '.join(names)}; or theory, with options of its own: pbcore figures theory -h"
    add("which", choices=(*names, "theory"), metavar="FIGURE", help=about)
    add(
        "runs",
        nargs="*",
        type=Path,
        metavar="RUN",
        help="run directories, for what is drawn of runs",
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
        "--format",
        type=_formats,
        default=("png",),
        metavar="F,F",
        help=f"of the pictures: {', '.join(FORMATS)} (default png)",
    )
    for one in sets:
        one.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Draws one figure; prints how many points lie within their interval, and the files. Raises
    InputError for options that belong to another figure.
    """
    sets = FIGURES.all().values()
    for one in sets:
        for (option, field), figures in one.options.items():
            if getattr(args, field) not in (None, []) and args.which not in figures:
                raise InputError(f"{option} goes with {', '.join(figures)}, not with {args.which}")
    next(one for one in sets if args.which in one.names).draw(args)
    return 0


def _formats(text: str) -> tuple[str, ...]:
    formats = tuple(text.split(","))
    unknown = [kind for kind in formats if kind not in FORMATS]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r}: formats are {', '.join(FORMATS)}")
    return formats
