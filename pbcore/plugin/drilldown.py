"""Drill-down: a wrong answer fails its own item, and shows how it came about and the command that runs it again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pbcore.grid.option import Role
from pbcore.grid.settings import OPTIONS
from pbcore.plugin.options import flag
from pbcore.printable import command_line

if TYPE_CHECKING:
    from pbcore.models.base import Generation, Model
    from pbcore.tasks.base import Sample, Task
    from pbcore.tasks.scoring import Scored


STOCK = Path(__file__).parents[1] / "benches"  # the stock cells


def judge(
    item: pytest.Item,
    model: Model,
    task: Task,
    answers: Sequence[tuple[Sample, int, Generation]],
    scored: Sequence[Scored],
) -> None:
    """Fails at the first wrong answer; skips if the headline score could not be measured."""
    from pbcore.report.answer_trace import story, wrong
    from pbcore.results.build import sample_record

    for (sample, seed, answer), result in zip(answers, scored, strict=True):
        if task.headline not in result.scores:
            why = result.details.get("absent", {}).get(task.headline, "no reason given")
            pytest.skip(f"sample {sample.index}: {task.headline} was not measured ({why})")
        entry = sample_record(sample.index, answer, result)
        forwards = [] if entry.nfe is None else [("nfe", entry.nfe)]
        item.user_properties.extend([("sample", entry.index), *forwards, *entry.scores.items()])
        if wrong(task.headline, result.scores[task.headline]):
            command = rerun(item.config, item.nodeid, sample.index, seed)
            pytest.fail("\n".join(story(model, task, sample, answer, result, command)), pytrace=False)


def rerun(config: pytest.Config, node_id: str, sample: int, seed: int | None = None) -> str:
    """The command that runs one sample again, by `seed` alone if given, with the options that decide the answer."""
    head, _, name = node_id.rstrip("]").partition("[")
    file, _, function = head.partition("::")
    if not (config.rootpath / file).exists():  # a stock cell, run from the installed package
        head = f"{STOCK / Path(file).name}::{function}"
    numbered = name.rpartition("/")[2].isdecimal()
    words = ["pytest", f"{head}[{name if numbered else f'{name}/{sample}'}]"]
    for option in OPTIONS:
        value: Any = config.getoption(option.dest, None)
        if option.field == "seed" and value is not None and seed is not None:
            value = (seed,)
        off = value is None or value is False or value == []  # 0 is a value: --shots 0
        if off or option.role not in (Role.ANSWERS, Role.LOADS, Role.COMPUTES):
            continue
        for one in value if option.many else [value]:
            text = ",".join(map(str, one)) if isinstance(one, tuple) else str(one)
            words += [flag(config, option), *([] if option.kind is None else [text])]
    return command_line(words)
