"""What a page says first: the verdict on each model, over all tasks and over each one alone, for
the filter of the page.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from pbcore.report.answers import ReportCell
from pbcore.report.headline import Verdict, chosen_verdicts, in_words
from pbcore.results.rundir import RunFacts


@dataclass(frozen=True, slots=True)
class Card:
    """A model, whose name the page's filters know, and the verdict on it."""

    model: str
    verdict: Verdict


def cards_of(cells: pd.DataFrame, answers: Sequence[ReportCell], run: RunFacts) -> list[Card]:
    """A card per model with scores.

    Args:
        cells: a frame of `results.load`.
        answers: those of its cells.
        run: the facts of run.json.
    """
    verdicts = chosen_verdicts(cells, answers, run)
    return [Card(verdict.model, in_words(verdict)) for verdict in verdicts]


def cards_by_task(
    cells: pd.DataFrame, answers: Sequence[ReportCell], run: RunFacts
) -> dict[str, list[Card]]:
    """The cards of each task alone.

    Args:
        cells: a frame of `results.load`.
        answers: those of its cells.
        run: the facts of run.json.

    Returns:
        Task → its cards; none where there is only one task.
    """
    tasks = list(dict.fromkeys(str(task) for task in cells["task"]))
    if len(tasks) < 2:
        return {}
    by_task: dict[str, list[ReportCell]] = {task: [] for task in tasks}
    for answer in answers:
        by_task.setdefault(answer.cell.task, []).append(answer)
    cards = {}
    for task in tasks:
        of_task = cells[cells["task"].isin([task])]
        cards[task] = cards_of(of_task, by_task[task], run)
    return cards
