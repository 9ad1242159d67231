"""The options of a run with tasks of lm-evaluation-harness, and which of them a run asks for."""

# ruff: noqa: RUF009  the default of each field carries its option, as dataclasses.field does

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from pbcore.base.links import docs
from pbcore.grid.cellid import bracketed
from pbcore.grid.option import AddedNeed, OptionGroup, Role, option

PREFIX = "lm_eval/"
OF_HARNESS = AddedNeed(
    f"is a task of lm-evaluation-harness (--task {PREFIX}NAME)",
    lambda use: use.cell.task.startswith(PREFIX),
)


@dataclass(frozen=True, slots=True)
class HarnessOptions(OptionGroup):
    """Where task files of the user's own are, and the consent to run code that models write."""

    title: ClassVar[str] = "Tasks of lm-evaluation-harness"
    lm_eval_path: Path | None = option(
        Role.ANSWERS,
        "folder with task files of your own for lm-evaluation-harness, for --task lm_eval/NAME;"
        f" more: {docs('lm-eval.md')}",
        Path,
        metavar="DIR",
        need=OF_HARNESS,
        held="it names a folder of tasks",
    )
    confirm_run_unsafe_code: bool = option(
        Role.ANSWERS,
        "run code that models write where a task of lm-evaluation-harness asks for it; needs"
        " HF_ALLOW_CODE_EVAL=1 too",
        None,
        need=OF_HARNESS,
        held="it is a consent",
    )

    def tasks(self, patterns: Sequence[str], arguments: Sequence[str]) -> tuple[str, ...]:
        """The requested tasks; those of the harness, also where only a node id names them, are
        added by their names.

        Raises the errors of `add_harness_tasks`.
        """
        from pbcore.extras.lm_eval.tasks import add_harness_tasks

        folder = self.lm_eval_path
        unsafe = self.confirm_run_unsafe_code
        wanted: list[str] = []
        for pattern in patterns:
            ours = pattern.startswith(PREFIX)
            wanted += add_harness_tasks([pattern], folder, unsafe) if ours else [pattern]
        ids = [
            text.partition(f"/{PREFIX}")[2]
            for text in map(bracketed, arguments)
            if text is not None
        ]
        named = dict.fromkeys(PREFIX + rest.split("/")[0] for rest in ids if rest)
        add_harness_tasks([name for name in named if name not in wanted], folder, unsafe)
        return tuple(wanted)
