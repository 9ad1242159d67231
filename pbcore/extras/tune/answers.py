"""What the runs of a tuning say of each sampler, beside the reference on the same questions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from pbcore.analysis.beside import Beside, CellAnswers, beside, cell_answers
from pbcore.analysis.noninferiority import p_worse
from pbcore.base.errors import InputError
from pbcore.costs.kinds import Cost
from pbcore.extras.tune.axis import CostAxis
from pbcore.extras.tune.race import Standing
from pbcore.results.rundir import RunDir, StoredCell


@dataclass(frozen=True, slots=True)
class Round:
    """A finished run: sampler → task → answers; and sampler → why it failed."""

    cells: Mapping[str, Mapping[str, CellAnswers]]
    failed: Mapping[str, str]


def read_round(run: RunDir, axis: CostAxis) -> Round:
    """What a run measured. Raises InputError for a cell without its task's score, or without the
    axis' count.
    """
    cells: dict[str, dict[str, CellAnswers]] = {}
    failed: dict[str, str] = {}
    for stored in run.read_cells():
        cell = stored.cell
        if cell.status != "ok":
            failed.setdefault(cell.sampler, (cell.error or "it failed").splitlines()[0])
            continue
        cells.setdefault(cell.sampler, {})[cell.task] = _answers(stored, axis)
    finished = {sampler: tasks for sampler, tasks in cells.items() if sampler not in failed}
    return Round(finished, failed)


def _answers(stored: StoredCell, axis: CostAxis) -> CellAnswers:
    cell = stored.cell
    if not stored.samples or any(cell.headline not in sample.scores for sample in stored.samples):
        why = cell.absent.get(cell.headline, "no reason given")
        raise InputError(f"{cell.id}: its score {cell.headline} was not measured ({why})")
    answers = cell_answers(cell, stored.samples, axis.seconds(stored))
    if answers.mean_cost(axis.name) is None:
        raise InputError(
            f"{cell.id}: its record has no {axis.words}; choose another axis (--axis) or model"
        )
    return answers


def beside_reference(
    sampler: str, reference: str, rounds: Sequence[Round], cost: Cost
) -> Beside | None:
    """A sampler beside the reference over all rounds that have both; None if none has.

    Args:
        sampler: its name.
        reference: its name.
        rounds: of the race, or the proof alone.
        cost: what is to be small.
    """
    own = _of_all(sampler, rounds)
    base = _of_all(reference, rounds)
    return beside(sampler, [(own[task], base[task]) for task in own if task in base], cost)


def _of_all(sampler: str, rounds: Iterable[Round]) -> dict[str, CellAnswers]:
    """Task → the answers of all rounds, which ask other questions each."""
    every: dict[str, CellAnswers] = {}
    for one in rounds:
        for task, new in one.cells.get(sampler, {}).items():
            known = every.get(task, new)
            costs = {kind: {**known.costs[kind], **new.costs[kind]} for kind in new.costs}
            every[task] = CellAnswers(new.cell, {**known.scores, **new.scores}, costs)
    return every


def standing_of(own: Beside, reference: str, rounds: Sequence[Round], margin: float) -> Standing:
    """How a sampler stands in the race.

    Args:
        own: it beside the reference, over all rounds.
        reference: the reference's name.
        rounds: of the race.
        margin: the loss that is allowed, in score units.
    """
    cost = own.cost or "calls"
    runs: list[tuple[int, object]] = []
    for one in rounds:
        alone = beside_reference(own.sampler, reference, [one], cost)
        if alone is not None:
            answers = {}
            for task, paired in alone.by_task.items():
                answers[task] = paired.differences, fmean(paired.costs[cost][0])
            runs.append((alone.questions, answers))
    turned = [[-value for value in values] for values in own.differences]
    return Standing(
        sampler=own.sampler,
        cost=own.cost_share,
        p_loss=p_worse(own.differences, margin),
        p_good=p_worse(turned, -margin),
        n=own.questions,
        runs=tuple(runs),
    )
