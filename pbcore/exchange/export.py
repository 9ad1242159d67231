"""The command `pbcore export`: a run as CSV or Parquet, to Weights & Biases or to MLflow."""

from __future__ import annotations

import argparse
from pathlib import Path

from pbcore.errors import InputError
from pbcore.exchange.tables import write_csv, write_parquet
from pbcore.exchange.trackers import to_mlflow, to_wandb
from pbcore.report.text import show
from pbcore.results.rundir import open_run


def run(args: argparse.Namespace) -> int:
    """Exit status 0; 2 for unusable input (raised as InputError)."""
    path = open_run(args.source).path
    if not (args.csv or args.parquet or args.wandb or args.mlflow):
        raise InputError("give at least one of --csv DIR, --parquet DIR, --wandb PROJECT, --mlflow URI")
    for write, folder in ((write_csv, args.csv), (write_parquet, args.parquet)):
        for file in write(path, folder) if folder else ():
            show(str(file))
    if args.wandb:
        show(f"Weights & Biases: {to_wandb(path, args.wandb)}")
    if args.mlflow:
        show(f"MLflow: run {to_mlflow(path, args.mlflow, args.experiment)}")
    return 0


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `export`."""
    parser = subparsers.add_parser(
        "export", help="write a run as CSV or Parquet, or send it to Weights & Biases or MLflow"
    )
    parser.add_argument("source", type=Path, metavar="RUN", help="run directory")
    parser.add_argument("--csv", type=Path, metavar="DIR", help="folder for cells.csv and samples.csv")
    parser.add_argument(
        "--parquet", type=Path, metavar="DIR", help="folder for cells.parquet and samples.parquet (pbcore[parquet])"
    )
    parser.add_argument(
        "--wandb",
        metavar="PROJECT",
        help="project of Weights & Biases (pbcore[wandb]); WANDB_MODE=offline sends nothing",
    )
    parser.add_argument(
        "--mlflow", metavar="URI", help="MLflow's tracking server or store, e.g. http://host:5000 (pbcore[mlflow])"
    )
    parser.add_argument("--experiment", default="pbcore", metavar="NAME", help="MLflow's experiment (default: pbcore)")
    parser.set_defaults(run=run)
