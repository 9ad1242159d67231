"""What a rule of combinations reads: the questions of a task as a run asks them of a model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pbcore.grid.capabilities import Capabilities
from pbcore.grid.rules import Questions
from pbcore.grid.settings import Settings
from pbcore.tasks import load_task
from pbcore.tasks.base import Task
from tests.models.checkpoints import llama_checkpoint

COPY = "waiting_line/copy"


def asked(model: str, task: Task) -> Questions:
    """A task in steps, which are not in the words of the package's own data."""
    can = Capabilities(model)
    return Questions(can, task.name, Settings(cot=True), (), lambda model: task, lambda: {8})


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
