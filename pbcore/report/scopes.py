"""The parts of a run (all tasks, a category, a task) with their means per model and sampler, and
figures per policy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import nan
from typing import Any

import pandas as pd

from pbcore.analysis.order import narrow_name, natural, sorted_tasks
from pbcore.analysis.tradeoff import aup, curves, mean_interval, pbx
from pbcore.printable import first_line
from pbcore.report.cells import real, rows_differ
from pbcore.tasks.naming import category

NUMBERS = (
    "n",
    "score",
    "score_low",
    "score_high",
    "tokens_per_step",
    "tokens_per_forward",
    "tokens_per_row",
    "nfe",
    "rows",
    "tokens_forwarded",
    "seconds",
    "samples_per_second",
    "ceiling",
    "bits_lost",
)
TEXTS = (
    "id",
    "model",
    "task",
    "category",
    "sampler",
    "status",
    "error",
    "absent",
    "dummy",
    "served",
    "headline",
    "prompts",
)
SHARES = {"score": "score", "low": "score_low", "high": "score_high", "ceiling": "ceiling"}
INTERVAL = ("score", "low", "high")
LEVELS = (90, 80, 70, 60)
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Scope:
    """The cells of one part of a run, without dummies: as a frame, and as rows with scores in % and
    None for what was not measured.
    """

    title: str
    cells: pd.DataFrame
    records: Sequence[Row]

    @property
    def tasks(self) -> list[str]:
        return sorted_tasks(self.cells["task"])

    def part(self, title: str, column: str, value: str) -> Scope:
        """Those cells that have this value."""
        rows = [record for record in self.records if record[column] == value]
        return Scope(
            title, self.cells[self.cells[column].isin([value])], rows
        )  # == ignores a NUL at the end

    def task(self, name: str) -> Scope:
        return self.part(name.split("/", 1)[-1], "task", name)


def scopes(cells: pd.DataFrame) -> tuple[Scope, list[Scope]]:
    """The whole run, and its categories in the paper's order. Rows stand beside calls where some
    cell's differ.
    """
    table = real(cells).reindex(columns=[*TEXTS, *NUMBERS])
    if not rows_differ(table):
        table = table.assign(rows=float("nan"), tokens_per_row=float("nan"))
    whole = Scope("all tasks", table, [_row(record) for record in table.to_dict("records")])
    return whole, [
        whole.part(name, "category", name) for name in dict.fromkeys(map(category, whole.tasks))
    ]


def _row(record: dict[Any, Any]) -> Row:
    row = record | {name: number(record[name]) for name in NUMBERS}
    row |= {name: None if row[key] is None else 100 * row[key] for name, key in SHARES.items()}
    cause = (
        first_line(str(record["error"] or "no cause recorded")) if record["status"] != "ok" else ""
    )
    headline = "" if pd.isna(record["headline"]) else record["headline"]
    return (
        row | {key: str(record[key]) for key in TEXTS[:6]} | {"error": cause, "headline": headline}
    )


def by_sampler(records: Iterable[Row]) -> list[tuple[str, str, list[Row]]]:
    """(model, sampler, its cells), models as they come, samplers in natural order."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for record in records:
        groups.setdefault((record["model"], record["sampler"]), []).append(record)
    models = list(dict.fromkeys(model for model, _ in groups))
    ordered = sorted(groups, key=lambda one: (models.index(one[0]), natural(one[1])))
    return [(model, sampler, groups[model, sampler]) for model, sampler in ordered]


def curve_lines(table: pd.DataFrame) -> list[tuple[str, str, pd.DataFrame]]:
    """(model, policy family, its points) of each curve in a table of `analysis.curves`."""
    groups = table.groupby(["model", "family"], sort=False)
    return [(str(model), str(kind), points) for (model, kind), points in groups]


def by_task(group: Iterable[Row], tasks: Iterable[str]) -> dict[str, Row]:
    """A sampler's row of every task, without figures where it failed or was not run (status
    `absent`).
    """
    blank = dict.fromkeys(("score", "low", "high", "tokens_per_step", "tokens_per_row"))
    known = {row["task"]: row if row["status"] == "ok" else row | blank for row in group}
    return {task: known.get(task, {"status": "absent"} | blank) for task in tasks}


def overview(scope: Scope, named: Callable[[str], str] = narrow_name) -> list[Row]:
    """A row per model and sampler: means over the model's tasks, in % and tokens, and what is
    missing and why, with tasks `named` so. A mean is None unless every task of the model has a
    value.
    """
    wanted = scope.cells.groupby("model")["task"].agg(set).to_dict()
    rows = []
    for model, sampler, group in by_sampler(scope.records):
        ran = [record for record in group if record["status"] == "ok"]
        tasks = sorted_tasks(wanted[model])
        scored = [record for record in ran if record["score"] is not None]
        row: Row = {"model": model, "sampler": sampler, "tasks": f"{len(scored)} of {len(tasks)}"}
        row |= dict.fromkeys(INTERVAL)
        if len(scored) == len(tasks):
            known: list[Any] = [
                tuple(nan if one[name] is None else one[name] for name in INTERVAL)
                for one in scored
            ]
            row |= zip(INTERVAL, map(number, mean_interval(known)), strict=True)
        for name in (
            "tokens_per_step",
            "tokens_per_forward",
            "tokens_per_row",
            "ceiling",
            "bits_lost",
        ):
            row[name] = average([record[name] for record in ran], len(tasks))
        samples = _sum(record["n"] for record in ran)
        for name in ("nfe", "rows", "tokens_forwarded"):
            counts = (
                None if None in (one[name], one["n"]) else one[name] * one["n"] for one in ran
            )
            row[name] = _ratio(_sum(counts), samples)
        row["samples_per_second"] = _ratio(samples, _sum(record["seconds"] for record in ran))
        rows.append(row | {"missing": missing(group, tasks, named)})
    return rows


def missing(
    group: Sequence[Row], tasks: Iterable[str], named: Callable[[str], str] = narrow_name
) -> str:
    """Which of the tasks, `named` so, have no score in these cells of a sampler, and why; empty if
    all have one.
    """
    reasons: dict[str, list[str]] = {}
    for record in group:
        if record["status"] != "ok":
            reasons.setdefault(f"could not be run: {record['error']}", []).append(
                named(record["task"])
            )
        elif record["score"] is None:
            absent = record["absent"] if isinstance(record["absent"], dict) else {}
            told = first_line(str(absent.get(record["headline"], "no reason recorded")))
            reasons.setdefault(f"{record['headline']} not measured: {told}", []).append(
                named(record["task"])
            )
    unrun = [named(task) for task in tasks if task not in {record["task"] for record in group}]
    if unrun:
        reasons["not run"] = unrun
    return "; ".join(f"{', '.join(names)} {why}" for why, names in reasons.items())


def policy_rows(scope: Scope) -> list[Row]:
    """A row per model and policy family: PBx in tokens per step and AUP in tokens per forward, over
    the means of the scope's tasks. AUP's reference is the best score of any method on the same
    tasks.
    """
    steps = curves(scope.cells)
    forwards = curves(scope.cells, "tokens_per_forward")
    tasks = {
        model: frozenset(group["task"]) for model, group in scope.cells.groupby("model", sort=False)
    }
    best = forwards["score"].groupby(forwards["model"].map(tasks)).max().to_dict()
    rows = []
    for model, kind, group in curve_lines(steps):
        points = list(zip(group["tokens_per_step"], group["score"], strict=True))
        own = forwards[(forwards["model"] == model) & (forwards["family"] == kind)]
        speeds = list(zip(own["tokens_per_forward"], own["score"], strict=True))
        levels = {f"PB{level}": pbx(points, level) for level in LEVELS}
        area = (
            aup(speeds, best[tasks[model]]) if len(speeds) > 1 else None
        )  # a single point has no area
        rows.append({"model": model, "family": kind, "points": len(points), **levels, "AUP": area})
    models = list(dict.fromkeys(scope.cells["model"]))
    return sorted(rows, key=lambda row: (models.index(row["model"]), natural(row["family"])))


def number(value: Any) -> float | None:
    """A number of a table; None for what was not measured."""
    return None if value is None or pd.isna(value) else float(value)


def average(values: Sequence[float | None], count: int) -> float | None:
    """The mean of `count` values; None where one is missing."""
    return _ratio(_sum(values), count) if len(values) == count else None


def _sum(values: Iterable[float | None]) -> float | None:
    """None for no values, and where one was not measured."""
    known = list(values)
    return None if not known or None in known else sum(filter(None, known))


def _ratio(above: float | None, below: float | None) -> float | None:
    return None if above is None or not below else above / below
