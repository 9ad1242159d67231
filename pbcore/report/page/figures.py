"""Data of the page's tables and plots: rows per model and sampler, curves per policy family."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from pbcore.analysis.order import family, natural, short, sorted_tasks
from pbcore.analysis.tradeoff import aup, beside_ceilings, curves, leading, level_lines, mean_interval, pbx
from pbcore.printable import first_line, fixed
from pbcore.report.looks import Look, looks
from pbcore.report.page.svg import Dot, Series
from pbcore.report.parts import elsewhere
from pbcore.report.row_counts import only_where_they_differ

COLUMNS = (
    *("id", "model", "task", "category", "sampler", "status", "error", "absent", "dummy", "served", "prompts", "n"),
    *("headline", "score", "score_low", "score_high", "tokens_per_step", "tokens_per_forward", "nfe", "seconds"),
    *("samples_per_second", "ceiling", "bits_lost", "rows", "tokens_per_row"),
)
LEVELS = (90, 80, 70, 60)
SHOWN = 12  # curves of a plot that are seen without asking
Row = dict[str, Any]
Looks = dict[tuple[str, str], Look]  # (model, policy family) → its look on the whole page


@dataclass(frozen=True, slots=True)
class Scope:
    """The cells of one part of a page, without dummies: all, a category or a task; as a frame and as its rows."""

    title: str
    cells: pd.DataFrame
    records: Sequence[Row]

    @property
    def tasks(self) -> list[str]:
        return sorted_tasks(self.cells["task"])

    def part(self, title: str, column: str, value: str) -> Scope:
        """Those cells that have this value."""
        rows = [record for record in self.records if record[column] == value]
        return Scope(title, self.cells[self.cells[column] == value], rows)

    def task(self, name: str) -> Scope:
        return self.part(short_name(name), "task", name)


def scopes(cells: pd.DataFrame) -> tuple[Scope, list[Scope]]:
    """The whole run, and its categories in the paper's order. Rows stand beside calls where some cell's differ."""
    real = only_where_they_differ(cells[~cells["dummy"].isin([True])].reindex(columns=list(COLUMNS)))
    names = dict.fromkeys(task.split("/", 1)[0] for task in sorted_tasks(real["task"]))
    records = [{str(key): value for key, value in record.items()} for record in real.to_dict("records")]
    whole = Scope("all tasks", real, records)
    return whole, [whole.part(name, "category", name) for name in names]


def short_name(task: str) -> str:
    """A task's name without its category."""
    return task.split("/", 1)[-1]


def by_sampler(records: Iterable[Row]) -> list[tuple[str, str, list[Row]]]:
    """(model, sampler, its cells), models as they come, samplers in natural order."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for record in records:
        groups.setdefault((str(record["model"]), str(record["sampler"])), []).append(record)
    models = list(dict.fromkeys(model for model, _ in groups))
    ordered = sorted(groups, key=lambda one: (models.index(one[0]), natural(one[1])))
    return [(model, sampler, groups[model, sampler]) for model, sampler in ordered]


def overview(scope: Scope) -> list[Row]:
    """A row per model and sampler: means over the model's tasks, in % and tokens, and what is missing and why. A mean
    is None unless every task of the model has a value.
    """
    wanted: dict[str, list[str]] = {}
    for model in dict.fromkeys(record["model"] for record in scope.records):
        wanted[model] = sorted_tasks(record["task"] for record in scope.records if record["model"] == model)
    rows = []
    for model, sampler, group in by_sampler(scope.records):
        ran = [record for record in group if record["status"] == "ok"]
        tasks = wanted[model]
        scored = [record for record in ran if number(record["score"]) is not None]
        means = ("tokens_per_step", "tokens_per_forward", "tokens_per_row", "ceiling", "bits_lost")
        row = {name: _average([record[name] for record in ran], len(tasks)) for name in means}
        row["ceiling"] = None if row["ceiling"] is None else 100 * row["ceiling"]
        row |= {name: _ratio(_sum(record[name] * record["n"] for record in ran), _sum(record["n"] for record in ran))
                for name in ("nfe", "rows")}  # fmt: skip
        row["samples_per_second"] = _ratio(_sum(one["n"] for one in ran), _sum(one["seconds"] for one in ran))
        counts = {"model": model, "sampler": sampler, "tasks": f"{len(scored)} of {len(tasks)}"}
        rows.append(counts | _mean(scored, len(tasks)) | row | {"missing": missing(group, tasks)})
    return rows


def _mean(scored: Sequence[Row], count: int) -> Row:
    if not count or len(scored) != count:
        return {"score": None, "low": None, "high": None}
    names = ("score", "score_low", "score_high")
    values = mean_interval([tuple(float(record[name]) for name in names) for record in scored])  # type: ignore[misc]
    return {name: number(100 * value) for name, value in zip(("score", "low", "high"), values, strict=True)}


def missing(group: Sequence[Row], tasks: Iterable[str]) -> str:
    """Which of the tasks have no score in these cells of a sampler, and why; empty if all have one."""
    reasons: dict[str, list[str]] = {}
    for record in group:
        if record["status"] != "ok":
            why = f"could not be run: {first_line(str(record['error'] or 'no cause recorded'))}"
            reasons.setdefault(why, []).append(short(record["task"]))
        elif number(record["score"]) is None:
            absent = record["absent"] if isinstance(record["absent"], dict) else {}
            told = first_line(str(absent.get(record["headline"], "no reason recorded")))
            reasons.setdefault(f"{record['headline']} not measured: {told}", []).append(short(record["task"]))
    unrun = [short(task) for task in tasks if task not in {record["task"] for record in group}]
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
        area = aup(speeds, best[tasks[model]]) if len(speeds) > 1 else None  # a single point has no area
        rows.append({"model": model, "family": kind, "points": len(points), **levels, "AUP": area})
    models = list(dict.fromkeys(scope.cells["model"]))
    return sorted(rows, key=lambda row: (models.index(row["model"]), natural(row["family"])))


def series(scope: Scope, known: Looks) -> list[Series]:
    """The curves of a scope's means with their ceilings, the `SHOWN` leading ones first to be seen, and the levels of
    models that report no tokens per step."""
    found = []
    one, by_row = len(scope.tasks) == 1, _by_row(scope.records)
    ids = {(record["model"], record["sampler"]): str(record["id"]) for record in scope.records} if one else {}
    table = beside_ceilings(curves(scope.cells), scope.cells)
    leaders = leading(table, SHOWN) if len(table) else set()
    lines: dict[tuple[str, str], list[Row]] = {}
    for point in table.to_dict("records"):
        lines.setdefault((point["model"], point["family"]), []).append(
            {str(key): value for key, value in point.items()}
        )
    for (model, kind), group in lines.items():
        dots = []
        for row in group:
            rate, low, high, ceiling = (number(row[key]) for key in ("tokens_per_step", "low", "high", "ceiling"))
            interval = "" if low is None or high is None else f" [{fixed(low, 0)}–{fixed(high, 0)}]"
            told = (
                f"{model} {row['sampler']}: {fixed(row['score'])} %{interval} at {fixed(rate or 0, 2)} tokens per step"
            )
            told += by_row.get((model, row["sampler"]), "")
            told += "" if ceiling is None else f", ceiling {fixed(ceiling)} %"
            cell = ids.get((model, row["sampler"]), "")
            dots.append(Dot(rate or 0, row["score"], low, high, told, cell, row["sampler"], ceiling))
        name = f"{model} · {kind}"
        found.append(Series(name, model, known[model, kind], tuple(dots), leads=(model, kind) in leaders))
    scored = scope.cells[(scope.cells["status"] == "ok") & scope.cells["score"].notna()]
    silent = scored[elsewhere(scored) & scored["tokens_per_step"].isna()]
    for name, (score, low, high) in level_lines(silent).items():
        model, _, sampler = name.rpartition(" · ")
        look = known.get((model, family(sampler)), Look(6, 6, 1))
        found.append(Series(f"{name} (any speed)", model, look, level=(score, number(low), number(high))))
    return found


def look_of_all(cells: pd.DataFrame) -> Looks:
    """A look for every curve of a run, the same in all plots."""
    pairs = zip(cells["model"], cells["sampler"], strict=True)
    return looks((str(model), family(str(sampler))) for model, sampler in pairs)


def _by_row(records: Iterable[Row]) -> dict[tuple[str, str], str]:
    """(model, sampler) → its mean tokens per row in words, of those whose rows and calls differ."""
    return {
        (model, sampler): f", {fixed(mean, 2)} per row"
        for model, sampler, group in by_sampler(records)
        if any(None not in (pair := (number(one["rows"]), number(one["nfe"]))) and pair[0] != pair[1] for one in group)
        and (mean := _average([one["tokens_per_row"] for one in group], len(group))) is not None
    }


def number(value: Any) -> float | None:
    """A number of a table; None for what was not measured."""
    return None if value is None or pd.isna(value) else float(value)


def _average(values: Sequence[Any], count: int) -> float | None:
    known = [number(value) for value in values]
    return None if not count or len(known) != count or None in known else sum(filter(None, known)) / count


def _sum(values: Iterable[Any]) -> float | None:
    """None for no values, and where one was not measured."""
    known = [number(value) for value in values]
    return None if not known or None in known else sum(filter(None, known))


def _ratio(above: float | None, below: float | None) -> float | None:
    return None if above is None or not below else above / below
