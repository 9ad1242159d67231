"""Data of the page's tables and plots: rows per model and sampler, curves per policy family."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from pbcore.analysis.order import family, natural, short, sorted_tasks
from pbcore.analysis.tradeoff import aup, curves, level_lines, mean_interval, pbx
from pbcore.printable import first_line
from pbcore.report.page.svg import Dot, Series
from pbcore.report.parts import elsewhere
from pbcore.report.row_counts import differ, only_where_they_differ

COLUMNS = (
    *("id", "model", "task", "category", "sampler", "status", "error", "absent", "dummy", "served", "prompts", "n"),
    *("headline", "score", "score_low", "score_high", "tokens_per_step", "tokens_per_forward", "nfe", "seconds"),
    *("samples_per_second", "ceiling", "bits_lost", "rows", "tokens_per_row"),
)
LEVELS = (90, 80, 70, 60)
Row = dict[str, Any]
Numbers = dict[tuple[str, str], int]  # (model, policy family) → number of its series on the whole page


@dataclass(frozen=True, slots=True)
class Scope:
    """The cells of one part of a page, without dummies: all, a category or a task."""

    title: str
    cells: pd.DataFrame

    @property
    def tasks(self) -> list[str]:
        return sorted_tasks(self.cells["task"])

    def task(self, name: str) -> Scope:
        return Scope(short_name(name), self.cells[self.cells["task"] == name])


def scopes(cells: pd.DataFrame) -> tuple[Scope, list[Scope]]:
    """The whole run, and its categories in the paper's order. Rows stand beside calls where some cell's differ."""
    real = only_where_they_differ(cells[~cells["dummy"].isin([True])].reindex(columns=list(COLUMNS)))
    names = dict.fromkeys(task.split("/", 1)[0] for task in sorted_tasks(real["task"]))
    return Scope("all tasks", real), [Scope(name, real[real["category"] == name]) for name in names]


def short_name(task: str) -> str:
    """A task's name without its category."""
    return task.split("/", 1)[-1]


def by_sampler(cells: pd.DataFrame) -> list[tuple[str, str, pd.DataFrame]]:
    """(model, sampler, its cells), models as they come, samplers in natural order."""
    models = list(dict.fromkeys(cells["model"]))
    groups = [(str(names[0]), str(names[1]), group) for names, group in cells.groupby(["model", "sampler"], sort=False)]
    return sorted(groups, key=lambda one: (models.index(one[0]), natural(one[1])))


def overview(scope: Scope) -> list[Row]:
    """A row per model and sampler: means over the model's tasks, in % and tokens, and what is missing and why. A mean
    is None unless every task of the model has a value.
    """
    wanted = {model: sorted_tasks(group["task"]) for model, group in scope.cells.groupby("model", sort=False)}
    rows = []
    for model, sampler, group in by_sampler(scope.cells):
        ran = group[group["status"] == "ok"]
        tasks = wanted[model]
        scored = ran[ran["score"].notna()]
        rows.append(
            {
                "model": model,
                "sampler": sampler,
                "tasks": f"{len(scored)} of {len(tasks)}",
                **_mean(scored, len(tasks)),
                "tokens_per_step": _average(ran["tokens_per_step"], len(tasks)),
                "tokens_per_forward": _average(ran["tokens_per_forward"], len(tasks)),
                "tokens_per_row": _average(ran["tokens_per_row"], len(tasks)),
                "nfe": _ratio((ran["nfe"] * ran["n"]).sum(min_count=len(ran)), ran["n"].sum()),
                "rows": _ratio((ran["rows"] * ran["n"]).sum(min_count=len(ran)), ran["n"].sum()),
                "samples_per_second": _ratio(ran["n"].sum(), ran["seconds"].sum(min_count=len(ran))),
                "ceiling": _average(100 * ran["ceiling"].astype("float64"), len(tasks)),
                "bits_lost": _average(ran["bits_lost"].astype("float64"), len(tasks)),
                "missing": missing(group, tasks),
            }
        )
    return rows


def _mean(scored: pd.DataFrame, count: int) -> Row:
    if not count or len(scored) != count:
        return {"score": None, "low": None, "high": None}
    columns = scored.reindex(columns=["score", "score_low", "score_high"]).astype("float64")
    names = ("score", "low", "high")
    values = mean_interval([(float(a), float(b), float(c)) for a, b, c in columns.to_numpy()])
    return {name: number(100 * value) for name, value in zip(names, values, strict=True)}


def missing(group: pd.DataFrame, tasks: Iterable[str]) -> str:
    """Which of the tasks have no score in these cells of a sampler, and why; empty if all have one."""
    reasons: dict[str, list[str]] = {}
    there = set()
    for record in group.to_dict("records"):
        there.add(record["task"])
        if record["status"] != "ok":
            reasons.setdefault(
                f"could not be run: {first_line(str(record['error'] or 'no cause recorded'))}", []
            ).append(short(record["task"]))
        elif pd.isna(record["score"]):
            absent = record["absent"] if isinstance(record["absent"], dict) else {}
            why = absent.get(record["headline"], "no reason recorded")
            reasons.setdefault(f"{record['headline']} not measured: {first_line(str(why))}", []).append(
                short(record["task"])
            )
    unrun = [short(task) for task in tasks if task not in there]
    if unrun:
        reasons["not run"] = unrun
    return "; ".join(f"{', '.join(names)} {why}" for why, names in reasons.items())


def policies(scope: Scope) -> list[Row]:
    """A row per model and policy family: PBx in tokens per step and AUP in tokens per forward, over the means of the
    scope's tasks. AUP's reference is the best score of any method on the same tasks.
    """
    steps, forwards = curves(scope.cells), curves(scope.cells, "tokens_per_forward")
    tasks = {model: frozenset(group["task"]) for model, group in scope.cells.groupby("model", sort=False)}
    best: Counter[frozenset[str]] = Counter()
    for model, score in zip(forwards["model"], forwards["score"], strict=True):
        best[tasks[model]] = max(best[tasks[model]], score)
    rows = []
    for names, group in steps.groupby(["model", "family"], sort=False):
        model, kind = str(names[0]), str(names[1])
        points = list(zip(group["tokens_per_step"], group["score"], strict=True))
        own = forwards[(forwards["model"] == model) & (forwards["family"] == kind)]
        speeds = list(zip(own["tokens_per_forward"], own["score"], strict=True))
        levels = {f"PB{level}": pbx(points, level) for level in LEVELS}
        area = aup(speeds, best[tasks[model]]) if speeds else None
        rows.append({"model": model, "family": kind, "points": len(points), **levels, "AUP": area})
    models = list(dict.fromkeys(scope.cells["model"]))
    return sorted(rows, key=lambda row: (models.index(row["model"]), natural(row["family"])))


def numbers(cells: pd.DataFrame) -> Numbers:
    """A number for every curve, so that it looks the same in all plots."""
    models = list(dict.fromkeys(cells["model"]))
    names = {
        (str(model), family(str(sampler))) for model, sampler in zip(cells["model"], cells["sampler"], strict=True)
    }
    ordered = sorted(names, key=lambda name: (models.index(name[0]), natural(name[1])))
    return {name: i for i, name in enumerate(ordered)}


def series(scope: Scope, known: Numbers) -> list[Series]:
    """The curves of a scope's means, and the levels of models that report no tokens per step."""
    found = []
    one, by_row = len(scope.tasks) == 1, _by_row(scope.cells)
    ids = {(m, s): i for m, s, i in scope.cells[["model", "sampler", "id"]].itertuples(index=False)} if one else {}
    for names, group in curves(scope.cells).groupby(["model", "family"], sort=False):
        model, kind = str(names[0]), str(names[1])
        dots = tuple(
            Dot(
                row["tokens_per_step"],
                row["score"],
                number(row["low"]),
                number(row["high"]),
                f"{model} {row['sampler']}: {row['score']:.1f} % at {row['tokens_per_step']:.2f} tokens per step"
                + by_row.get((model, row["sampler"]), ""),
                ids.get((model, row["sampler"]), ""),
            )
            for row in group.to_dict("records")
        )
        found.append(Series(f"{model} · {kind}", model, known[model, kind], dots))
    scored = scope.cells[(scope.cells["status"] == "ok") & scope.cells["score"].notna()]
    silent = scored[elsewhere(scored) & scored["tokens_per_step"].isna()]
    for name, (score, low, high) in level_lines(silent).items():
        model, _, sampler = name.rpartition(" · ")
        shape = known.get((model, family(sampler)), 0)
        found.append(Series(f"{name} (any speed)", model, shape, level=(score, number(low), number(high))))
    return sorted(found, key=lambda one: one.number)


def _by_row(cells: pd.DataFrame) -> dict[tuple[str, str], str]:
    """(model, sampler) → its mean tokens per row in words, of those whose rows and calls differ."""
    return {
        (model, sampler): f", {group['tokens_per_row'].mean():.2f} per row"
        for model, sampler, group in by_sampler(cells)
        if differ(group).any()
    }


def number(value: Any) -> float | None:
    """A number of a table; None for what was not measured."""
    return None if value is None or pd.isna(value) else float(value)


def _average(values: pd.Series, count: int) -> float | None:
    return float(values.mean()) if count and len(values) == count and bool(values.notna().all()) else None


def _ratio(above: float, below: float) -> float | None:
    return float(above / below) if pd.notna(above) and pd.notna(below) and below > 0 else None
