"""The proof: the samplers that are left, on questions that nothing was chosen on.

Each is tested against "loses the margin or more", one-sided, stratified by task, with Holm's
correction over those tried; the recommended one is the fastest of those confirmed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pbcore.analysis.noninferiority import lower_bound, p_worse, questions_that_settle
from pbcore.analysis.paired import holm
from pbcore.extras.tune.answers import BesideReference
from pbcore.extras.tune.race import LEVEL


@dataclass(frozen=True, slots=True)
class Trial:
    """A sampler in the proof: `p` adjusted by Holm; `worse` the tasks on which it is shown to be
    worse than the reference (Holm over the tasks); `limits` the task with its largest loss;
    `needed` how many questions, over all tasks, would confirm it if its scores stayed as they are
    (None: none would).
    """

    paired: BesideReference
    p: float
    worse: tuple[str, ...]
    limits: str
    needed: int | None

    @property
    def sampler(self) -> str:
        return self.paired.sampler

    @property
    def confirmed(self) -> bool:
        return self.p <= LEVEL


def trials(tried: Sequence[BesideReference], margin: float) -> list[Trial]:
    """The samplers of the proof, in the given order."""
    p_values = [p_worse(list(one.differences.values()), margin) for one in tried]
    wanted = [
        questions_that_settle(list(one.differences.values()), margin, LEVEL / len(tried))
        for one in tried
    ]
    return [
        Trial(one, p, _worse(one), _limits(one), needed)
        for one, p, needed in zip(tried, holm(p_values), wanted, strict=True)
    ]


def recommended(tried: Sequence[Trial]) -> Trial | None:
    """The fastest confirmed one that is faster than the reference; None if none is."""
    good = [trial for trial in tried if trial.confirmed and (trial.paired.cost or 1.0) < 1]
    return min(good, key=lambda trial: (trial.paired.cost, trial.sampler), default=None)


def _worse(one: BesideReference) -> tuple[str, ...]:
    turned = [[-value for value in values] for values in one.differences.values()]
    adjusted = holm([p_worse([values], 0.0) for values in turned])
    pairs = zip(one.differences, adjusted, strict=True)
    return tuple(task for task, p in pairs if p <= LEVEL)


def _limits(one: BesideReference) -> str:
    """The task with the lowest bound."""
    return min(one.differences, key=lambda task: lower_bound([one.differences[task]]))
