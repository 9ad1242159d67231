"""Scores a run's kept answers again, without a model, as a new run
that names its parent. For answers whose grammar or BERTScore had no tool, for a new LanguageTool, a
new metric or an own scorer. Imports no torch unless BERTScore is measured.
"""

from __future__ import annotations

import math
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from pbcore.base.check import refuse
from pbcore.base.errors import InputError
from pbcore.base.printable import counted, printable
from pbcore.base.tabular import Table, Value, terminal
from pbcore.metrics import grammar, semantic
from pbcore.report.files import write_all
from pbcore.results.environment import versions
from pbcore.results.load import load_stored
from pbcore.results.questions import DATA, Questions, gather, scored_again, write_questions
from pbcore.results.record import CellRecord, absent_reasons
from pbcore.results.rundir import RunDir, RunFacts, StoredCell, create, new_name, open_run
from pbcore.tasks.base import Task
from pbcore.tasks.registry import task_spec
from pbcore.tasks.scoring import scorer
from pbcore.tasks.spec import asked_by


@dataclass(frozen=True, slots=True)
class Rescored:
    """One cell before and after. `changed`: score → number of answers whose score changed; `kept`
    says why the cell was left as it was, empty if it was scored.
    """

    before: StoredCell
    after: StoredCell
    changed: dict[str, int]
    kept: str = ""


def rescore_cell(entry: StoredCell, task: Task) -> Rescored:
    """Scores a cell's kept answers again; everything but scores, details, what is absent and the
    headline stays. The key, which stands for an outcome, is dropped if any score or detail differs.
    A cell with a score whose tool is not here now is left as it was.
    """
    after = scored_again(entry, task)
    record = after.cell
    pairs = list(zip(entry.samples, after.samples, strict=True))
    if all("absent" not in sample.details for sample in after.samples):
        absent = {name: why for name, why in record.absent.items() if name not in record.scores}
        record = replace(record, absent=absent)
    gone = entry.cell.scores.keys() - record.scores.keys()
    lost = next((f"{name}: {why}" for name, why in record.absent.items() if name in gone), None)
    if lost is not None:
        return Rescored(entry, entry, {}, lost)
    names = [name for sample in (*entry.samples, *after.samples) for name in sample.scores]
    changed: dict[str, int] = {}
    for name in dict.fromkeys(names):
        count = sum(not _equal(old.scores.get(name), new.scores.get(name)) for old, new in pairs)
        if count:
            changed[name] = count
    if changed or any(old.details != new.details for old, new in pairs):
        record = replace(record, conditions=replace(record.conditions, key=None))
    return Rescored(entry, StoredCell(record, after.samples), changed)


def rescore(
    source: Path,
    target: Path | None = None,
    data_dir: Path | None = None,
    tasks: Sequence[Path] = (),
    cot_answer: str | None = None,
) -> tuple[RunDir, list[Rescored]]:
    """Scores all finished cells of a run again and writes them as a new run directory, whose
    run.json
    names the parent.

    Cells that could not be run, and those that a neighbour asked and scored, are copied. Nothing
    is written before every cell is scored.

    Args:
        source: the run directory.
        target: the new one; None: beside the parent.
        data_dir: a folder of official rows, if the run's is elsewhere now.
        tasks: files of tasks of one's own.
        cot_answer: how answers with steps are scored, `marked` or `whole`; None: as the parent did.

    Raises:
        InputError: where a cell's questions can't be had, or `cot_answer` meets no answers with
            steps.
        RunDirError: if the target exists; and the errors of `load_stored`.
    """
    parent = open_run(source)
    stored = load_stored(parent.path, refuse)
    facts = parent.read_run()
    if not any(entry.samples for entry in stored):
        raise InputError(
            f"{source} has no kept answers; give a run directory with cells/ or samples.jsonl"
        )
    questions = Questions(parent.path, facts, data_dir, tuple(tasks))
    ran = [entry for entry in stored if entry.cell.status == "ok" and entry.samples]
    own = [entry for entry in ran if asked_by(entry.cell.task) is None]
    asked = {entry.cell.id: questions.of(entry.cell) for entry in own or ran}
    if cot_answer is not None and not any(asked[entry.cell.id].cot for entry in own):
        raise InputError(f"--cot-answer: {source} has no answers with steps (--cot); leave it out")
    results = [rescore_cell(*_so_scored(entry, asked[entry.cell.id], cot_answer)) for entry in own]
    for entry in ran:
        other = asked_by(entry.cell.task)
        if other is not None:
            results.append(Rescored(entry, entry, {}, f"{other.name} asked and scored them"))
    path = target or parent.path.parent / new_name()
    run = create(path.parent, path.name)
    run.write_run({**facts, "parent": _parent(parent, facts, results)})
    if (parent.path / DATA).is_dir():
        shutil.copytree(parent.path / DATA, run.path / DATA)
    for task in asked.values():
        write_questions(run, task)
    done = {result.after.cell.id: result.after for result in results}
    for entry in (done.get(entry.cell.id, entry) for entry in stored):
        run.write_cell(entry.cell, entry.samples)
    gather([parent], run)
    write_all(run)
    return run, results


def _so_scored(entry: StoredCell, task: Task, cot_answer: str | None) -> tuple[StoredCell, Task]:
    """The cell and its task with another way of scoring answers with steps; both as they are if
    there is none.
    """
    if cot_answer is None or not task.cot:
        return entry, task
    options = {**entry.cell.conditions.options, "cot_answer": cot_answer}
    cell = replace(entry.cell, conditions=replace(entry.cell.conditions, options=options))
    return replace(entry, cell=cell), replace(task, cot_answer=cot_answer)


def _parent(parent: RunDir, facts: RunFacts, results: Sequence[Rescored]) -> dict[str, Any]:
    scored = [result.after.cell for result in results if not result.kept]
    tools = {}
    used = {name for cell in scored for name in cell.scores}
    if "grammar" in used and grammar.available():
        tools["LanguageTool"] = str(grammar.checker().server.identity)
    if "bertscore" in used and semantic.available():
        tools["BERTScore"] = str(semantic.bert_scorer().source)
    parentage: dict[str, Any] = {
        "run": parent.path.resolve().name,
        "started": facts.get("started"),
        "rescored": datetime.now().astimezone().isoformat(timespec="seconds"),
        "cells": len(scored),
        "changed": sorted(result.after.cell.id for result in results if result.changed),
        "versions": versions(),
        "tools": tools,
    }
    if isinstance(facts.get("parent"), dict):
        parentage["parent"] = facts["parent"]
    return parentage


def _equal(old: float | None, new: float | None) -> bool:
    """Whether two scores are one, rounding of floating-point sums aside; None: not measured."""
    return (
        old == new
        if old is None or new is None
        else math.isclose(old, new, rel_tol=0, abs_tol=1e-9)
    )


def rescored_text(results: Sequence[Rescored]) -> str:
    """A row per cell and score that changed: number of changed answers, and the mean before and
    after.
    """
    rows: list[list[Value]] = []
    for result in results:
        for name, count in result.changed.items():
            old = _mean(result.before.cell, name)
            new = _mean(result.after.cell, name)
            rows.append(
                [
                    printable(result.after.cell.id),
                    printable(name, 40),
                    count,
                    len(result.after.samples),
                    old,
                    new,
                ]
            )
    heads = ["cell", "score", "changed", "of answers", "before", "now"]
    lines = [terminal(Table(heads, rows, "llrrrr"))] if rows else []
    scored = [result for result in results if not result.kept]
    same = sum(not result.changed for result in scored)
    lines.append(f"{counted(len(scored), 'cell')} scored again, {same} with the same scores")
    kept = Counter(result.kept for result in results if result.kept)
    lines += [
        f"{counted(count, 'cell')} left unchanged: {printable(why, 300)}"
        for why, count in kept.items()
    ]
    absent: Counter[str] = Counter()
    for result in scored:
        metrics = scorer(task_spec(result.after.cell.task).scorer).metrics
        reasons = absent_reasons(
            {name: why for name, why in result.after.cell.absent.items() if name in metrics}
        )
        absent.update(f"{names}: {why}" for names, why in reasons.items())
    lines += [
        f"not measured in {counted(count, 'cell')}: {printable(why, 300)}"
        for why, count in absent.items()
    ]
    return "\n".join(lines)


def _mean(cell: CellRecord, name: str) -> str:
    return f"{100 * cell.scores[name].mean:.1f} %" if name in cell.scores else "–"
