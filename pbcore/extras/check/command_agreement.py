"""`pbcore check agreement FILE`: compares this package's text scores with published ones."""

from __future__ import annotations

import argparse
from pathlib import Path

from pbcore.extras.check.agreement import agreement_rows, render


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options."""
    parser.add_argument(
        "path",
        type=Path,
        metavar="FILE",
        help="answers with their published scores, one JSON object per line",
    )


def run(args: argparse.Namespace) -> int:
    """Exit status 0 if every compared value is equal, else 1."""
    rows = agreement_rows(args.path)
    print(render(rows))
    return int(any(row.differing for row in rows))
