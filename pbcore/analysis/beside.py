"""A sampler beside its reference, task by task, on the questions that both answered: scores and
costs, and whether it is shown to lose at most so much among several that are tested together.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Literal

from pbcore.analysis.noninferiority import CONFIDENCE, discordance_of, lower_bound, p_worse
from pbcore.analysis.paired import Costs, Paired, holm, holm_levels, on_common, total_costs
from pbcore.costs.kinds import Cost
from pbcore.results.record import CellRecord, SampleRecord, by_index, question_scores

AS_FAST = 1.05  # up to this ratio of costs, either way, two samplers are about as fast
Pace = Literal["faster", "about as fast", "slower", "unknown"]


def _rows(sample: SampleRecord) -> float | None:
    """The rows of an answer; its forwards, where they are the same."""
    return sample.nfe if sample.rows is None else sample.rows


# Calls are the NFE: forwards that only stored the prompt stand beside it in a record.
COUNTS: Mapping[Cost, Callable[[SampleRecord], float | None]] = {
    "calls": lambda sample: sample.nfe,
    "rows": _rows,
    "tokens": lambda sample: sample.tokens_forwarded,
}


@dataclass(frozen=True, slots=True)
class CellAnswers:
    """A cell's answers: their scores by question, and what each question cost, in the mean over
    its seeds.
    """

    cell: CellRecord
    scores: Mapping[int, float]
    costs: Costs

    def mean_cost(self, kind: Cost) -> float | None:
        """What an answer costs in the mean; None where not counted for each."""
        return mean_known(self.costs.get(kind, {}).values())


def cell_answers(
    cell: CellRecord, samples: Iterable[SampleRecord], seconds: float | None
) -> CellAnswers:
    """The answers that have their task's score.

    Args:
        cell: the record.
        samples: all its answers.
        seconds: of a question, where they are known; a cell has them in the mean alone.
    """
    scored = [sample for sample in samples if cell.headline in sample.scores]
    questions = by_index(scored)
    costs: dict[Cost, Mapping[int, float | None]] = {}
    for kind, count in COUNTS.items():
        costs[kind] = {i: mean_known(map(count, answers)) for i, answers in questions.items()}
    costs["seconds"] = dict.fromkeys(questions, seconds)
    return CellAnswers(cell, question_scores(scored, cell.headline), costs)


def mean_known(values: Iterable[float | None]) -> float | None:
    """A mean; None where a value is not known, and for no values."""
    every = list(values)
    known = [value for value in every if value is not None]
    return fmean(known) if known and len(known) == len(every) else None


@dataclass(frozen=True, slots=True)
class Beside:
    """A sampler beside its reference on the questions that both answered, by task. `cost` is what
    speed means; None: `speed_up`. Of `tested` samplers tested together, it is `shown` to lose at
    most the margin, at `level` by Holm's procedure, which adjusts its `p`; and `better` than the
    reference. `no_speed` says what is missing where `speed` is None, and `available` how many
    questions each task's data has (None: no known end).
    """

    sampler: str
    by_task: Mapping[str, Paired]
    cost: Cost | None = None
    no_speed: str = ""
    available: Mapping[str, int | None] = field(default_factory=dict)
    tested: int = 1
    p: float = 1.0
    level: float = 1 - CONFIDENCE
    shown: bool = False
    better: bool = False

    @property
    def differences(self) -> tuple[tuple[float, ...], ...]:
        """The paired ones of each task."""
        return tuple(paired.differences for paired in self.by_task.values())

    @property
    def score(self) -> float:
        """The mean over tasks."""
        return fmean(paired.head for paired in self.by_task.values())

    @property
    def reference_score(self) -> float:
        return fmean(paired.base for paired in self.by_task.values())

    @property
    def change(self) -> float:
        """The mean over tasks of the mean paired difference."""
        return fmean(map(fmean, self.differences))

    @property
    def bound(self) -> float:
        """The one-sided 95 % lower bound of `change`."""
        return lower_bound(self.differences)

    @property
    def lower(self) -> float:
        """The one-sided lower bound of `change` by the test that decides: above minus the margin if
        it is shown, above 0 if it is better.
        """
        bound = lower_bound(self.differences, 1 - self.level)
        return bound if self.better else min(0.0, bound)

    @property
    def discordance(self) -> float:
        """The share of questions whose scores differ, weighted by the squares of differences."""
        return discordance_of(self.differences)

    @property
    def questions(self) -> int:
        return sum(map(len, self.differences))

    def costs(self, kind: Cost) -> tuple[float, float] | None:
        """What an answer costs, (the sampler's, the reference's), added up over tasks."""
        return total_costs(self.by_task.values(), kind)

    def fewer(self, kind: Cost) -> float | None:
        """The reference's cost divided by the sampler's, so that 7.5 means 7.5 times fewer; None
        where not measured.
        """
        costs = self.costs(kind)
        return None if costs is None or not costs[0] else costs[1] / costs[0]

    def share(self, kind: Cost) -> float | None:
        """The sampler's cost as a share of the reference's; None where not measured."""
        costs = self.costs(kind)
        return None if costs is None or not costs[1] else costs[0] / costs[1]

    @property
    def cost_share(self) -> float:
        """The share of the cost that speed means; 1 where not measured."""
        share = None if self.cost is None else self.share(self.cost)
        return 1.0 if share is None else share

    @property
    def rows(self) -> float | None:
        """How many times fewer rows; None where they are the forwards."""
        return None if self.costs("rows") == self.costs("calls") else self.fewer("rows")

    @property
    def speed(self) -> float | None:
        """How many times faster than the reference, by `cost`; None where it isn't known."""
        if self.cost is not None:
            return self.fewer(self.cost)
        return speed_up(self.fewer("calls"), self.rows, self.fewer("seconds"))

    @property
    def pace(self) -> Pace:
        speed = self.speed
        if speed is None:
            return "unknown"
        if speed >= AS_FAST:
            return "faster"
        return "slower" if speed <= 1 / AS_FAST else "about as fast"


def speed_up(forwards: float | None, rows: float | None, seconds: float | None) -> float | None:
    """How much faster a sampler is than the reference: in forwards; where rows are not forwards, no
    more than its seconds show, and without them, no more than its rows.

    Args:
        forwards: the reference's forwards divided by the sampler's; None where not counted.
        rows: the same of rows; None where they are the forwards.
        seconds: the same of seconds; None where not measured alike.

    Returns:
        The ratio, of seconds alone without forwards; None where nothing is known.
    """
    if forwards is None:
        return seconds
    if rows is None:
        return forwards
    return min(forwards, rows if seconds is None else seconds)


def beside(
    sampler: str, cells: Iterable[tuple[CellAnswers, CellAnswers]], cost: Cost | None = None
) -> Beside | None:
    """A sampler beside its reference; None without a common question.

    Args:
        sampler: its name.
        cells: its answers to each task, with the reference's.
        cost: what speed is.
    """
    by_task = {}
    for own, theirs in cells:
        paired = on_common(own.scores, theirs.scores, (own.costs, theirs.costs))
        if paired.n:
            by_task[own.cell.task] = paired
    return Beside(sampler, by_task, cost) if by_task else None


def no_worse(pairs: Sequence[Beside], margin: float) -> list[Beside]:
    """Samplers that are tested together by Holm's procedure: which are shown to lose at most the
    margin, in score units, and at what level that was decided.
    """
    p_values = [p_worse(pair.differences, margin) for pair in pairs]
    levels = holm_levels(p_values, 1 - CONFIDENCE)
    tested = []
    for pair, p, (shown, level) in zip(pairs, holm(p_values), levels, strict=True):
        tested.append(replace(pair, tested=len(pairs), p=p, level=level, shown=shown))
    return tested
