"""What the runs of a tuning say of each sampler, beside the reference on the same questions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from pbcore.analysis.noninferiority import discordance_of, lower_bound, p_worse
from pbcore.analysis.paired import on_common
from pbcore.base.errors import InputError
from pbcore.extras.tune.axis import CostAxis
from pbcore.extras.tune.race import Standing
from pbcore.results.record import question_scores
from pbcore.results.rundir import RunDir, StoredCell


@dataclass(frozen=True, slots=True)
class CellAnswers:
    """A sampler's answers to a task in one run: question → score, and mean costs of an answer: on
    the axis, in forwards, in canvases forwarded, and in tokens where they were counted.
    """

    scores: Mapping[int, float]
    cost: float | None
    forwards: float | None
    rows: float | None
    tokens: float | None = None


@dataclass(frozen=True, slots=True)
class Round:
    """A finished run: sampler → task → answers; and sampler → why it failed."""

    cells: Mapping[str, Mapping[str, CellAnswers]]
    failed: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class BesideReference:
    """A sampler beside the reference, over the questions that both answered.

    `differences` by task, in score units. `cost`, `forwards`, `rows` and `tokens` are shares of the
    reference's, added up over tasks; None where not measured. `runs` as of `race.Standing`.
    """

    sampler: str
    differences: Mapping[str, tuple[float, ...]]
    cost: float | None
    forwards: float | None
    rows: float | None
    tokens: float | None
    runs: tuple[tuple[int, object], ...] = ()

    @property
    def n(self) -> int:
        return sum(map(len, self.differences.values()))

    @property
    def change(self) -> float:
        """Mean over tasks of the mean difference."""
        return fmean(fmean(values) for values in self.differences.values())

    @property
    def lower(self) -> float:
        """Its one-sided 95 % bound."""
        return lower_bound(list(self.differences.values()))

    @property
    def discordance(self) -> float:
        """The share of questions whose scores differ, weighted by the squares of differences."""
        return discordance_of(list(self.differences.values()))

    def standing(self, margin: float) -> Standing:
        """How it stands in the race."""
        differences = [list(values) for values in self.differences.values()]
        turned = [[-value for value in values] for values in differences]
        return Standing(
            sampler=self.sampler,
            cost=1.0 if self.cost is None else self.cost,
            p_loss=p_worse(differences, margin),
            p_good=p_worse(turned, -margin),
            n=self.n,
            runs=self.runs,
        )


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
    if any(cell.headline not in sample.scores for sample in stored.samples):
        why = cell.absent.get(cell.headline, "no reason given")
        raise InputError(f"{cell.id}: its score {cell.headline} was not measured ({why})")
    scores = question_scores(stored.samples, cell.headline)
    cost = axis.of(stored)
    if cost is None:
        raise InputError(
            f"{cell.id}: its record has no {axis.words}; choose another axis (--axis) or model"
        )
    rows = cell.nfe_mean if cell.rows_mean is None else cell.rows_mean
    return CellAnswers(scores, cost, cell.nfe_mean, rows, cell.tokens_forwarded)


def beside_reference(
    sampler: str, reference: str, rounds: Iterable[Round]
) -> BesideReference | None:
    """A sampler beside the reference over all rounds that have both; None if none has.

    Args:
        sampler: its name.
        reference: its name.
        rounds: of the race, or the proof alone.
    """
    differences: dict[str, list[float]] = {}
    both: dict[str, list[tuple[int, CellAnswers, CellAnswers]]] = {}
    runs: list[tuple[int, object]] = []
    for one in rounds:
        answers: dict[str, tuple[list[float], float | None]] = {}
        number = 0
        for task, own in one.cells.get(sampler, {}).items():
            base = one.cells.get(reference, {}).get(task)
            if base is None:
                continue
            paired = on_common(own.scores, base.scores)
            differences.setdefault(task, []).extend(paired.differences)
            both.setdefault(task, []).append((paired.n, own, base))
            answers[task] = ([own.scores[index] for index in paired.indices], own.cost)
            number += paired.n
        if answers:
            runs.append((number, answers))
    if not differences:
        return None
    return BesideReference(
        sampler,
        {task: tuple(values) for task, values in differences.items()},
        cost=_share(both.values(), "cost"),
        forwards=_share(both.values(), "forwards"),
        rows=_share(both.values(), "rows"),
        tokens=_share(both.values(), "tokens"),
        runs=tuple(runs),
    )


def _share(
    tasks: Iterable[Sequence[tuple[int, CellAnswers, CellAnswers]]], name: str
) -> float | None:
    """A cost as a share of the reference's: means over the questions of each task, added up."""
    own_total = 0.0
    base_total = 0.0
    for parts in tasks:
        whole = sum(number for number, _, _ in parts)
        for number, own, base in parts:
            one = getattr(own, name)
            other = getattr(base, name)
            if one is None or other is None:
                return None
            own_total += number / whole * one
            base_total += number / whole * other
    return own_total / base_total if base_total else None
