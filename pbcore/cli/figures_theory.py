"""`pbcore figures theory`: losses of an ideal model on the list operations, and the optimal
frontier.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from pbcore.report.drawings import add_answer_options, write_drawings, write_rows
from pbcore.theory.tables import report


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options."""
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
        help="folder for a figure and its CSV: the least bits lost in T steps, or the frontier",
    )
    add_answer_options(parser)


def run(args: argparse.Namespace) -> int:
    """Prints the closed forms; with --frontier, the frontier and the regrets."""
    if not args.frontier:
        print(report(args.n))
        if args.out is None:
            return 0
        from pbcore.report.bits_figure import bits_drawing

        return write_drawings([bits_drawing(args.n)], args.out)
    from pbcore.models import load_model
    from pbcore.report import frontier_figure

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
    write_drawings([drawing], args.out)
    write_rows(rows, args.out / "frontier_bits.csv")
    return 0
