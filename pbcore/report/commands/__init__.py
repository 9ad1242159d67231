"""The commands `pbcore report`, `pbcore vary`, `pbcore merge` and `pbcore compare`, a file each."""

from __future__ import annotations

import argparse

from pbcore.report.commands import compare, merge, report, vary
from pbcore.report.commands.report import side_by_side

__all__ = ["add_parsers", "side_by_side"]


def add_parsers(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the commands; each sets `run` to a function of the parsed arguments that returns the exit status."""
    for command in (report, vary, merge, compare):
        command.add_parser(subparsers)
