"""Tasks that an integration asks and scores in its own way, beside those that a generator or a file of ours asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pbcore.extensions import provided

if TYPE_CHECKING:
    from pbcore.names import SamplerName
    from pbcore.tasks.base import Task
    from pbcore.tasks.spec import TaskSpec


class TaskSource(Protocol):
    """The tasks of an integration (`Integration.tasks`): `name` in messages, `prefix` of its tasks' names."""

    name: str
    prefix: str

    def load(self, spec: TaskSpec, limit: int | None) -> Task:
        """A task with its first `limit` samples."""

    def refuses(self, task: Task, sampler: SamplerName) -> str | None:
        """Why a sampler can't answer the task's questions as they ask for it; None if it can."""


def asked_by(task: str) -> TaskSource | None:
    """The source of a task by its name; None for a task of ours, or without the integration."""
    return next((source for source in provided("tasks") if task.startswith(source.prefix)), None)
