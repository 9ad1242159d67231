"""Whether a model answers: a verdict on samplers of a model that answers nothing right would only
say that nothing was lost. One rule for headline, comparison, baseline and tuning.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from pbcore.analysis.noninferiority import lower_bound
from pbcore.base.printable import fixed
from pbcore.base.speed import MAX_LOSS

MOST_NEEDED = 0.2


@dataclass(frozen=True, slots=True)
class Answering:
    """A mean score over tasks, its one-sided 95 % lower bound, and what it must exceed, all in
    [0, 1].
    """

    score: float
    least: float
    needed: float

    @property
    def enough(self) -> bool:
        """Whether the score is shown to exceed what is needed."""
        return self.least > self.needed

    @property
    def text(self) -> str:
        """`scores 0.0 %, not shown to exceed 10 %`."""
        return f"scores {fixed(100 * self.score)} %, not shown to exceed {100 * self.needed:g} %"


def answering(scores: Sequence[Sequence[float]], max_loss: float = MAX_LOSS) -> Answering:
    """Whether answers are good enough to lose something: their mean over tasks must be shown to
    exceed twice the loss that is allowed, 20 % at most.

    For right and wrong answers to one task the bound is that of Clopper and Pearson (1934); see
    `noninferiority.lower_bound`.

    Args:
        scores: per task the scores of its questions, in [0, 1].
        max_loss: the loss that is allowed, in points.

    Raises:
        InputError: no task, a task without scores, or a score outside [0, 1].
    """
    below = [[score - 1 for score in task] for task in scores]
    least = 1 + lower_bound(below)
    needed = min(2 * max_loss / 100, MOST_NEEDED)
    return Answering(fmean(map(fmean, scores)), least, needed)


def little_to_lose(scores: Iterable[Sequence[float]], max_loss: float = MAX_LOSS) -> str:
    """What answers score that aren't good enough to lose something; empty for others, and without
    answers.

    Args:
        scores: per task the scores of its questions, in [0, 1].
        max_loss: as of `answering`.
    """
    tasks = [task for task in scores if task]
    answers = answering(tasks, max_loss) if tasks else None
    return "" if answers is None or answers.enough else answers.text
