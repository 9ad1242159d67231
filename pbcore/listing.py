"""The commands `pbcore tasks` and `pbcore samplers`: what there is to measure."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Iterator
from dataclasses import MISSING, fields
from pathlib import Path

from tabulate import tabulate


def add_parsers(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds both commands."""
    tasks = subparsers.add_parser("tasks", help="the tasks there are")
    tasks.add_argument(
        "--tasks",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="YAML file with tasks of your own (repeatable)",
    )
    tasks.set_defaults(run=run_tasks)
    samplers = subparsers.add_parser("samplers", help="the sampling policies there are, their parameters and modifiers")
    samplers.set_defaults(run=run_samplers)


def run_tasks(args: argparse.Namespace) -> int:
    """Prints a line per task. Raises ValueError or OSError for a tasks file that can't be used."""
    import pbcore.metrics  # noqa: F401  registers the scorers that tasks name
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


def run_samplers(args: argparse.Namespace) -> int:
    """Prints each policy with its parameters and what it does, then the modifiers."""
    from pbcore.decoding.policies.registry import policies

    rows = [(name, " ".join(_parameters(cls)) or "–", _first_sentence(cls)) for name, cls in policies().items()]
    print(tabulate(rows, headers=["policy", "parameters", "rule"], maxcolwidths=[None, 28, 78]))
    print(
        "\nModifiers: +b8 block length 8, +t1.0 temperature, +prefix +dual KV cache, +rcr +remdm1 remasking, +s2_1_1 +linear8 +cosine8"
    )
    print("schedules, +eos_stop +no_early_eos. For example: confidence-k2+b8+prefix, threshold-0.9+t1.0")
    return 0


def _parameters(cls: type) -> Iterator[str]:
    """`k`, or `history=2` where there is a default."""
    for field in fields(cls):
        if field.init:
            yield field.name if field.default is MISSING else f"{field.name}={field.default}"


def _first_sentence(cls: type) -> str:
    text = " ".join((inspect.getdoc(cls) or "").split("\n\n", 1)[0].split())
    return text.split(". ", 1)[0].rstrip(".")
