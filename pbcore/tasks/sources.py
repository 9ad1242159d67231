"""Where questions come from beside a generator, a file of ours or the official folder: tasks that an integration asks
and scores in its own way, and folders that it reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pbcore.extensions import provided

if TYPE_CHECKING:
    from pathlib import Path

    from pbcore.names import SamplerName
    from pbcore.tasks.base import Sample, Task
    from pbcore.tasks.spec import TaskSpec


class TaskSource(Protocol):
    """The tasks of an integration (`Integration.tasks`): `name` in messages, `prefix` of its tasks' names. `load` gives
    a task with its first `limit` samples; `refuses` says why a sampler can't answer its questions, or None."""

    name: str
    prefix: str

    def load(self, spec: TaskSpec, limit: int | None) -> Task: ...
    def refuses(self, task: Task, sampler: SamplerName) -> str | None: ...


class Folders(Protocol):
    """Folders in another layout than the official one, for `--data-dir` (`Integration.folders`). `samples` gives the
    questions of a task, those of these lengths, and raises InputError, RowError or FileNotFoundError."""

    def reads(self, folder: Path) -> bool: ...
    def samples(self, spec: TaskSpec, folder: Path, lengths: tuple[int, ...] | None) -> list[Sample]: ...


def folders_of(folder: Path) -> Folders | None:
    """What reads this folder; None for one in the official layout."""
    return next((one for one in provided("folders") if one.reads(folder)), None)


def asked_by(task: str) -> TaskSource | None:
    """The source of a task by its name; None for a task of ours, or without the integration."""
    return next((source for source in provided("tasks") if task.startswith(source.prefix)), None)
