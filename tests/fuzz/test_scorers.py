"""Scorers: any text has scores in [0, 1], and of lists and puzzles the ones of a second
implementation.
"""

from __future__ import annotations

from functools import cache, partial
from random import Random

import pytest

from pbcore.tasks import Sample, Task, load_task
from pbcore.tasks.lists import OPERATIONS
from pbcore.tasks.scoring import SCORERS, scorer
from tests.fuzz.damage import SIGNS, damaged_text, noise
from tests.fuzz.outcomes import COUNTS, fuzz
from tests.metrics.hostile import hostile_answer
from tests.metrics.twins import latin_scores, list_scores, sudoku_scores

TWINS = {
    **{f"waiting_line/{operation}": partial(list_scores, operation) for operation in OPERATIONS},
    "puzzle/latin_square": latin_scores,
    "puzzle/sudoku": sudoku_scores,
}
TEXTS = ("text_writing/w2s_easy", "text_writing/summarization", "text_writing/paraphrasing")
TASKS = [*TWINS, "list_ops/shuffle", *TEXTS, "questions/shuffle-x2", "walk/graph"]
MEASURED_ELSEWHERE = frozenset({"grammar", "bertscore", "v1", "v2"})  # by a server or a model
MONSTROUS = 100_000
ANY_DIGITS = [chr(zero + digit) for zero in (0x660, 0x966, 0xFF10, 0x1D7CE) for digit in range(10)]


@cache
def task(name: str) -> Task:
    return load_task(name, limit=20)


def answer(random: Random) -> tuple[str, Sample, str]:
    """A task, one of its samples, and an answer: right, damaged, of another task, noise, or of
    100,000 characters.
    """
    name = random.choice(TASKS)
    sample = random.choice(task(name).samples)
    other = random.choice(task(random.choice(TASKS)).samples)
    listed = name.startswith(("waiting_line", "puzzle"))
    text = (
        hostile_answer(random, sample) if listed and random.random() < 0.5 else str(sample.answer)
    )
    match random.randrange(12):
        case 0:
            text = noise(random)
        case 1:
            text = str(other.answer)
        case 2:
            text += other.prompt
        case 3:
            text = "".join(random.choice(ANY_DIGITS) if sign.isdigit() else sign for sign in text)
        case 4 if random.random() < 0.03:
            text = (random.choice([*SIGNS, text, "[" * 9, '"a", ', "1234\n"]) * MONSTROUS)[
                :MONSTROUS
            ]
        case 5:
            text = f"{text}{random.choice(SIGNS)}{text}"
        case 6 | 7 | 8:
            text = damaged_text(random, text)
    return name, sample, text


def check(given: tuple[str, Sample, str]) -> None:
    name, sample, text = given
    metrics = set(scorer(task(name).scorer).metrics) - MEASURED_ELSEWHERE
    [scored] = task(name).score_many([text], [sample], metrics)
    assert scored.scores.keys() == metrics
    assert all(0 <= score <= 1 for score in scored.scores.values())
    if "accuracy_any_layout" in metrics:
        assert scored.scores["accuracy_any_layout"] >= scored.scores["accuracy"]
    if "accuracy" in metrics:
        assert scored.scores["accuracy"] or scored.details["why"]
    if name in TWINS and len(text) < MONSTROUS:
        twin = TWINS[name](sample, text)
        assert {metric: scored.scores[metric] for metric in twin} == twin


@pytest.mark.parametrize("count", COUNTS)
def test_scorers(count: int) -> None:
    """Answers in all layouts, digits of all scripts, lone surrogates, brackets without end."""
    fuzz("scorers", count, answer, check, refusals=())


def test_every_scorer_is_drawn() -> None:
    """The tasks above use every scorer but those that users register, and one that list_ops alone
    uses.
    """
    assert {task(name).scorer for name in TASKS} == set(SCORERS.all())
