"""The questions that a stored cell answered, loaded again and checked by their digest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pbcore.errors import InputError
from pbcore.printable import printable
from pbcore.results.record import CellRecord
from pbcore.tasks.base import Task
from pbcore.tasks.harness import is_harness
from pbcore.tasks.naming import PAPER_TASKS
from pbcore.tasks.registry import add_tasks_file, all_task_names, load_task, task_spec

DATA = "data"  # of a run directory: questions that came with an imported run


class QuestionsError(InputError):
    """The questions of a cell can't be had: its data or its tasks file is not here, or has changed."""


class Questions:
    """The questions of the cells of one run. `data_dir` and `tasks` override what run.json names.

    questions = Questions(run.path, run.read_run())
    task = questions.of(cell)  # its samples have the cell's data_hash
    """

    def __init__(
        self,
        run: Path,
        facts: Mapping[str, Any],
        data_dir: Path | None = None,
        tasks: tuple[Path, ...] = (),
    ) -> None:
        """Adds the tasks files. Raises the errors of `add_tasks_file`."""
        settings = facts.get("settings")
        self._settings: Mapping[str, Any] = settings if isinstance(settings, Mapping) else {}
        self._facts, self._run, self._data_dir = facts, run, data_dir
        self._loaded: dict[tuple[str, str], Task] = {}
        named = self._settings.get("tasks")
        for file in tasks or tuple(map(Path, named if isinstance(named, list) else ())):
            add_tasks_file(file)

    def of(self, cell: CellRecord) -> Task:
        """The cell's task with the samples that it answered. Raises QuestionsError, saying what to give."""
        digest = cell.conditions.data_hash or ""
        if (cell.task, digest) not in self._loaded:
            self._loaded[cell.task, digest] = self._load(cell, digest)
        return self._loaded[cell.task, digest]

    def _load(self, cell: CellRecord, digest: str) -> Task:
        where = f"cell {printable(cell.id)}: its questions can't be had"
        if is_harness(cell.task):  # a task's files can hold code, so a record's path doesn't load them
            raise QuestionsError(f"{where}: lm-evaluation-harness asked and scored; measure the cell again")
        if cell.task not in all_task_names():
            raise QuestionsError(f"{where}: no task named {printable(cell.task)}; give its file with --tasks")
        if not digest:
            raise QuestionsError(f"{where}: its record has no digest of its data")
        folder = self._folder(cell, digest)
        seed = cell.conditions.options.get("data_seed", self._facts.get("data_seed")) or 0
        options = cell.conditions.options
        asked = task_spec(cell.task).asked(options)
        errors: list[str] = []
        for lengths in self._lengths(cell):
            for limit in (cell.n_samples, None):
                try:
                    task = load_task(cell.task, folder, lengths, limit, seed=seed, **asked)
                except (ValueError, OSError) as error:
                    errors.append(str(error))
                    continue
                if task.data_hash == digest:
                    return task
        source = f"in {folder}" if folder else f"made with --data-seed {seed}"
        why = errors[0] if errors else f"those {source} are other ones (digest {digest[:8]} is recorded)"
        raise QuestionsError(f"{where}: {why}; give the folder that the run had with --data-dir")

    def _folder(self, cell: CellRecord, digest: str) -> Path | None:
        """The folder of the data: as given, inside the run, or as the run had it; None for generated data."""
        if cell.conditions.data_source == "own" or cell.task not in PAPER_TASKS:
            return None
        inside = self._run / DATA / digest[:12]
        if self._data_dir is not None or inside.is_dir():
            return self._data_dir or inside
        named = cell.conditions.options.get("data_dir") or self._facts.get("data_dir")
        if not isinstance(named, str):
            raise QuestionsError(
                f"cell {printable(cell.id)}: its questions can't be had: they are {cell.conditions.data_source} data, "
                "and the run doesn't say from where; give the folder with --data-dir"
            )
        return Path(named)

    def _lengths(self, cell: CellRecord) -> Iterator[tuple[int, ...] | None]:
        """The task's own n, then those that the run asked for, then those of the record."""
        yield None
        asked = self._settings.get("n")
        if isinstance(asked, list) and all(type(n) is int for n in asked):
            yield tuple(asked)
        if recorded := lengths_of(cell.length):
            yield recorded


def selected(task: Task, indices: list[int]) -> Task:
    """The task with the samples of these numbers only, in their order. Raises QuestionsError for an unknown number."""
    known = {sample.index: sample for sample in task.samples}
    missing = [index for index in indices if index not in known]
    if missing:
        raise QuestionsError(f"{task.name} has no sample {missing[0]}, which an answer names")
    return replace(task, samples=tuple(known[index] for index in indices))


def redrawn(task: str, length: str, count: int, options: Mapping[str, Any], digest: str | None) -> Task | None:
    """The samples of a record of generated data, drawn again: `length`, the number of samples, `options` and digest are
    the record's. None if they are other ones now, or can't be drawn."""
    try:
        asked = task_spec(task).asked(options)
        drawn = load_task(task, n=lengths_of(length) or None, limit=count, seed=options.get("data_seed") or 0, **asked)
    except (ValueError, OSError):
        return None
    return drawn if drawn.data_hash == digest else None


def lengths_of(text: str) -> tuple[int, ...]:
    """`3-6`, `15` or `5,10,20` as numbers; empty for other text."""
    first, dash, last = text.partition("-")
    if dash and first.isdecimal() and last.isdecimal():
        return tuple(range(int(first), int(last) + 1))
    parts = text.split(",")
    return tuple(map(int, parts)) if all(part.isdecimal() for part in parts) else ()
