"""Tasks of lm-evaluation-harness in a plan: which are asked for, and which samplers can't answer them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from pbcore.grid.cellid import bracketed
from pbcore.grid.settings import Settings
from pbcore.names import HARNESS, is_harness

if TYPE_CHECKING:
    from pbcore.tasks.base import Task


def with_harness(settings: Settings, arguments: Iterable[str]) -> tuple[str, ...]:
    """The requested tasks; those of the harness, also where only a node id names them, are added by their names.

    Raises the errors of `add_harness_tasks`.
    """
    from pbcore.tasks import add_harness_tasks

    folder, unsafe = settings.lm_eval_path, settings.confirm_run_unsafe_code
    wanted: list[str] = []
    for pattern in settings.task:
        wanted += add_harness_tasks([pattern], folder, unsafe) if is_harness(pattern) else [pattern]
    ids = [text.partition(f"/{HARNESS}")[2] for text in map(bracketed, arguments) if text is not None]
    named = dict.fromkeys(HARNESS + rest.split("/")[0] for rest in ids if rest)
    add_harness_tasks([name for name in named if name not in wanted], folder, unsafe)
    return tuple(wanted)


def otherwise_asked(load_task: Callable[[], Task], task: str, sampler: str) -> str | None:
    """Why a sampler contradicts what a harness task asks for, such as greedy decoding; None if it doesn't."""
    if not is_harness(task):
        return None
    from pbcore.names import parse
    from pbcore.tasks.harness import contradicts

    why = contradicts(load_task().samples[0], parse(sampler))
    return None if why is None else f"{task} × {sampler}: {why}"
