"""The command `pbcore tasks`: lists the tasks."""

from __future__ import annotations

import argparse
from pathlib import Path

from tabulate import tabulate


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `tasks` to the command line."""
    tasks = subparsers.add_parser("tasks")
    own = "YAML file with your own tasks (repeatable)"
    tasks.add_argument("--tasks", type=Path, action="append", default=[], metavar="FILE", help=own)
    tasks.set_defaults(run=run_tasks)


def run_tasks(args: argparse.Namespace) -> int:
    """Prints a line per task. Raises ValueError or OSError for a tasks file that can't be used."""
    from pbcore.tasks import add_tasks_file, all_task_names, task_spec

    for file in args.tasks:
        add_tasks_file(file)
    specs = [task_spec(name) for name in all_task_names()]
    rows = [
        (spec.name, spec.count or "file", spec.shots, _lengths(spec.lengths), spec.max_new_tokens, spec.headline or "–")
        for spec in specs
    ]
    print(tabulate(rows, headers=["task", "samples", "shots", "lengths", "new tokens", "headline score"]))
    return 0


def _lengths(lengths: tuple[int, ...] | None) -> str:
    return ", ".join(map(str, lengths)) if lengths else "–"
