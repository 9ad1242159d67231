"""pbcore.report.page.cards: the verdict on a model as a page says it first."""

from __future__ import annotations

from collections.abc import Sequence

from pbcore.report.answers import ReportCell
from pbcore.report.headline import HeadlineInWords, RunVerdicts
from pbcore.report.page.cards import Card, all_cards
from pbcore.report.page.points import ALL
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


def cards(answers: list[ReportCell]) -> dict[str, list[Card]]:
    cells = factory.rows(answer.cell for answer in answers)
    tasks = list(dict.fromkeys(row["task"] for row in cells))
    return all_cards(RunVerdicts(cells, answers, {}), tasks)


def card(answers: list[ReportCell]) -> HeadlineInWords:
    (only,) = cards(answers)[ALL]
    return only.verdict


GOOD = {
    "confidence-k1": (32, (1.0, 1.0)),
    "confidence-k2": (16, (1.0, 0.8)),
    "confidence-k4": (8, (1.0, 0.1)),
    "threshold-0.9": (4, (0.99, 1.0)),
}


class TestCard:
    def test_the_sampler_to_use(self) -> None:
        """The fastest that is shown to be as good, and the one that falls first."""
        told = card(run(GOOD))
        assert (told.sampler, told.chosen, told.title) == ("threshold-0.9", True, "")
        assert told.lines[0].startswith("8.0× fewer forwards")
        assert told.lines[1] == ("score 99.5 % against 100.0 %; largest loss: copy, 100.0 → 99.0 %")
        assert told.others[-1].startswith("falls first: confidence-k2, 2.0× fewer forwards")

    def test_one_sampler_alone(self) -> None:
        """No verdict, and the reason."""
        told = card(run({"confidence-k1": (32, (1.0, 1.0))}))
        assert told.sampler == ""
        assert told.title.startswith("no verdict: only one sampler")


def test_each_task_alone() -> None:
    """Its card counts its own questions; a run of one task has none beside the whole."""
    answers = run(GOOD)
    by_task = cards(answers)
    assert {task: cards[0].verdict.sampler for task, cards in by_task.items()} == {
        ALL: "threshold-0.9",
        TASKS[0]: "threshold-0.9",
        TASKS[1]: "threshold-0.9",
    }
    assert by_task[TASKS[0]][0].verdict.lines[1] == "score 99.0 % against 100.0 %"
    assert list(cards([answer for answer in answers if answer.cell.task == TASKS[0]])) == [ALL]
