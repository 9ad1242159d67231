"""`pbcore blame`: the step that broke each wrong answer of a run, with the run's own models."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import get_args

from pbcore.base.check import refuse
from pbcore.base.errors import InputError
from pbcore.base.printable import counted
from pbcore.base.text import terminal_width
from pbcore.blame.search import Which
from pbcore.exchange.blame import RunBlame
from pbcore.report.answers import answers_alone
from pbcore.report.blame_section import blame_section
from pbcore.report.files import write_all
from pbcore.results.lock import lock_run
from pbcore.results.questions import Questions
from pbcore.results.rundir import open_run


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options."""
    add = parser.add_argument
    add("source", type=Path, metavar="RUN", help="run directory; the verdicts are written into it")
    about = (
        "which step, where several broke an answer: any (default; by halving), or the first or the"
        " last, which look at all steps"
    )
    add("--step", choices=get_args(Which), default="any", help=about)
    about = "folder with the run's questions, if it is elsewhere now"
    add("--data-dir", type=Path, metavar="DIR", help=about)
    about = "YAML file with tasks of your own"
    add("--tasks", type=Path, action="append", default=[], metavar="FILE", help=about)
    about = "columns of the table (default: the terminal's; 120 without one)"
    add("--width", type=int, help=about)


def run(args: argparse.Namespace) -> int:
    """Exit status 0; 2 for unusable input (raised as InputError)."""
    run = open_run(args.source)
    cells = run.read_cells(refuse)
    if not cells:
        raise InputError(f"{args.source} has no cells/; give a run directory")
    questions = Questions(run.path, run.read_run(), args.data_dir, tuple(args.tasks))
    lock = lock_run(run.path)
    try:
        work = RunBlame(run, cells, questions, args.step)
        done = work.blame()
        if not done:
            raise InputError(f"{args.source} has no cell whose answers are right or wrong")
        write_all(run)
    finally:
        lock.release()
    print(blame_section(map(answers_alone, done)).terminal(args.width or terminal_width(120)))
    forwards = sum(entry.cell.blame.forwards for entry in done if entry.cell.blame is not None)
    print(f"{counted(forwards, 'forward')} for {counted(len(done), 'cell')}")
    for note in work.notes:
        print(note)
    print(run.path)
    return 0
