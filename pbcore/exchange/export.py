"""The command `pbcore export`: a run as CSV or Parquet, or to a tracker of an integration."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Protocol

from pbcore.errors import InputError
from pbcore.exchange.tables import write_csv, write_parquet
from pbcore.extensions import provided
from pbcore.results.rundir import open_run


class Exporter(Protocol):
    """Where an integration sends a run (`Integration.exporter`); `usage` are its options as an error names them."""

    usage: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Adds its options."""

    def asked(self, args: argparse.Namespace) -> bool:
        """Whether one of them is given."""

    def send(self, path: Path, args: argparse.Namespace) -> list[str]:
        """Sends the run where it is asked to; returns what to print. Raises InputError without the package."""


def exporters() -> tuple[Exporter, ...]:
    """Those of the integrations that are here."""
    return provided("exporter")


def run(args: argparse.Namespace) -> int:
    """Exit status 0; 2 for unusable input (raised as InputError)."""
    path = open_run(args.source).path
    asked = [one for one in exporters() if one.asked(args)]
    if not (args.csv or args.parquet or asked):
        usage = ", ".join(["--csv DIR", "--parquet DIR", *(one.usage for one in exporters())])
        raise InputError(f"give at least one of {usage}")
    for write, folder in ((write_csv, args.csv), (write_parquet, args.parquet)):
        for file in write(path, folder) if folder else ():
            print(file)
    for exporter in asked:
        for line in exporter.send(path, args):
            print(line)
    return 0


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `export`."""
    parser = subparsers.add_parser("export", help="write a run as CSV or Parquet, or send it to a tracker")
    parser.add_argument("source", type=Path, metavar="RUN", help="run directory")
    parser.add_argument("--csv", type=Path, metavar="DIR", help="folder for cells.csv and samples.csv")
    parser.add_argument(
        "--parquet", type=Path, metavar="DIR", help="folder for cells.parquet and samples.parquet (pbcore[parquet])"
    )
    for exporter in exporters():
        exporter.add_arguments(parser)
    parser.set_defaults(run=run)
