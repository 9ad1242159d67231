"""`register_task`: a task from Python."""

from __future__ import annotations

from typing import Any

import pytest

from pbcore import load_task, register_task
from pbcore.base.errors import InputError
from pbcore.tasks import Sample, all_task_names
from pbcore.tasks.scoring import SCORERS, Scored

PAIRS = [("2 + 2?", "4"), ("3 + 3?", "6")]
ROWS = [{"input": {"a": "salt", "b": "basil"}, "answer": '["salt", "basil"]'}]


def exact(answer: str, sample: Sample) -> float:
    return answer.strip() == sample.label


class Digits:
    """A scorer of its own kind."""

    metrics = ("digits", "any")

    def score(self, predictions: Any, samples: Any, metrics: Any) -> list[Scored]:
        return [Scored({"digits": float(text.isdigit()), "any": 1.0}) for text in predictions]


pytestmark = pytest.mark.usefixtures("registries")


def test_a_function_scores_pairs() -> None:
    """Questions and answers as pairs, right by a function."""
    register_task("sums/small", PAIRS, scorer=exact, max_new_tokens=8)
    assert "sums/small" in all_task_names()
    task = load_task("sums/small")
    assert [sample.prompt for sample in task.samples] == ["2 + 2?", "3 + 3?"]
    assert {sample.max_new_tokens for sample in task.samples} == {8}
    assert [task.score(text, task.samples[0]) for text in (" 4", "5")] == [
        {"accuracy": 1.0},
        {"accuracy": 0.0},
    ]
    assert len(load_task("sums/small", limit=1).samples) == 1


def test_rows_and_a_registered_scorer() -> None:
    """Rows fill the prompt, as those of a file do."""
    register_task("kitchen/two", ROWS, scorer="list_match", prompt="List {a} and {b}.")
    (sample,) = load_task("kitchen/two").samples
    assert sample.prompt == "List salt and basil."


def test_again_replaces_it() -> None:
    """A conftest.py that is read again; another function is another identity."""
    register_task("sums/small", PAIRS, scorer=exact)
    first = load_task("sums/small")
    register_task("sums/small", PAIRS[:1], scorer=Digits(), headline="any")
    again = load_task("sums/small")
    assert (len(again.samples), again.headline) == (1, "any")
    assert first.identity != again.identity


@pytest.mark.parametrize(
    ("name", "questions", "settings", "message"),
    [
        ("waiting_line/copy", PAIRS, {}, "there is a task of that name"),
        ("sums", PAIRS, {}, "must be `category/name`"),
        ("sums/none", [], {}, "no questions; give at least one"),
        ("sums/odd", [("2 + 2?",)], {}, "question 0: the row"),
        ("sums/odd", [*PAIRS, {"input": {}, "answer": "4"}], {}, "question 2: the prompt needs"),
        ("sums/odd", PAIRS, {"scorer": "exakt"}, "scorer 'exakt'"),
        ("sums/odd", PAIRS, {"max_new_tokens": 0}, "max_new_tokens 0"),
        ("sums/odd", PAIRS, {"headline": "f1"}, "headline 'f1'"),
        ("sums/odd", PAIRS, {"scorer": lambda answer, sample: 0}, "its own label '4' is wrong"),
        ("sums/odd", PAIRS, {"scorer": lambda answer, sample: 2}, "numbers from 0 to 1"),
        ("sums/odd", PAIRS, {"scorer": lambda answer: 1}, "called with an answer's text and its"),
    ],
)
def test_what_is_wrong_is_refused(
    name: str, questions: Any, settings: dict[str, Any], message: str
) -> None:
    """In one line that names the task and the value; nothing is registered."""
    with pytest.raises(InputError, match=message):
        register_task(name, questions, **{"scorer": exact, **settings})
    assert name not in all_task_names() or name == "waiting_line/copy"
    assert name not in SCORERS
