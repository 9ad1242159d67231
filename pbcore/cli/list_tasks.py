"""`pbcore list tasks`: the tasks."""

from __future__ import annotations

import argparse
from pathlib import Path

from pbcore.base.tabular import Table, terminal


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options."""
    own = "YAML file with your own tasks (repeatable)"
    parser.add_argument("--tasks", type=Path, action="append", default=[], metavar="FILE", help=own)


def run(args: argparse.Namespace) -> int:
    """Prints a line per task. Raises ValueError or OSError for a tasks file that can't be used."""
    from pbcore.tasks import add_tasks_file, all_task_names, task_spec

    for file in args.tasks:
        add_tasks_file(file)
    rows = []
    for spec in map(task_spec, all_task_names()):
        samples = spec.count or "file"
        lengths = ", ".join(map(str, spec.lengths or ())) or "–"
        headline = spec.headline or "–"
        rows.append((spec.name, samples, spec.shots, lengths, spec.max_new_tokens, headline))
    heads = ["task", "samples", "shots", "lengths", "new tokens", "headline score"]
    print(terminal(Table(heads, rows, "lrrlrl")))
    return 0
