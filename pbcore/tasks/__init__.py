"""The tasks: what is asked, as data, and by name."""

from pbcore.tasks.base import Sample, Task
from pbcore.tasks.registry import (
    TaskNameError,
    add_tasks_file,
    all_task_names,
    generate,
    load_task,
    task_names,
    task_spec,
)

__all__ = ["Sample", "Task", "TaskNameError", "add_tasks_file", "all_task_names", "generate", "load_task", "task_names", "task_spec"]
