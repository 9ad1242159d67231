"""The two sides of an explanation, each with its setting and what was measured of it."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from pbcore.analysis.differences import CellSetting, level_word, setting_of
from pbcore.base.errors import InputError
from pbcore.base.printable import printable, some
from pbcore.base.registry import Registry
from pbcore.grid.levels import FACTORS
from pbcore.grid.needs import values_of
from pbcore.grid.option import OptionValues, Role
from pbcore.grid.plan import make_plan
from pbcore.grid.profiles import with_preset
from pbcore.grid.settings import OPTIONS
from pbcore.names import SamplerNameError, canonical
from pbcore.plugin.pytest_runs import read_settings
from pbcore.report.rerun import recorded_values
from pbcore.results.load import load_stored
from pbcore.results.record import question_scores
from pbcore.results.rundir import RunDir, StoredCell
from pbcore.tasks.naming import short

QuestionScores = Mapping[str, Mapping[int, float]]  # task → question → score


@dataclass(frozen=True, slots=True)
class CellChoice:
    """Which cells of a run are meant, where it has several."""

    models: Sequence[str] = ()
    tasks: Sequence[str] = ()
    sampler: str | None = None
    level: str | None = None


@dataclass(frozen=True, slots=True)
class Side:
    """One side.

    - `name`: what texts call it;
    - `setting`: what decides its answers;
    - `values`: the options of its run, by field;
    - `tasks`: those it has;
    - `scores`: of its questions, empty where nothing was measured;
    - `means`: task → its score, of a side whose questions are unknown;
    - `notes`: what else is different about it, and can't be varied.
    """

    name: str
    setting: CellSetting
    values: OptionValues
    tasks: Sequence[str]
    scores: QuestionScores = field(default_factory=dict)
    means: Mapping[str, float] = field(default_factory=dict)
    notes: Sequence[str] = ()


class AddedSide(Protocol):
    """Settings that a neighbour knows, to go to by an option (group `pbcore.explain_sides`, by the
    option's name), with its `metavar` and `help`.
    """

    metavar: str
    help: str

    def side(self, first: Side, given: str, sampler: str | None) -> Side:
        """The setting; what it leaves open is as in the first side. Raises InputError."""


SIDES: Registry[AddedSide] = Registry("kind of setting", "pbcore.explain_sides")


def of_run(path: Path, choice: CellChoice) -> Side:
    """A side of a run directory. Raises InputError naming what there is where a choice is missing
    or has nothing.
    """
    facts = RunDir(path).read_run()
    cells = []
    for entry in load_stored(path):
        if entry.cell.status == "ok" and entry.cell.headline in entry.cell.scores:
            cells.append(entry)
    if not cells:
        raise InputError(f"{path} has no cell with a score; give a run with scores")
    tasks = list(map(short, choice.tasks))
    cells = _chosen(path, cells, "task", tasks, lambda entry: short(entry.cell.task))
    cells = _one(path, cells, "model", choice.models, lambda entry: entry.cell.model)
    sampler = () if choice.sampler is None else (choice.sampler, _canonical(choice.sampler))
    cells = _one(path, cells, "sampler", sampler, lambda entry: entry.cell.sampler)
    has_levels = len(set(map(_level, cells))) > 1
    level = (choice.level,) if choice.level is not None and has_levels else ()
    cells = _one(path, cells, "level", level, _level)
    first = cells[0].cell
    scores = {}
    for entry in cells:
        scores[entry.cell.task] = question_scores(entry.samples, entry.cell.headline)
    return Side(
        str(path),
        setting_of(first, facts.get("machine")),
        recorded_values(first, facts),
        list(scores),
        scores,
    )


def of_preset(first: Side, name: str, sampler: str | None) -> Side:
    """The setting of a preset; what it leaves open is as in the first side. Raises InputError."""
    stated = with_preset({"preset": name}, OPTIONS)
    del stated["preset"]
    wanted = tuple(stated.pop("sampler", ()))
    tasks = stated.pop("task", ())
    if tasks and not set(map(short, first.tasks)) <= set(map(short, tasks)):
        raise InputError(f"--preset {name} asks {some(tasks, 4)}, the run {some(first.tasks, 4)}")
    if sampler is not None:
        wanted = (sampler,)
    if len(wanted) > 1:
        raise InputError(
            f"--preset {name} has several samplers; name one of {', '.join(wanted)} by --sampler"
            " FIRST=SECOND"
        )
    return changed(first, f"preset {name}", stated, wanted[0] if wanted else None)


def of_options(words: Sequence[str], common: Sequence[str], name: str) -> Side:
    """The setting of options as on the command line. Raises InputError."""
    settings = read_settings([*common, *words])
    samplers = settings.sampler
    if len(settings.model) != 1 or not settings.task or len(samplers) != 1:
        raise InputError(
            f"{name}: give one --model, --task (repeatable) and one --sampler; it has"
            f" {len(settings.model)} models, {len(settings.task)} tasks, {len(samplers)} samplers"
        )
    plan = make_plan(settings)
    values = values_of(settings)
    levels = {}
    for factor, option in FACTORS.items():
        levels[factor] = level_word(option, values[option.field], plan.tasks[0])
    facts = {"device": settings.place, "seeds": str(list(settings.seed))}
    asked = {"data_seed": str(settings.data_seed or ""), "data_dir": str(settings.data_dir or "")}
    setting = CellSetting(plan.models[0], str((plan.samplers or samplers)[0]), levels, facts, asked)
    return Side(name, setting, values, plan.tasks)


def changed(first: Side, name: str, stated: Mapping[str, Any], sampler: str | None) -> Side:
    """The first side with what another setting states.

    Args:
        first: the side.
        name: what texts call the other one.
        stated: its options by field; those left out are as in the first.
        sampler: None: the first side's.

    Raises:
        InputError: where it asks other questions.
    """
    levels = dict(first.setting.levels)
    facts = dict(first.setting.facts)
    for option in OPTIONS:
        if option.field not in stated:
            continue
        value = stated[option.field]
        if option.name in FACTORS:
            levels[option.name] = level_word(option, value, first.tasks[0])
        elif option.field == "n":
            _check_lengths(name, value, first)
        elif option.role in (Role.ANSWERS, Role.LOADS):
            facts[option.name] = str(value)
    setting = replace(
        first.setting, sampler=sampler or first.setting.sampler, levels=levels, facts=facts
    )
    return Side(name, setting, first.values, first.tasks)


def _check_lengths(name: str, lengths: object, first: Side) -> None:
    """Raises InputError where a setting asks other questions than the first side did."""
    had = first.values.get("n")
    if had is None or tuple(had) != lengths:
        wanted = ",".join(map(str, lengths)) if isinstance(lengths, tuple) else lengths
        raise InputError(
            f"{name} asks lists of {wanted}, {first.name} other ones: questions have to be the"
            f" same; measure it with --n {wanted}"
        )


def _one(
    path: Path, cells: Sequence[StoredCell], what: str, wanted: Collection[str], of: Any
) -> list[StoredCell]:
    """The cells of the one model, sampler or level that is meant."""
    kept = _chosen(path, cells, what, wanted, of)
    names = list(dict.fromkeys(map(of, kept)))
    if len(names) > 1:
        shown = some([printable(name or "none") for name in names], 12)
        raise InputError(f"{path} has several {what}s: choose one by --{what}: {shown}")
    return kept


def _chosen(
    path: Path, cells: Sequence[StoredCell], what: str, wanted: Collection[str], of: Any
) -> list[StoredCell]:
    if not wanted:
        return list(cells)
    kept = [entry for entry in cells if of(entry) in wanted]
    if not kept:
        names = list(dict.fromkeys(map(of, cells)))
        raise InputError(
            f"--{what} {', '.join(wanted)}: {path} has {some([printable(n) for n in names], 12)}"
        )
    return kept


def _level(entry: StoredCell) -> str:
    return entry.cell.conditions.level_text


def _canonical(sampler: str) -> str:
    try:
        return canonical(sampler)
    except SamplerNameError:
        return sampler


def words_of(text: str) -> list[str]:
    """The words of `--from` or `--to`. Raises InputError for an open quotation."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise InputError(f"{printable(text)}: {error}") from error
