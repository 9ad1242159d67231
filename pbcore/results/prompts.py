"""The questions of a run, kept beside its cells so that its answers can be read without the data that they came from.

    RUN/questions/<task>-<digest>.json   {"schema": 2, "task": …, "data_hash": …, "questions": [{"index": 0, …}, …]}

One file per task and data, written once by whichever process comes first.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import GenericAlias
from typing import Protocol

from pbcore.results.check import LoadError, adapter, check_schema, checked, read_json, shape
from pbcore.results.plain import dump_json, plain
from pbcore.results.record import READABLE, SCHEMA, CellRecord, Count
from pbcore.results.rundir import RunDir, cell_file, write_atomic
from pbcore.tasks.base import Sample

FOLDER = "questions"


@dataclass(frozen=True, slots=True)
class Question:
    """One sample's question: `prompt` without its shots, of which there were `shots`; `answer` one correct answer (None
    if the label has none), the only one if `only`; `length` the n of a list."""

    index: Count
    prompt: str
    answer: str | None = None
    only: bool = True
    length: Count | None = None
    shots: Count = 0


@dataclass(frozen=True, slots=True)
class _File:
    schema: int
    task: str
    data_hash: str
    questions: list[Question]


class Asked(Protocol):
    """The attributes of a `tasks.base.Task` whose questions are kept."""

    @property
    def name(self) -> str: ...
    @property
    def data_hash(self) -> str: ...
    @property
    def samples(self) -> Sequence[Sample]: ...


Key = tuple[str, str]  # task, digest of its samples
_file = adapter(lambda: shape(_File, questions=GenericAlias(list, (shape(Question),))))


def keep(run: RunDir, task: Asked) -> Path:
    """Writes a task's questions into a run directory, unless they are there; returns their file."""
    path = run.path / FOLDER / cell_file(f"{task.name}-{task.data_hash}")
    if path.exists():
        return path
    data = asdict(_File(SCHEMA, task.name, task.data_hash, [question(sample) for sample in task.samples]))
    return write_atomic(path, dump_json(plain(data, f"questions of {task.name}"), indent=1) + "\n")


def question(sample: Sample) -> Question:
    """What a reader needs to know of a sample."""
    return Question(
        sample.index,
        sample.prompt,
        sample.answer if sample.answer is not None else str(sample.label),
        isinstance(sample.label, str) or sample.answer is None,
        sample.length,
        sum(message["role"] == "assistant" for message in sample.messages),
    )


def kept(run: RunDir) -> dict[Key, dict[int, Question]]:
    """The questions of a run by task and digest, then by index. Files that can't be read count as absent."""
    found: dict[Key, dict[int, Question]] = {}
    for path in sorted((run.path / FOLDER).glob("*.json")):
        try:
            data = checked(_file(), check_schema(read_json(path), READABLE, str(path)), str(path))
        except LoadError:
            continue
        found[data["task"], data["data_hash"]] = {one["index"]: Question(**one) for one in data["questions"]}
    return found


def key(cell: CellRecord) -> Key:
    """Where a cell's questions are in `kept`."""
    return cell.task, cell.conditions.data_hash or ""


def gather(sources: Iterable[RunDir], target: RunDir) -> None:
    """Copies the questions of runs into one that was merged from them."""
    for source in sources:
        for path in sorted((source.path / FOLDER).glob("*.json")):
            copy = target.path / FOLDER / path.name
            if not copy.exists():
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, copy)
