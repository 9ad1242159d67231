"""The order in which samplers, tasks and models stand in tables and figures, and their short
names.
"""

import re
from collections.abc import Iterable

from pbcore.tasks.naming import PAPER_TASKS

TASKS = (
    *PAPER_TASKS,
    *(f"list_ops/{name}" for name in ("copy", "replace_index", "replace_random", "shuffle")),
)
SHORT = {
    "insert_index": "ins_idx",
    "insert_random": "ins_rnd",
    "remove_index": "rem_idx",
    "remove_random": "rem_rnd",
    "replace_index": "rep_idx",
    "replace_random": "rep_rnd",
    "summarization": "summar.",
    "paraphrasing": "paraphr.",
    "w2s_medium": "w2s_med",
    "latin_square": "latin",
}
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)")


def narrow_name(task: str) -> str:
    """A task's name for narrow columns: `waiting_line/insert_index` → `ins_idx`."""
    name = task.split("/", 1)[-1]
    return SHORT.get(name, name)


def sorted_tasks(tasks: Iterable[str]) -> list[str]:
    """Tasks in the paper's order, unknown ones after them by name."""

    def place(task: str) -> tuple[int, str]:
        return TASKS.index(task) if task in TASKS else len(TASKS), task

    return sorted(set(tasks), key=place)


def natural(text: str) -> tuple[tuple[int, float, str], ...]:
    """A sort key that counts: `random-k2` before `random-k16`."""
    return tuple(
        (0, float(part), "") if _NUMBER.fullmatch(part) else (1, 0.0, part)
        for part in _NUMBER.split(text)
    )


def method_of(sampler: str) -> str:
    """The method of a sampler, one curve in a figure: its policy and modifiers without the
    policy's own numbers. `confidence-k4+b8` → `confidence+b8`; words stay: `factor-1.0-ref` →
    `factor-ref`.
    """
    head, *modifiers = sampler.split("+")
    policy, *arguments = head.split("-")
    modifiers = [modifier for modifier in modifiers if not re.fullmatch(r"x\d+", modifier)]
    words = [argument for argument in arguments if not re.search(r"\d", argument)]
    return "+".join(["-".join([policy, *words]), *modifiers])
