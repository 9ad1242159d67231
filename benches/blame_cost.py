"""What finding the step that broke an answer costs, in forwards: `python -m benches.blame_cost
[RUN]` prints for each cell of a run with `--blame` its own forwards beside those of the search, and
the most that there can be: ⌈log₂ steps⌉ + 8 continuations a wrong answer, 37 more for one that
tokens revealed together broke, and the reference's own answers.

Without RUN it measures the cells of `tiny` in the default run first.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from math import ceil, log2
from pathlib import Path

from pbcore.base.printable import counted
from pbcore.base.tabular import Table, Value, markdown
from pbcore.blame.search import MOST_ALONE, MOST_CLASHES
from pbcore.results.load import load_stored
from pbcore.results.rundir import StoredCell

TRACED = ("together", "token", "undecided")


def main(argv: Sequence[str] | None = None) -> int:
    """Prints a row per cell; exit status 1 for a cell whose search took more than it may."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", nargs="?", type=Path, help="a run with --blame")
    arguments = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        run = arguments.run
        if run is None:
            run = Path(folder) / "run"
            words = ["-q", "benches", "--model", "tiny", "--blame", "--out", str(run)]
            subprocess.run([sys.executable, "-m", "pytest", *words], check=True)
        cells = [entry for entry in load_stored(run) if entry.cell.blame is not None]
    rows = [_row(entry) for entry in cells]
    heads = ["cell", "answers", "wrong", "traced", "own forwards", "of blame", "at most", "seconds"]
    print(markdown(Table(heads, rows, "lrrrrrrr")))
    own = sum(_own(entry) for entry in cells)
    blame = sum(_blame(entry) for entry in cells)
    print(f"\n{counted(own, 'forward')} of the cells, {counted(blame, 'forward')} for blame")
    return int(any(_blame(entry) > _most(entry) for entry in cells))


def _row(entry: StoredCell) -> list[Value]:
    blame = entry.cell.blame
    assert blame is not None
    verdicts = [sample.blame.verdict for sample in entry.samples if sample.blame is not None]
    wrong = sum(verdict != "gained" for verdict in verdicts)
    traced = sum(verdict in TRACED for verdict in verdicts)
    seconds = f"{blame.seconds:.1f}"
    counts = [len(entry.samples), wrong, traced, _own(entry), blame.forwards, _most(entry)]
    return [entry.cell.id, *counts, seconds]


def _own(entry: StoredCell) -> int:
    """The forwards of a cell's answers."""
    return sum(sample.nfe or 0 for sample in entry.samples)


def _blame(entry: StoredCell) -> int:
    """The forwards of the search."""
    return 0 if entry.cell.blame is None else entry.cell.blame.forwards


def _most(entry: StoredCell) -> int:
    """The most forwards that the search may take: a continuation takes at most one for each token
    of the canvas.
    """
    most = 0
    for sample in entry.samples:
        size = len(sample.steps)
        most += size  # the reference
        if sample.blame is not None and sample.blame.verdict in TRACED:
            most += size * (ceil(log2(max(sample.steps) + 1)) + MOST_ALONE)
        if sample.blame is not None and sample.blame.verdict == "together":
            most += size * MOST_CLASHES
    return most


if __name__ == "__main__":
    sys.exit(main())
