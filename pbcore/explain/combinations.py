"""The combinations of what differs between two settings: their cells, and which can't run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pbcore.analysis.differences import CellSetting, Change, with_parts
from pbcore.base.errors import InputError
from pbcore.decoding.samplers import resolve, sampler_of
from pbcore.grid.cellid import CellText
from pbcore.grid.levels import words_of
from pbcore.grid.plan import make_plan
from pbcore.grid.settings import Settings
from pbcore.names import SamplerNameError, parse


@dataclass(frozen=True, slots=True)
class OptionMix:
    """Some options as in the second setting, the others as in the first: its cells by task, or why
    it can't run.
    """

    number: int
    sampler: str
    level: str
    cells: Mapping[str, CellText]
    why: str = ""

    @property
    def name(self) -> str:
        """As an error names it."""
        return "/".join(filter(None, [self.sampler, self.level]))


def factors_of(changes: Sequence[Change]) -> list[str]:
    """The values of `--factor` that the options among changes need."""
    return [f"{c.name}={c.before},{c.after}" for c in changes if not c.fields]


def combination(
    number: int,
    first: CellSetting,
    second: CellSetting,
    changes: Sequence[Change],
    tasks: Sequence[str],
) -> OptionMix:
    """One combination.

    Args:
        number: its bits say which changes are made.
        first: the setting without any.
        second: the setting with all.
        changes: what differs.
        tasks: by their full names.
    """
    switched = [change for place, change in enumerate(changes) if number >> place & 1]
    fields = frozenset(name for change in switched for name in change.fields)
    sampler = _sampler(first.sampler, second.sampler, fields)
    words = words_of(factors_of(changes))
    level = []
    for change in changes:
        if not change.fields:
            before, after = words[change.name]
            level.append(f"{change.name}:{after if change in switched else before}")
    text = "+".join(level)
    cells = {task: CellText(first.model, task, sampler, level=text) for task in tasks}
    return OptionMix(number, sampler, text, cells)


def _sampler(first: str, second: str, fields: frozenset[str]) -> str:
    """The first sampler with some fields of the second's; the other one where either has no parts,
    as those of models that decode by themselves.
    """
    if not fields:
        return first
    try:
        parse(first)
        return with_parts(first, second, fields)
    except SamplerNameError:
        return second


def refusal(settings: Settings, one: OptionMix) -> str:
    """Why a combination can't run; empty if it can.

    Args:
        settings: of the run, with its factors.
        one: the combination.
    """
    try:
        own = resolve(one.sampler)
    except SamplerNameError as error:
        return str(error)
    except InputError:
        own = sampler_of(one.sampler)
    for task, cell in one.cells.items():
        named = CellText(cell.model, task, str(own), level=cell.level)
        try:
            plan = make_plan(settings, [f"cells.py::test_cell[{named.item_id}]"])
            why = plan.refuses(plan.named[0])
        except InputError as error:
            why = str(error)
        if why:
            return why
    return ""
