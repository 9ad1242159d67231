"""What `pbcore figures` prints and writes of drawings, and its options for answers."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pbcore.grid.option import positive

if TYPE_CHECKING:
    from pbcore.report.style import CsvRow, Drawing

SAMPLES = 400


def add_answer_options(parser: argparse.ArgumentParser) -> None:
    """Adds how many answers are decoded, and their seed."""
    count = f"answers per point (default {SAMPLES})"
    parser.add_argument("--samples", type=positive, default=SAMPLES, metavar="N", help=count)
    parser.add_argument("--seed", type=int, default=0, help="seed of the answers (default 0)")


def write_drawings(
    drawings: Sequence[Drawing], out: Path, formats: Sequence[str] = ("png",)
) -> int:
    """Prints what drawings say, and writes them with their points; files that were there are
    marked.

    Args:
        drawings: to write.
        out: the folder.
        formats: of the pictures: png, svg or pdf.
    """
    before = set(out.glob("*"))
    for drawing in drawings:
        if drawing.said:
            print(drawing.said)
        for path in drawing.write(out, formats):
            _say_written(path, path in before)
    return 0


def write_rows(rows: Sequence[CsvRow], path: Path) -> None:
    """Writes a table without a picture as CSV, and prints where; a file that was there is
    marked.
    """
    from pbcore.report.style import write_csv  # imports matplotlib

    existed = path.exists()
    _say_written(write_csv(rows, path), existed)


def _say_written(path: Path, existed: bool) -> None:
    print(f"{path} (rewritten)" if existed else str(path))
