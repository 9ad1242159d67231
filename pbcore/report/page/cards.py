"""What a page says first: a card per model with the sampler to use, how much faster it is, and what
falls first; of all tasks, and of each, for the page's filter.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from pbcore.analysis.headline import Against, Headline, TaskScores
from pbcore.printable import fixed
from pbcore.report.answers import ReportCell
from pbcore.report.headline import (
    basis,
    chosen_verdicts,
    points_text,
    quality,
    questions_text,
    sentence,
    speed,
)
from pbcore.results.rundir import RunFacts
from pbcore.tasks.naming import short
from pbcore.text import name

WORST = 3  # tasks named


@dataclass(frozen=True, slots=True)
class Card:
    """The verdict on a model. `sampler` is the one to use if it is `chosen`, else the fastest that
    more questions could show, or the fastest of all, and `title` says which; `speed`, `quality` and
    its `basis` are this sampler's. `weak` are the tasks on which it loses more than allowed,
    `falls` the first faster sampler that does over all tasks. `sentence` is the headline as the
    terminal prints it.
    """

    model: str
    sampler: str = ""
    chosen: bool = False
    title: str = ""
    speed: str = ""
    quality: str = ""
    basis: str = ""
    weak: str = ""
    falls: str = ""
    sentence: str = ""


def cards_of(cells: pd.DataFrame, answers: Sequence[ReportCell], run: RunFacts) -> list[Card]:
    """A card per model with scores.

    Args:
        cells: a frame of `results.load`.
        answers: those of its cells.
        run: the facts of run.json.
    """
    return [_card(verdict) for verdict in chosen_verdicts(cells, answers, run)]


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


def _card(verdict: Headline) -> Card:
    model = verdict.model
    if verdict.why:
        return Card(model, title="no verdict", sentence=f"{name(model)}: {verdict.why}")
    best = verdict.chosen or verdict.settled or verdict.fastest or verdict.slower
    if best is None:
        return Card(model, title="no faster sampler", sentence=sentence(verdict))
    allowed = points_text(verdict.max_loss)
    if verdict.chosen is not None:
        title = f"the fastest that is shown to lose at most {allowed} to {verdict.reference}"
    elif verdict.fastest is None:
        title = f"the next to {verdict.reference}; no sampler here is faster"
    else:
        title = f"not shown to lose at most {allowed} to {verdict.reference}, and no other one is"
        if verdict.settled is not None:
            title += f"; {questions_text(verdict.settled_by)}"
    if verdict.speed_is:
        title = f"{verdict.speed_is}: {title}"
    several = len(best.by_task) > 1
    return Card(
        model=model,
        sampler=best.sampler,
        chosen=verdict.chosen is not None,
        title=title,
        speed=speed(best),
        quality=quality(best),
        basis=basis(best),
        weak=_weak(best, verdict.max_loss) if several else "",
        falls=_falls(verdict, best, several),
        sentence=sentence(verdict),
    )


def _weak(best: Against, max_loss: float) -> str:
    """The tasks on which a sampler loses more than is allowed, the worst first."""
    lost = [task for task in _worst_first(best) if 100 * task.change < -max_loss]
    if not lost:
        return f"on no task more than {points_text(max_loss)} lower"
    tasks = ", ".join(_scores(task) for task in lost[:WORST])
    more = f" and {len(lost) - WORST} more" if len(lost) > WORST else ""
    return f"weak on {tasks}{more}"


def _falls(verdict: Headline, best: Against, several: bool) -> str:
    """The slowest of the faster samplers that lose more than is allowed, and where most; nothing
    where the card is about that one.
    """
    falls = verdict.falls
    if falls is None or falls.sampler == best.sampler:
        return ""
    most = f", most on {_scores(_worst_first(falls)[0])}" if several else ""
    return f"{name(falls.sampler)} ({speed(falls)}): {quality(falls)}{most}"


def _worst_first(sampler: Against) -> list[TaskScores]:
    return sorted(sampler.by_task, key=lambda task: task.change)


def _scores(task: TaskScores) -> str:
    score = fixed(100 * task.score, 0)
    reference = fixed(100 * task.reference_score, 0)
    return f"{name(short(task.task))} ({score} % against {reference} %)"
