"""`pbcore export`: a run as CSV, Parquet or LaTeX, in another layout, or sent to a tracker."""

from __future__ import annotations

import argparse
from pathlib import Path

from pbcore.base.errors import InputError
from pbcore.exchange.export import EXPORTERS, export_csv, write_parquet
from pbcore.results.rundir import open_run


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options."""
    parser.add_argument("source", type=Path, metavar="RUN", help="run directory")
    parser.add_argument(
        "--csv", type=Path, metavar="DIR", help="folder for cells.csv and samples.csv"
    )
    parser.add_argument(
        "--parquet",
        type=Path,
        metavar="DIR",
        help="folder for cells.parquet and samples.parquet (extra `parquet`)",
    )
    parser.add_argument(
        "--every-eval-ever",
        type=Path,
        metavar="DIR",
        help="folder for a run in the schema of Every Eval Ever",
    )
    parser.add_argument(
        "--latex",
        type=Path,
        metavar="DIR",
        help="folder for scores.tex and a table of each category, for LaTeX with booktabs",
    )
    for exporter in EXPORTERS.all().values():
        exporter.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Exit status 0; 2 for unusable input (raised as InputError)."""
    path = open_run(args.source).path
    exporters = EXPORTERS.all().values()
    chosen = [exporter for exporter in exporters if exporter.asked(args)]
    if not (args.csv or args.parquet or args.every_eval_ever or args.latex or chosen):
        own = ["--csv DIR", "--parquet DIR", "--every-eval-ever DIR", "--latex DIR"]
        usage = ", ".join([*own, *(exporter.usage for exporter in exporters)])
        raise InputError(f"give at least one of {usage}")
    for write, folder in ((export_csv, args.csv), (write_parquet, args.parquet)):
        for file in write(path, folder) if folder else ():
            print(file)
    if args.every_eval_ever:
        from pbcore.exchange.every_eval import export_every_eval

        print(*export_every_eval(path, args.every_eval_ever), sep="\n")
    if args.latex:
        from pbcore.report.latex import write_latex
        from pbcore.report.report import read_report

        before = set(args.latex.glob("*"))
        for file in write_latex(read_report([path]), args.latex):
            print(f"{file} (rewritten)" if file in before else str(file))
    for exporter in chosen:
        for line in exporter.send(path, args):
            print(line)
    return 0
