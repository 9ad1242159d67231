"""A cell's name, `model/task/sampler`, as in node ids and records; a level of factors follows
(`/batch-size:8`) where a run has them, and `/17` at its end names one sample.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pbcore.base.printable import escaped, unescaped

if TYPE_CHECKING:
    from pbcore.decoding.samplers import Sampler

_BRACKET = re.compile(r"::[^\[\]]*\[(?P<name>.+/.+/.+)\]$")


class _Named:
    """What names a cell: `task` is the full name (`waiting_line/shuffle`), `sampler` canonical;
    `sample` is set for an item of the drill-down. `level` is one of `grid.levels.levels`, empty in
    a run without factors.
    """

    __slots__ = ()
    model: str
    task: str
    sampler: object
    sample: int | None
    level: str

    @property
    def category(self) -> str:
        from pbcore.tasks.naming import category

        return category(self.task)

    @property
    def cell_id(self) -> str:
        """The record's id, e.g. `tiny/shuffle/confidence-k2`."""
        from pbcore.tasks.naming import short

        return "/".join(
            (self.model, short(self.task), str(self.sampler), *filter(None, [self.level]))
        )

    @property
    def item_id(self) -> str:
        """What stands in the node id: the record's id with line breaks and their like escaped, and
        the sample's number in the drill-down.
        """
        return escaped(self.cell_id) + ("" if self.sample is None else f"/{self.sample}")


@dataclass(frozen=True, slots=True)
class CellText(_Named):
    """A cell's name as a node id or a record has it."""

    model: str
    task: str
    sampler: str
    sample: int | None = None
    level: str = ""


@dataclass(frozen=True, slots=True)
class CellName(_Named):
    """A cell of a plan, whose sampler is read."""

    model: str
    task: str
    sampler: Sampler
    sample: int | None = None
    level: str = ""


def parse_cell_name(text: str, tasks: Collection[str]) -> CellText | None:
    """The cell of one of these tasks that a text names, `model/task/sampler`, as `item_id` writes
    it or with the task's full name; model names may hold slashes.
    """
    from pbcore.tasks.naming import short

    parts = unescaped(text).split("/")
    sample = int(parts.pop()) if parts[-1].isdecimal() else None
    level = parts.pop() if len(parts) > 3 and ":" in parts[-1] else ""
    sampler = parts.pop() if parts else ""
    by_name = {task: task for task in tasks} | {short(task): task for task in tasks}
    for words in (2, 1):
        task = by_name.get("/".join(parts[-words:]))
        if task is not None and len(parts) > words:
            return CellText("/".join(parts[:-words]), task, sampler, sample, level)
    return None


def bracketed(node_id: str) -> str | None:
    """The text in the brackets at the end of a node id, if it has the form of a cell's name."""
    match = _BRACKET.search(node_id)
    return match["name"] if match else None


def by_model(cells: Iterable[CellName]) -> dict[str, list[CellName]]:
    """The cells of each model, in their order."""
    groups: dict[str, list[CellName]] = {}
    for cell in cells:
        groups.setdefault(cell.model, []).append(cell)
    return groups
