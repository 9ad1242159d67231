"""Tasks: questions as data, found by name."""

from pbcore.tasks.base import Sample, Task
from pbcore.tasks.registry import (
    TaskNameError,
    add_tasks_file,
    all_task_names,
    generate,
    load_task,
    register_task,
    task_names,
    task_spec,
)
from pbcore.tasks.spec import TaskSpec

__all__ = [
    "Sample",
    "Task",
    "TaskNameError",
    "TaskSpec",
    "add_tasks_file",
    "all_task_names",
    "generate",
    "load_task",
    "register_task",
    "task_names",
    "task_spec",
]
