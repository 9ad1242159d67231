"""What a page says first: the verdict on each model, over all tasks and over each one alone, for
the filter of the page.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from pbcore.analysis.headline import Headline
from pbcore.report.headline import HeadlineInWords, RunVerdicts, in_words
from pbcore.report.page.points import ALL

EMPTY: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Card:
    """A model, whose name the page's filters know, and the verdict on it."""

    model: str
    verdict: HeadlineInWords


def cards_of(verdicts: Iterable[Headline], names: Mapping[str, str] = EMPTY) -> list[Card]:
    """A card per verdict; models that have other `names` on the page stand under these."""
    return [
        Card(names.get(verdict.model, verdict.model), in_words(verdict)) for verdict in verdicts
    ]


def all_cards(
    verdicts: RunVerdicts, tasks: Sequence[str], names: Mapping[str, str] = EMPTY
) -> dict[str, list[Card]]:
    """A card per model with scores, for the whole and for each task alone.

    Args:
        verdicts: those of the run.
        tasks: of the run.
        names: model → its name on the page, where that is another.

    Returns:
        Task, or `ALL`, → its cards; none of a task that is the only one.
    """
    cards = {ALL: cards_of(verdicts.chosen(), names)}
    if len(tasks) > 1:
        for task in tasks:
            cards[task] = cards_of(verdicts.of_task(task), names)
    return cards
