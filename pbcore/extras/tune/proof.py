"""The proof: the samplers that are left, on questions that nothing was chosen on.

Each is tested against "loses the margin or more", one-sided, stratified by task, with Holm's
correction over those tried; the recommended one is the fastest of those confirmed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pbcore.analysis.beside import Beside, no_worse
from pbcore.analysis.noninferiority import lower_bound, p_worse, questions_that_settle
from pbcore.analysis.paired import holm
from pbcore.extras.tune.race import LEVEL


@dataclass(frozen=True, slots=True)
class Trial:
    """A sampler in the proof: `worse` the tasks on which it is shown to be
    worse than the reference (Holm over the tasks); `limits` the task with its largest loss;
    `needed` how many questions, over all tasks, would confirm it if its scores stayed as they are
    (None: none would).
    """

    paired: Beside
    worse: tuple[str, ...]
    limits: str
    needed: int | None

    @property
    def sampler(self) -> str:
        return self.paired.sampler

    @property
    def p(self) -> float:
        """Adjusted by Holm."""
        return self.paired.p

    @property
    def confirmed(self) -> bool:
        return self.paired.shown


def trials(tried: Sequence[Beside], margin: float) -> list[Trial]:
    """The samplers of the proof, in the given order."""
    made = []
    for one in no_worse(tried, margin):
        needed = questions_that_settle(one.differences, margin, LEVEL / len(tried))
        made.append(Trial(one, _worse(one), _limits(one), needed))
    return made


def recommended(tried: Sequence[Trial]) -> Trial | None:
    """The fastest confirmed one that is faster than the reference; None if none is."""
    good = [trial for trial in tried if trial.confirmed and trial.paired.cost_share < 1]
    return min(good, key=lambda trial: (trial.paired.cost_share, trial.sampler), default=None)


def _worse(one: Beside) -> tuple[str, ...]:
    turned = [[-value for value in values] for values in one.differences]
    adjusted = holm([p_worse([values], 0.0) for values in turned])
    pairs = zip(one.by_task, adjusted, strict=True)
    return tuple(task for task, p in pairs if p <= LEVEL)


def _limits(one: Beside) -> str:
    """The task with the lowest bound."""
    return min(one.by_task, key=lambda task: lower_bound([one.by_task[task].differences]))
