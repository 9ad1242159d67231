"""pbcore.report.nearest: the right answer that is nearest to a wrong one."""

from __future__ import annotations

import pytest

from pbcore.report.nearest import nearest
from pbcore.results.questions import StoredQuestion, stored_question
from pbcore.tasks import load_task
from pbcore.tasks.lists import formatted

ABC = ["A", "B", "C"]


def question(rule: str, items: list[str], word: str | None = None) -> StoredQuestion:
    return StoredQuestion(0, "p", "stored", False, rule=rule, items=items, word=word)


@pytest.mark.parametrize(
    ("asked", "text", "right"),
    [
        (question("shuffle", ABC), '["C", "B", "B"]', '["C", "B", "A"]'),
        (question("shuffle", ABC), '["X", "C"]', '["A", "C", "B"]'),
        (question("shuffle", ABC), "nothing", '["A", "B", "C"]'),
        (question("shuffle_changed", ABC), '["A", "B", "C"]', "stored"),
        (question("insert_random", ABC, "N"), '["A", "N", "B", "B"]', '["A", "N", "B", "C"]'),
        (question("remove_random", ABC), '["A", "C", "C"]', '["A", "C"]'),
        (question("replace_random", ABC, "N"), '["A", "B", "B"]', '["A", "B", "N"]'),
        (question("latin_square", ["1", "2"]), "2,1\n2,2", "2,1\n1,2"),
        (question("latin_square", list("12345")), "1,2,3,4,5", "stored"),
        (question("answers", ["one two", "three four"]), "three two four", "three four"),
        (question("", []), '["A"]', "stored"),
        (question("of a later version", ABC), '["A"]', "stored"),
    ],
)
def test_nearest(asked: StoredQuestion, text: str, right: str) -> None:
    """What stands in its place stays; what is wrong gives its place to what is missing."""
    assert nearest(asked, text) == right


@pytest.mark.parametrize(
    "task",
    [
        "waiting_line/shuffle",
        "list_ops/shuffle",
        "waiting_line/insert_random",
        "waiting_line/remove_random",
        "waiting_line/replace_random",
        "puzzle/latin_square",
    ],
)
def test_it_is_right(task: str) -> None:
    """By the task's own scorer, whatever the answer is; a right answer is its own nearest."""
    loaded = load_task(task, limit=4)
    for sample in loaded.samples:
        asked = stored_question(sample)
        assert asked.items
        first = asked.items[0]
        for text in ("", sample.answer, formatted([first, first]), f"{first},{first}"):
            right = nearest(asked, text)
            assert right is not None
            assert loaded.score(right, sample)[loaded.headline] == 1
        assert nearest(asked, sample.answer) == sample.answer


def test_questions_with_one_answer() -> None:
    """Have no rule."""
    assert stored_question(load_task("waiting_line/copy", limit=1).samples[0]).rule == ""
