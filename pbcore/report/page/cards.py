"""What a page says first: the verdict on each model, over all tasks and over each one alone, for
the filter of the page.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pbcore.analysis.headline import Headline
from pbcore.report.headline import RunVerdicts, Verdict, in_words
from pbcore.report.page.points import ALL


@dataclass(frozen=True, slots=True)
class Card:
    """A model, whose name the page's filters know, and the verdict on it."""

    model: str
    verdict: Verdict


def cards_of(verdicts: Iterable[Headline]) -> list[Card]:
    """A card per verdict."""
    return [Card(verdict.model, in_words(verdict)) for verdict in verdicts]


def all_cards(verdicts: RunVerdicts, tasks: Sequence[str]) -> dict[str, list[Card]]:
    """A card per model with scores, for the whole and for each task alone.

    Args:
        verdicts: those of the run.
        tasks: of the run.

    Returns:
        Task, or `ALL`, → its cards; none of a task that is the only one.
    """
    cards = {ALL: cards_of(verdicts.chosen())}
    if len(tasks) > 1:
        for task in tasks:
            cards[task] = cards_of(verdicts.of_task(task))
    return cards
