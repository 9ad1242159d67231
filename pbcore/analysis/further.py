"""How many questions would show what a run didn't, and which tasks have them: one rule for
verdicts, gates, comparisons and tuning.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pbcore.analysis.noninferiority import Tasks, p_worse, questions_that_settle
from pbcore.base.printable import counted, some
from pbcore.tasks.naming import short

MOST_QUESTIONS = 10_000  # of a task, which a verdict asks for
LISTED = 3  # tasks with too few questions, named
Sizes = Mapping[str, int | None]  # task → the questions that its data has; None: no known end


@dataclass(frozen=True, slots=True)
class Further:
    """What would show it: `limit` questions of each task, `more` than were answered over all tasks.
    `lacking` are the tasks that stand in its way, since their data has fewer, with how many they
    have; without one it can be had by `--limit`.
    """

    limit: int
    more: int
    lacking: Mapping[str, int]


def further_questions(
    differences: Tasks, sizes: Sizes, margin: float, level: float
) -> Further | None:
    """How many questions of each task show with a probability of 80 % that a sampler loses less
    than `margin`, if its scores stay what they are (a gain counts as none).

    Args:
        differences: a list of new − reference per task.
        sizes: of each task, in the same order.
        margin: the loss that is allowed, in (0, 1).
        level: of the one-sided test.

    Returns:
        What they can show; where their data has too few, what it would take; None if that needs
        more than `MOST_QUESTIONS` of each.
    """
    total = questions_that_settle(differences, margin, level)
    if total is None:
        return None
    first = math.ceil(total / len(differences))
    number = None
    ends = list(sizes.values())
    for most in (ends, [None] * len(ends)):
        number = _fewest(differences, most, margin, level, first)
        if number is not None:
            break
    if number is None:
        return None
    lacking = {}
    if most != ends:
        lacking = too_few(sizes, number)
    more = 0
    for task, size in zip(differences, most, strict=True):
        more += max(0, _at_most(number, size) - len(task))
    return Further(number, more, lacking)


def _fewest(
    differences: Tasks, most: Sequence[int | None], margin: float, level: float, first: int
) -> int | None:
    """The fewest questions of each task that show it, from `first` on and of two digits; None if
    `most` of each don't, or that takes more than `MOST_QUESTIONS`.
    """
    number = first
    while True:
        number = two_digits(number)
        ended = all(size is not None and size <= number for size in most)
        if ended:
            number = max(size for size in most if size is not None)
        if number > MOST_QUESTIONS:
            return None
        # The test itself has the last word: the formula is an approximation.
        questions = [_at_most(number, size) for size in most]
        if p_worse(differences, margin, questions=questions) <= level:
            return number
        if ended:
            return None
        number = math.ceil(1.1 * number)


def too_few(sizes: Sizes, number: int) -> dict[str, int]:
    """The tasks whose data has fewer than so many questions, with how many it has."""
    return {task: size for task, size in sizes.items() if size is not None and size < number}


def reachable(sizes: Sizes, number: int) -> int:
    """So many questions, or as many as all tasks have."""
    return min([number, *(size for size in sizes.values() if size is not None)])


def has_only(tasks: Mapping[str, int]) -> str:
    """`rows has only 3 questions`; of several tasks `rows has only 3, pairs only 8 questions`."""
    (first, size), *others = tasks.items()
    if not others:
        return f"{short(first)} has only {counted(size, 'question')}"
    parts = [f"{short(task)} only {each:,}" for task, each in others]
    return f"{short(first)} has only {size:,}, {some(parts, LISTED - 1)} questions"


def two_digits(number: int) -> int:
    """A number up to two digits and zeros."""
    unit: int = 10 ** max(0, len(str(number)) - 2)
    return math.ceil(number / unit) * unit


def _at_most(number: int, size: int | None) -> int:
    return number if size is None else min(number, size)
