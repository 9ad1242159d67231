"""A cell's name, `model/task/sampler`, as it stands in node ids and records; with `/17` at its end it names one sample."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

_BRACKET = re.compile(r"\[(?P<name>[^\[\]]+/[^\[\]]+/[^\[\]]+)\]$")


class CellNameError(ValueError):
    """A text that names no cell."""


@dataclass(frozen=True, slots=True)
class CellName:
    """`task` is the full name (`waiting_line/shuffle`), `sampler` canonical; `sample` is set for an item of the drill-down."""

    model: str
    task: str
    sampler: str
    sample: int | None = None

    def cell_id(self, paper: Collection[str]) -> str:
        """The record's id, e.g. `tiny/shuffle/confidence-k2`; `paper` are the tasks that go by their short name."""
        return "/".join((self.model, short(self.task, paper), self.sampler))

    def item_id(self, paper: Collection[str]) -> str:
        """What stands in the node id: the record's id, and the sample's number in the drill-down."""
        return self.cell_id(paper) + ("" if self.sample is None else f"/{self.sample}")


def short(task: str, paper: Collection[str]) -> str:
    """`shuffle` for `waiting_line/shuffle`; tasks beside the paper's keep their category, so that names stay unique."""
    return task.split("/", 1)[1] if task in paper else task


def parse(text: str, tasks: Collection[str], paper: Collection[str]) -> CellName:
    """Reads a cell's name; model names may hold slashes. Raises CellNameError where no known task stands before the sampler."""
    parts = text.split("/")
    sample = int(parts.pop()) if parts[-1].isdecimal() else None
    if len(parts) >= 3:
        sampler = parts.pop()
        by_short = {short(task, paper): task for task in tasks}
        for words in (2, 1):
            task = by_short.get("/".join(parts[-words:]))
            if task is not None and len(parts) > words:
                return CellName("/".join(parts[:-words]), task, sampler, sample)
    raise CellNameError(
        f"{text!r} names no cell: write model/task/sampler, e.g. ideal/shuffle/confidence-k2, with a task of `pbcore tasks`"
    )


def bracketed(node_id: str) -> str | None:
    """The text in the brackets at the end of a node id, where it looks like a cell's name."""
    match = _BRACKET.search(node_id)
    return match["name"] if match else None
