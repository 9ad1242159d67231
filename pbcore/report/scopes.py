"""The parts of a run (all tasks, a category, a task) with their means per model and sampler, and
figures per policy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan, nan
from typing import Any, TypedDict, cast

from pbcore.analysis.order import narrow_name, natural, sorted_tasks
from pbcore.analysis.tradeoff import aup, by_method, mean_interval, mean_points, pbx
from pbcore.base.grouping import grouped
from pbcore.base.printable import first_line
from pbcore.report.cells import rows_differ
from pbcore.report.rows import CellRow, TaskRow, undummied
from pbcore.results.measures import MEASURES, shown_in
from pbcore.results.table_row import Row
from pbcore.tasks.naming import category

# Means over tasks, each of which weighs the same, as in the verdict.
MEANS = tuple(measure.key for measure in MEASURES if measure.kind != "time")
LEVELS = (90, 80, 70, 60)


class MeansRow(TypedDict):
    """A sampler's means over the tasks of its model, with those of `measures` under their keys: NaN
    unless every task has a value. `tasks` says of how many there is a score, `missing` why the
    others have none; `cells` has its row of every task of the scope.
    """

    model: str
    sampler: str
    tasks: str
    score: float
    low: float
    high: float
    tokens_per_step: float
    tokens_per_forward: float
    missing: str
    cells: Mapping[str, TaskRow]


@dataclass(frozen=True, slots=True)
class Scope:
    """The cells of one part of a run, without dummies."""

    title: str
    records: Sequence[CellRow]

    @property
    def tasks(self) -> list[str]:
        return sorted_tasks(row["task"] for row in self.records)

    @property
    def models(self) -> list[str]:
        """Its models, in their order."""
        return list(dict.fromkeys(row["model"] for row in self.records))

    def part(self, title: str, column: str, value: str) -> Scope:
        """Some of the cells.

        Args:
            title: that of the part.
            column: a name of the rows' entries.
            value: which value of it they have.
        """
        rows: Iterable[Row] = self.records
        chosen = [number for number, row in enumerate(rows) if row[column] == value]
        return Scope(title, [self.records[number] for number in chosen])

    def task(self, name: str) -> Scope:
        return self.part(name.split("/", 1)[-1], "task", name)


def scopes(rows: Iterable[CellRow]) -> tuple[Scope, list[Scope]]:
    """The whole run, and its categories in the paper's order. Rows stand beside calls where some
    cell's differ.
    """
    records = undummied(rows)
    if not rows_differ(records):
        uncounted = {"rows": nan, "tokens_per_row": nan}
        records = [cast(CellRow, {**row, **uncounted}) for row in records]
    whole = Scope("all tasks", records)
    names = dict.fromkeys(category(task) for task in whole.tasks)
    return whole, [whole.part(name, "category", name) for name in names]


def by_sampler(records: Iterable[CellRow]) -> list[tuple[str, str, list[CellRow]]]:
    """(model, sampler, its cells), models as they come, samplers in natural order."""
    groups = grouped(records, lambda row: (row["model"], row["sampler"]))
    models = list(dict.fromkeys(model for model, _ in groups))
    ordered = sorted(groups, key=lambda names: (models.index(names[0]), natural(names[1])))
    return [(model, sampler, groups[model, sampler]) for model, sampler in ordered]


def by_task(group: Iterable[CellRow], tasks: Iterable[str]) -> dict[str, TaskRow]:
    """A sampler's row of every task, without figures where it failed or was not run (status
    `absent`).
    """
    rows: dict[str, TaskRow] = {task: _without_figures("", "absent", "") for task in tasks}
    for row in group:
        if row["task"] in rows:
            ran = row["status"] == "ok"
            blank = _without_figures(row["id"], row["status"], row["error"])
            rows[row["task"]] = row if ran else blank
    return rows


def _without_figures(cell_id: str, status: str, error: str) -> TaskRow:
    figures = ("score", "low", "high", *(measure.key for measure in shown_in("scores")))
    row = {"id": cell_id, "status": status, "error": error, **dict.fromkeys(figures, nan)}
    return cast(TaskRow, row)


def overview(scope: Scope, named: Callable[[str], str] = narrow_name) -> list[MeansRow]:
    """A row per model and sampler, with what is missing and why, with tasks `named` so."""
    wanted = {model: scope.part("", "model", model).tasks for model in scope.models}
    tasks = scope.tasks
    rows = []
    for model, sampler, group in by_sampler(scope.records):
        means = _means(group, wanted[model])
        row = {
            "model": model,
            "sampler": sampler,
            **means,
            "missing": missing(group, wanted[model], named),
            "cells": by_task(group, tasks),
        }
        rows.append(cast(MeansRow, row))
    return rows


def _means(group: Sequence[CellRow], tasks: Sequence[str]) -> dict[str, Any]:
    """The means of a sampler's cells over its model's tasks."""
    ran: Sequence[Row] = [record for record in group if record["status"] == "ok"]
    scored = [(row["score"], row["low"], row["high"]) for row in ran if not isnan(row["score"])]
    score, low, high = (nan, nan, nan)
    if len(scored) == len(tasks):
        score, low, high = mean_interval(scored)
    seconds = sum(row["seconds"] for row in ran)
    return {
        "tasks": f"{len(scored)} of {len(tasks)}",
        "score": score,
        "low": low,
        "high": high,
        **{name: average([row[name] for row in ran], len(tasks)) for name in MEANS},
        "samples_per_second": sum(row["n"] for row in ran) / seconds if seconds else nan,
    }


def missing(
    group: Sequence[CellRow], tasks: Iterable[str], named: Callable[[str], str] = narrow_name
) -> str:
    """Which tasks of a sampler have no score, and why.

    Args:
        group: its cells.
        tasks: full names of all tasks that it should have.
        named: what a task is called in the text.

    Returns:
        A text on one line; empty if all tasks have a score.
    """
    reasons: dict[str, list[str]] = {}
    for record in group:
        task = named(record["task"])
        if record["status"] != "ok":
            reasons.setdefault(f"could not be run: {record['error']}", []).append(task)
        elif isnan(record["score"]):
            absent = record["absent"] if isinstance(record["absent"], dict) else {}
            why = first_line(str(absent.get(record["headline"], "no reason recorded")))
            reasons.setdefault(f"{record['headline']} not measured: {why}", []).append(task)
    run = {record["task"] for record in group}
    unrun = [named(task) for task in tasks if task not in run]
    if unrun:
        reasons["not run"] = unrun
    return "; ".join(f"{', '.join(names)} {why}" for why, names in reasons.items())


def policy_rows(scope: Scope) -> list[Row]:
    """A row per model and method: PBx in tokens per step and AUP in tokens per forward, over
    the means of the scope's tasks. AUP's reference is the best score of any method on the same
    tasks.
    """
    tasks = {model: frozenset(scope.part("", "model", model).tasks) for model in scope.models}
    forwards = mean_points(scope.records, "tokens_per_forward")
    best: dict[frozenset[str], float] = {}
    for point in forwards:
        known = best.get(tasks[point.model], 0.0)
        best[tasks[point.model]] = max(known, point.score)
    of_forwards = by_method(forwards)
    rows: list[Row] = []
    for (model, kind), line in by_method(mean_points(scope.records, "tokens_per_step")).items():
        points = [(point.rate, point.score) for point in line]
        speeds = [(point.rate, point.score) for point in of_forwards.get((model, kind), [])]
        row: dict[str, Any] = {"model": model, "family": kind, "points": len(points)}
        for level in LEVELS:
            row[f"PB{level}"] = pbx(points, level)
        # a single point has no area
        row["AUP"] = aup(speeds, best[tasks[model]]) if len(speeds) > 1 else None
        rows.append(row)
    models = scope.models
    return sorted(rows, key=lambda row: (models.index(row["model"]), natural(row["family"])))


def average(values: Sequence[float], count: int) -> float:
    """The mean of `count` values; NaN where one is missing."""
    return sum(values) / count if len(values) == count else nan
