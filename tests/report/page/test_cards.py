"""pbcore.report.page.cards: the verdict on a model as a page says it first."""

from __future__ import annotations

from collections.abc import Sequence

from pbcore.report.answers import ReportCell
from pbcore.report.page.cards import Card, cards_by_task, cards_of
from pbcore.results import frame
from tests.results import factory

TASKS = ("waiting_line/copy", "waiting_line/shuffle")


def run(scores: dict[str, tuple[int, Sequence[float]]], n: int = 100) -> list[ReportCell]:
    """A model's samplers with their forwards and the share that is right on each task."""
    found = []
    for sampler, (nfe, shares) in scores.items():
        for task, share in zip(TASKS, shares, strict=False):
            right = [float(i < share * n) for i in range(n)]
            cell, samples = factory.cell(task=task, sampler=sampler, right=right, n=n, nfe=nfe)
            found.append(ReportCell(cell.id, cell.model, cell, samples))
    return found


def card(answers: list[ReportCell]) -> Card:
    (only,) = cards_of(frame([one.cell for one in answers]), answers, {})
    return only


GOOD = {
    "confidence-k1": (32, (1.0, 1.0)),
    "confidence-k2": (16, (1.0, 0.8)),
    "confidence-k4": (8, (1.0, 0.1)),
    "threshold-0.9": (4, (0.99, 1.0)),
}


class TestCard:
    def test_the_sampler_to_use(self) -> None:
        """The fastest that is shown to be as good, how much faster, and on which tasks it fails."""
        told = card(run(GOOD))
        assert (told.sampler, told.chosen) == ("threshold-0.9", True)
        assert told.speed.startswith("8.0 times fewer forwards")
        assert told.quality.startswith("99.5 % against 100.0 %, −0.5 points")
        assert told.weak == "on no task more than 5 points lower"

    def test_the_one_that_falls_first(self) -> None:
        """The slowest of those that lose more than 5 points, and where it loses most."""
        told = card(run(GOOD))
        assert told.falls.startswith("confidence-k2 (2.0 times fewer forwards")
        assert told.falls.endswith("most on shuffle (80 % against 100 %)")

    def test_weak_tasks(self) -> None:
        """Tasks with a loss of more than 5 points, though their mean is within."""
        told = card(run({"confidence-k1": (32, (1.0, 1.0)), "random-k2": (16, (1.0, 0.93))}, 400))
        assert told.chosen
        assert told.weak == "weak on shuffle (93 % against 100 %)"

    def test_none_is_shown(self) -> None:
        """The one that more questions could show stands there, not chosen, with their number."""
        few = run({name: GOOD[name] for name in ("confidence-k1", "confidence-k4")}, 10)
        few += run({"threshold-0.9": (4, (1.0, 1.0))}, 10)
        told = card(few)
        assert (told.sampler, told.chosen) == ("threshold-0.9", False)
        assert "questions would settle it" in told.title

    def test_one_sampler_alone(self) -> None:
        """No verdict, and the reason."""
        told = card(run({"confidence-k1": (32, (1.0, 1.0))}))
        assert (told.sampler, told.title) == ("", "no verdict")
        assert "only one sampler" in told.sentence


def test_each_task_alone() -> None:
    """Its card counts its own questions; a run of one task has none beside the whole."""
    answers = run(GOOD)
    cells = frame([one.cell for one in answers])
    by_task = cards_by_task(cells, answers, {})
    assert {task: cards[0].sampler for task, cards in by_task.items()} == {
        TASKS[0]: "threshold-0.9",
        TASKS[1]: "threshold-0.9",
    }
    assert by_task[TASKS[0]][0].falls == ""
    assert "99.0 % against 100.0 %" in by_task[TASKS[0]][0].quality
    one = [answer for answer in answers if answer.cell.task == TASKS[0]]
    assert cards_by_task(frame([answer.cell for answer in one]), one, {}) == {}
