"""Measures what an explanation lacks, and works out each option's part."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pbcore.analysis.differences import Change, Differences, differences, setting_of
from pbcore.analysis.explanation import Explanation, OptionShare
from pbcore.analysis.shares import (
    MOST_SHARED,
    Floats,
    Part,
    combination_of,
    merged,
    needed,
    part_of,
    shapley,
)
from pbcore.base.errors import InputError
from pbcore.base.printable import some
from pbcore.explain.combinations import OptionMix, combination, factors_of, refusal
from pbcore.explain.sides import QuestionScores, Side
from pbcore.grid.levels import FACTORS
from pbcore.grid.option import OptionValues, numbers_text
from pbcore.plugin.pytest_runs import read_settings, run_into
from pbcore.report.rerun import deciding_words
from pbcore.results.load import load_stored
from pbcore.results.record import question_scores
from pbcore.results.rundir import StoredCell
from pbcore.tasks.naming import short

MOST = 12  # options that are measured one by one
NOTHING = Part(nan, nan, nan)


@dataclass(frozen=True, slots=True)
class ExplanationPlan:
    """What an explanation measures: the two sides and what differs, the tasks and their common
    questions (none: as the words say), the words of its run, and the combinations, of which those
    with a `why` can't run.
    """

    first: Side
    second: Side
    differs: Differences
    tasks: Sequence[str]
    questions: Mapping[str, Sequence[int]]
    words: Sequence[str]
    combinations: Mapping[int, OptionMix]

    @property
    def changes(self) -> Sequence[Change]:
        return self.differs.varied

    @property
    def whole(self) -> int:
        """The number of the second setting."""
        return (1 << len(self.changes)) - 1

    def recorded(self, number: int) -> QuestionScores:
        """What is known of a setting before anything is run."""
        if number == 0:
            return self.first.scores
        return self.second.scores if number == self.whole else {}


def make_plan(first: Side, second: Side, more: Sequence[str]) -> ExplanationPlan:
    """What is to be measured. `more` are further options of the run.

    Raises:
        InputError: for sides that asked different questions, or differ in too many options.
    """
    for name, before in first.setting.asked.items():
        after = second.setting.asked.get(name, "")
        if before != after:
            flag = f"--{name.replace('_', '-')}"
            raise InputError(
                f"{flag}: {before or 'not given'} in {first.name}, {after or 'not given'} in"
                f" {second.name}; they asked other questions, which can't be paired"
            )
    tasks = [task for task in first.tasks if task in second.tasks]
    if not tasks:
        raise InputError(f"{first.name} and {second.name} have no task in common")
    differs = differences(first.setting, second.setting)
    if len(differs.varied) > MOST:
        raise InputError(
            f"they differ in {len(differs.varied)} options; at most {MOST} are told apart"
        )
    questions = {}
    for task in tasks:
        had = [side.scores[task] for side in (first, second) if task in side.scores]
        if had:
            common = set.intersection(*(set(scores) for scores in had))
            if not common:
                raise InputError(f"{short(task)}: the two runs have no question in common")
            questions[task] = sorted(common)
    words = _words(first, differs, tasks, questions, more)
    combinations = {}
    if differs.varied:
        settings = read_settings(words)
        for number in needed(len(differs.varied)):
            one = combination(number, first.setting, second.setting, differs.varied, tasks)
            combinations[number] = replace(one, why=refusal(settings, one))
    plan = ExplanationPlan(first, second, differs, tasks, questions, words, combinations)
    for number, side in ((0, first), (plan.whole, second)):
        if differs.varied and combinations[number].why and not side.scores:
            raise InputError(f"{side.name} can't run: {combinations[number].why}")
    return plan


def _words(
    first: Side,
    differs: Differences,
    tasks: Sequence[str],
    questions: Mapping[str, Sequence[int]],
    more: Sequence[str],
) -> list[str]:
    """The words of the run: the options that both sides share, the questions, the factors."""
    varied = {FACTORS[change.name].field for change in differs.varied if not change.fields}
    hidden = {*varied, "batch_size", "factor", "limit", "questions"}
    values = {name: value for name, value in first.values.items() if name not in hidden}
    one = combination(0, first.setting, first.setting, (), tasks)
    words = ["--model", first.setting.model]
    for task in tasks:
        words += ["--task", task]
    words += list(dict.fromkeys(_deciding(one, values, tasks)))
    for task, numbers in questions.items():
        words += ["--questions", f"{task}={numbers_text(numbers)}"]
    for text in factors_of(differs.varied):
        words += ["--factor", text]
    return [*words, *more]


def _deciding(one: OptionMix, values: OptionValues, tasks: Sequence[str]) -> list[str]:
    """The options that act on a cell of any of the tasks; each once, with its value behind `=`."""
    words: list[str] = []
    for task in tasks:
        found = deciding_words(one.cells[task], values)
        while found:
            word = found.pop(0)
            if found and not found[0].startswith("--"):
                word = f"{word}={found.pop(0)}"
            words.append(word)
    return words


def run_words(plan: ExplanationPlan, numbers: Sequence[int]) -> list[str]:
    """What pytest is called with to run some combinations."""
    cells = [
        cell.item_id for number in numbers for cell in plan.combinations[number].cells.values()
    ]
    return [*cells, "-q", "-p", "no:cacheprovider", *plan.words]


def missing(plan: ExplanationPlan) -> list[int]:
    """The combinations that have to be run: those that can, without what both sides measured under
    settings that differ in nothing else.
    """
    numbers = [number for number, one in plan.combinations.items() if not one.why]
    if plan.differs.fixed or plan.second.means or plan.second.notes:
        return numbers
    return [number for number in numbers if not plan.recorded(number)]


def estimate(plan: ExplanationPlan) -> int:
    """Prints what the run would take; pytest's exit status."""
    numbers = missing(plan)
    if not numbers:
        print("nothing is missing: both sides are measured")
        return 0
    return int(pytest.main([*run_words(plan, numbers), "--estimate"]))


def measure(plan: ExplanationPlan, folder: Path, done: Callable[[str], None]) -> Explanation:
    """Runs what is missing into a folder, and works the explanation out.

    Args:
        plan: of the explanation.
        folder: of its run; what is finished there stays.
        done: called with the node id of each finished cell.

    Raises:
        InputError: where a side can't be measured.
    """
    numbers = missing(plan)
    if numbers:
        run_into(folder, run_words(plan, numbers), done)
        stored = _stored(folder)
        if set(numbers) < set(plan.combinations) and _elsewhere(plan, stored):
            numbers = [number for number, one in plan.combinations.items() if not one.why]
            run_into(folder, run_words(plan, numbers), done)
            stored = _stored(folder)
    else:
        stored = {}
    return _explained(plan, stored, numbers)


def measured_gap(plan: ExplanationPlan) -> Explanation:
    """The difference of two runs whose settings are the same, as far as they can be varied."""
    return _parts(plan, {}, {})


def _stored(folder: Path) -> dict[str, StoredCell]:
    return {entry.cell.id: entry for entry in load_stored(folder)}


def _elsewhere(plan: ExplanationPlan, stored: Mapping[str, StoredCell]) -> bool:
    """Whether the sides were measured under versions or on a device that this machine hasn't."""
    cells = [entry.cell for entry in stored.values() if entry.cell.status == "ok"]
    if not cells:
        return False
    here = setting_of(cells[0])
    names = ("device", "pbcore", "torch", "transformers", "tokenizers", "numpy", "weights")
    there = plan.first.setting.facts
    return any(there.get(name, "") != here.facts.get(name, "") for name in names)


def _explained(
    plan: ExplanationPlan, stored: Mapping[str, StoredCell], ran: Sequence[int]
) -> Explanation:
    """The explanation of what was measured."""
    refused: dict[int, str] = {}
    by_number: dict[int, QuestionScores] = {}
    for number, one in plan.combinations.items():
        if number not in ran and not one.why:
            by_number[number] = plan.recorded(number)
            continue
        why = one.why
        scores: dict[str, Mapping[int, float]] = {}
        for task, cell in one.cells.items():
            entry = stored.get(cell.cell_id)
            if why or entry is None or entry.cell.status != "ok":
                error = entry.cell.error if entry is not None else None
                why = why or error or "it was not measured"
                continue
            scores[task] = question_scores(entry.samples, entry.cell.headline)
        if why:
            why = re.sub(rf"^(\w+Error: )?(sampler {re.escape(one.sampler)}: )?", "", why)
            refused[number] = f"{one.name} can't run: {why}"
        else:
            by_number[number] = scores
    return _parts(plan, by_number, refused)


def _parts(
    plan: ExplanationPlan, by_number: dict[int, QuestionScores], refused: Mapping[int, str]
) -> Explanation:
    """Each option's part."""
    sides = [_of_side(plan, by_number, 0), _of_side(plan, by_number, plan.whole)]
    for number, scores in zip((0, plan.whole), sides, strict=True):
        if scores is None:
            raise InputError(refused.get(number, "a side was not measured"))
    before, after = (scores for scores in sides if scores is not None)
    arrays = [*by_number.values(), *(side for side in (before, after) if side)]
    common = {task: _common(task, arrays) for task in plan.tasks}
    tables = {number: _arrays(scores, common) for number, scores in by_number.items()}
    shares = _shares(plan, tables, refused)
    means = plan.second.means
    first = _arrays(before, common)
    unexplained = None
    if means:
        after_mean = float(np.mean([means[task] for task in plan.tasks]))
        gap = Part(100 * (after_mean - _mean(first)), nan, nan)
        reached = _mean(tables[plan.whole]) - _mean(tables[0])
        unexplained = Part(gap.points - 100 * reached, nan, nan)
    else:
        second = _arrays(after, common)
        after_mean = _mean(second)
        gap = part_of(_difference(second, first))
        if tables and _has_rest(plan, by_number):
            reached_by = _difference(tables[plan.whole], tables[0])
            unexplained = part_of(_difference(_difference(second, first), reached_by))
    unmeasured = [str(change) for change in plan.differs.fixed]
    return Explanation(
        plan.first.name,
        plan.second.name,
        plan.first.setting.model,
        list(plan.tasks),
        sum(map(len, common.values())),
        _mean(first),
        after_mean,
        gap.points,
        gap.low,
        gap.high,
        shares,
        unexplained,
        [*unmeasured, *plan.second.notes],
    )


def _of_side(
    plan: ExplanationPlan, by_number: Mapping[int, QuestionScores], number: int
) -> QuestionScores | None:
    """The scores of a side: its own, else those measured here; those of a published one are
    measured here.
    """
    return plan.recorded(number) or by_number.get(number)


def _has_rest(plan: ExplanationPlan, by_number: Mapping[int, QuestionScores]) -> bool:
    """Whether a side's own scores are others than those that the parts were worked out from."""
    for number in (0, plan.whole):
        own = plan.recorded(number)
        if own and by_number.get(number) is not own:
            return True
    return False


def _shares(
    plan: ExplanationPlan, tables: Mapping[int, Sequence[Floats]], refused: Mapping[int, str]
) -> list[OptionShare]:
    changes = plan.changes
    if not changes:
        return []
    if len(changes) > MOST_SHARED:
        return [_alone(plan, place, tables, refused) for place in range(len(changes))]
    groups = merged(list(refused), len(changes))
    shares = []
    number_of_tasks = len(plan.tasks)
    of_groups: list[list[Floats]] = [[] for _ in groups]
    for task in range(number_of_tasks):
        scores = {}
        for number in range(1 << len(groups)):
            scores[number] = tables[combination_of(groups, number)][task]
        for place, share in enumerate(shapley(scores, len(groups))):
            of_groups[place].append(share)
    for group, parts in zip(groups, of_groups, strict=True):
        members = [changes[option] for option in group]
        shares.append(_share(_together(members), part_of(parts)))
        if len(members) > 1:
            why = f"open: {next(iter(refused.values()))}"
            shares += [_share(one, NOTHING, why=why) for one in members]
    return shares


def _together(changes: Sequence[Change]) -> Change:
    """Changes that are made in one step, as one."""
    if len(changes) == 1:
        return changes[0]
    return Change(
        " and ".join(change.name for change in changes),
        ", ".join(change.before for change in changes),
        ", ".join(change.after for change in changes),
    )


def _share(change: Change, part: Part, **more: Any) -> OptionShare:
    names = change.name, change.before, change.after, str(change)
    return OptionShare(*names, part.points, part.low, part.high, **more)


def _alone(
    plan: ExplanationPlan,
    place: int,
    tables: Mapping[int, Sequence[Floats]],
    refused: Mapping[int, str],
) -> OptionShare:
    """An option of many: alone added to the first setting, and alone taken from the second."""
    change = plan.changes[place]
    bit = 1 << place
    whole = plan.whole
    why = refused.get(bit) or refused.get(whole ^ bit) or ""
    added = part_of(_difference(tables[bit], tables[0])) if bit in tables else NOTHING
    taken = NOTHING
    if whole ^ bit in tables:
        taken = part_of(_difference(tables[whole], tables[whole ^ bit]))
    return _share(change, NOTHING, added=added, taken=taken, why=why)


def _common(task: str, scores: Sequence[QuestionScores]) -> list[int]:
    """The questions of a task that all have. Raises InputError for none."""
    common = set.intersection(*(set(one[task]) for one in scores))
    if not common:
        raise InputError(f"{short(task)}: no question has a score in {some(['all settings'], 1)}")
    return sorted(common)


def _arrays(scores: QuestionScores, common: Mapping[str, Sequence[int]]) -> list[Floats]:
    """The scores of each task's common questions."""
    return [np.array([scores[task][i] for i in numbers]) for task, numbers in common.items()]


def _difference(after: Sequence[Floats], before: Sequence[Floats]) -> list[Floats]:
    return [new - old for new, old in zip(after, before, strict=True)]


def _mean(tasks: Sequence[Floats]) -> float:
    return float(np.mean([one.mean() for one in tasks]))
