"""What a rule of combinations reads: the questions of a task as a run asks them of a model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pbcore.base.rules import why_not
from pbcore.decoding import resolve
from pbcore.grid.capabilities import Capabilities
from pbcore.grid.rules import RULES, Combination, PlannedTask
from pbcore.grid.settings import Settings
from pbcore.tasks import load_task, register_task, task_spec
from pbcore.tasks.base import Task
from tests.models.checkpoints import llama_checkpoint

COPY = "waiting_line/copy"
STEPS = Settings(cot=True)


def asked(model: str, task: Task, settings: Settings = STEPS) -> PlannedTask:
    """A task as a run asks it of a model: in steps, which may hold other words than the package's
    data.
    """
    can = Capabilities(model)
    return PlannedTask(can, task.name, settings, (), lambda model: task, lambda: {8})


class TestUnreadable:
    @pytest.fixture
    def foreign(self) -> Task:
        """A task whose only prompt has a word that no task of the package has."""
        task = load_task(COPY, limit=1)
        (sample,) = task.samples
        message = {**sample.messages[-1], "content": "Xylophones!"}
        return replace(task, samples=(replace(sample, messages=(*sample.messages[:-1], message)),))

    def test_an_embedded_model_knows_the_packages_words_alone(self, foreign: Task) -> None:
        """A word that none of its data has is not among its tokens."""
        assert not asked("tiny", load_task(COPY, limit=3)).unreadable
        assert asked("tiny", foreign).unreadable

    def test_others_spell_any_word(self, foreign: Task, tmp_path: Path) -> None:
        """`ideal`, which reads none, and a checkpoint folder with its own tokenizer."""
        assert not asked("ideal", foreign).unreadable
        assert not asked(str(llama_checkpoint(tmp_path)), foreign).unreadable


@pytest.mark.usefixtures("registries")
class TestOwnTask:
    """A task that `register_task` added."""

    @pytest.mark.parametrize(
        ("label", "scorer", "refused"),
        [
            ("a, b", "list_match", ""),
            ({"answers": ["a, b", "b, a"]}, lambda answer, sample: 1.0, ""),
            ("a, b", lambda answer, sample: 1.0, "can't be listed, so it has no ideal model; lab"),
        ],
    )
    def test_ideal_needs_to_know_the_right_answers(
        self, label: object, scorer: Any, refused: str
    ) -> None:
        """By the scorer or by the labels; the reason names both."""
        register_task("words/two", [("a b", label)], scorer=scorer)
        questions = asked("ideal", load_task("words/two"), Settings())
        why = why_not(RULES, Combination(questions, resolve("random-k2")))
        assert refused in str(why) if refused else why is None

    def test_an_embedded_model_may_not_read_it(self) -> None:
        """It is left out instead of failing."""
        register_task("words/odd", [("Xylophones?", "a, b")], scorer="list_match")
        assert asked("tiny", load_task("words/odd"), Settings()).unreadable


def test_a_harness_sets_the_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that is asked in a way of its own has its length from there."""
    spec = replace(task_spec(COPY), asked_by="a harness")
    monkeypatch.setattr("pbcore.grid.rules.task_spec", lambda task: spec)
    for length, refused in ((None, False), (8, True)):
        questions = asked("tiny", load_task(COPY, limit=1), Settings(max_new_tokens=length))
        why = str(why_not(RULES, Combination(questions, resolve("random-k2"))))
        assert ("with --max-new-tokens: a harness asks it in its own way" in why) == refused
