"""The verdict's lines for every combination of speed, quality, tasks and questions, whole."""

from __future__ import annotations

from itertools import product

from pbcore.report.answers import answers_alone
from pbcore.report.headline import HeadlineInWords, RunVerdicts, headline_text
from pbcore.results.rundir import StoredCell
from tests.outputs.entries import Check
from tests.results import factory

N = 60
TASKS = ("waiting_line/copy", "puzzle/sudoku")
FORWARDS = {"faster": 8, "as fast": 31, "slower": 40}
# How many of 60 answers are right; the reference has 50.
RIGHT = {"shown": 50, "not shown": 48, "better": 60, "worse": 30}
QUESTIONS = {"equal questions": N, "fewer questions": 40}
TASKS_RUN = {"all tasks": TASKS, "one of two tasks": TASKS[:1]}


def verdicts_of(entries: list[tuple[str, str, int, int, int]]) -> list[HeadlineInWords]:
    """The verdicts on cells: (sampler, task, right answers, questions, forwards); answers beyond
    those that are right come first.
    """
    stored = []
    for sampler, task, right, n, forwards in entries:
        scores = [0.0] * (N - right) + [1.0] * right
        cell = factory.cell("tiny", task, sampler, scores[:n], nfe=forwards)
        stored.append(StoredCell(*cell))
    cells = factory.rows(one.cell for one in stored)
    return RunVerdicts(cells, map(answers_alone, stored), {}).in_words()


class TestVerdict:
    def test_combinations(self, same: Check) -> None:
        """A sampler beside its reference and another one that is as fast as it. Each combination
        names all three, fits the terminal, and corrects for several only where several are ranked.
        """
        parts = []
        for pace, quality, ran, questions in product(FORWARDS, RIGHT, TASKS_RUN, QUESTIONS):
            entries = [
                (name, task, 50, N, 32) for name in ("confidence-k1", "random-k1") for task in TASKS
            ]
            for task in TASKS_RUN[ran]:
                entries.append(
                    ("mine-2", task, RIGHT[quality], QUESTIONS[questions], FORWARDS[pace])
                )
            lines = headline_text(verdicts_of(entries), 80)
            parts.append("\n".join([f"# {pace} · {quality} · {ran} · {questions}", *lines]))
            text = " ".join(lines)
            assert all(sampler in text for sampler in ("confidence-k1", "random-k1", "mine-2"))
            assert max(map(len, lines)) <= 80
        same("\n\n".join(parts))

    def test_several(self, same: Check) -> None:
        """Several faster samplers: one that is shown, none yet, none at all, none that is ranked; a
        faster one that isn't shown; the page's further lines.
        """
        reference = [("confidence-k1", task, 50, N, 32) for task in TASKS]
        shown = [("eb-0.1", task, 50, N, 8) for task in TASKS]
        slower = [("threshold-0.9", task, 50, N, 16) for task in TASKS]
        bad = [("confidence-k16", task, 10, N, 2) for task in TASKS]
        near = [("confidence-k2", task, 48, N, 16) for task in TASKS]
        partly = [("random-k8", TASKS[0], 50, N, 4)]
        runs = {
            "shown": [*shown, *slower, *bad, *near, *partly],
            "not yet": [*near, *bad],
            "never": [*bad, *[("random-k16", task, 20, N, 2) for task in TASKS]],
            "not all tasks": [*partly, ("random-k4", TASKS[1], 50, N, 8)],
        }
        parts = []
        for title, entries in runs.items():
            verdicts = verdicts_of([*reference, *entries])
            lines = [
                f"# {title}",
                *headline_text(verdicts, 80),
                "on the page:",
                *verdicts[0].others,
            ]
            parts.append("\n".join(lines))
        same("\n\n".join(parts))
