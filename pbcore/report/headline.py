"""The first lines of a report: what was measured, and what was found, in sentences that the intervals carry."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pandas as pd

from pbcore.analysis.order import sorted_tasks
from pbcore.analysis.tradeoff import curves
from pbcore.printable import counted, fixed
from pbcore.report.cells import interval, real, samples_a_cell
from pbcore.text import listed, name

MODELS = 3  # that have a sentence of their own


def measured(cells: pd.DataFrame, facts: Mapping[str, Any]) -> str:
    """Models, tasks, samplers, samples, device and date in words. `cells`: a frame of `results.load`; `facts`: those of
    run.json."""
    ran = real(cells)
    if ran.empty:
        return f"{counted(len(cells), 'cell')} of models with random weights" if len(cells) else "nothing"
    tasks = Counter(task.split("/", 1)[0] for task in sorted_tasks(ran["task"]))
    samples = samples_a_cell(ran)
    parts = [
        f"{_joined(dict.fromkeys(ran['model']))} on {counted(tasks.total(), 'task')} "
        f"({', '.join(f'{name(kind)} {count}' for kind, count in tasks.items())}) with "
        f"{counted(ran['sampler'].nunique(), 'sampler')}{samples and f', {samples}'}",
        ", ".join(_values(ran, "device") + _values(ran, "dtype")),
        _date(facts.get("started")),
    ]
    return "; ".join(filter(None, parts))


def findings(cells: pd.DataFrame) -> list[str]:
    """A sentence per model on its means over the tasks that have scores: the fastest sampler that is not clearly below
    the slowest, best one, and the slowest that is. Clearly: their 95 % intervals don't overlap."""
    table = curves(cells)
    models = list(dict.fromkeys(table["model"])) if len(table) else []
    told = [_finding(str(model), table[table["model"].isin([model])]) for model in models[:MODELS]]
    return [*told, *([f"{counted(len(models) - MODELS, 'more model')}: see the table"] if models[MODELS:] else [])]


def _finding(model: str, table: pd.DataFrame) -> str:
    rows = table.to_dict("records")
    slowest = min(row["tokens_per_step"] for row in rows)
    base = max((row for row in rows if row["tokens_per_step"] <= 1.001 * slowest), key=lambda row: row["score"])
    level = [row for row in rows if row is base or not row["high"] < base["low"]]  # without intervals nothing is clear
    fast = max(level, key=lambda row: (row["tokens_per_step"], row["score"]))
    below = [row for row in rows if row["high"] < base["low"] and row["tokens_per_step"] < fast["tokens_per_step"]]
    scores = f"{name(model)} scores {_score(fast)} at {fixed(fast['tokens_per_step'], 2)} tokens per step "
    scores += f"with {name(fast['sampler'])}"
    if fast is not base:
        scores += (
            f", not clearly below {_score(base)} at {fixed(base['tokens_per_step'], 2)} with {name(base['sampler'])}"
        )
    if below:
        worst = min(below, key=lambda row: (row["tokens_per_step"], row["score"]))
        scores += f"; {name(worst['sampler'])} falls to {_score(worst)} at {fixed(worst['tokens_per_step'], 2)}"
    count = int(fast["tasks"])
    return f"{scores} (mean of {counted(count, 'task')})" if count > 1 else scores


def _score(row: Mapping[Any, Any]) -> str:
    return f"{fixed(row['score'])} %{interval(row['low'], row['high'])}"


def _values(cells: pd.DataFrame, column: str) -> list[str]:
    return sorted({name(str(value)) for value in cells[column].dropna()} - {""}) if column in cells else []


def _date(started: Any) -> str:
    try:
        day = datetime.fromisoformat(str(started))
    except ValueError:
        return ""
    return f"{day.day} {day:%B %Y}"


def _joined(names: Sequence[str] | Mapping[str, None]) -> str:
    shown = [one.strip() for one in listed([name(one) for one in names], 5)]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1].removeprefix('… and ')}"
