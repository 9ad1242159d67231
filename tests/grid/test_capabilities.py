"""What a model can run, known before it is loaded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pbcore.grid.capabilities import Capabilities
from pbcore.models import register_model
from pbcore.models.ideal import Ideal
from pbcore.models.registry import FACTORIES
from pbcore.names import parse
from pbcore.tasks import load_task
from pbcore.tasks.base import Task
from tests.models.checkpoints import llama_checkpoint

COPY = "waiting_line/copy"


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> str:
    """A model registered for one test."""
    monkeypatch.setattr(FACTORIES, "_registered", dict(FACTORIES.all()))
    register_model("own", lambda **options: Ideal())
    return "own"


class TestWhyNot:
    @pytest.mark.parametrize(
        ("model", "task", "sampler", "reason"),
        [
            (
                "ideal",
                "text_writing/summarization",
                "confidence-k2",
                "the right answers can't be listed",
            ),
            ("ideal", COPY, "confidence-k2+dual", "+dual: it has no attention"),
            ("ideal-mi", "walk/graph", "axon-1", "the mutual information of a walk's positions"),
            ("ideal", COPY, "ar", "for models that decode by themselves"),
            ("tiny", COPY, "no_such_policy-3", "for models that decode by themselves"),
            (
                "diffusiongemma-26b",
                COPY,
                "confidence-k2",
                "samplers other than eb: it decodes by itself",
            ),
            ("sdar-8b", COPY, "threshold-0.9+b8", "its blocks have 4 tokens"),
            (
                "sdar-8b:dummy",
                COPY,
                "confidence-k2+dual",
                "for samplers that go through a block in parts",
            ),
            ("llada2.0-mini", COPY, "threshold-0.9+b32+prefix", "exact and always on"),
            ("llada2.1-mini", COPY, "confidence-k2+rcr", "may mask tokens of earlier blocks"),
        ],
    )
    def test_what_a_model_lacks_is_named(
        self, model: str, task: str, sampler: str, reason: str
    ) -> None:
        """The reason begins with the model, so that equal ones are counted together."""
        found = str(Capabilities(model).why_not(task, parse(sampler)))
        assert found.startswith(f"{model} × ")
        assert reason in found

    @pytest.mark.parametrize(
        ("model", "task", "sampler"),
        [
            ("ideal", COPY, "confidence-k2+b8"),
            ("tiny", "text_writing/summarization", "confidence-k2+prefix"),
            ("diffusiongemma-26b", COPY, "eb-0.1-steps48"),
            ("sdar-8b", COPY, "threshold-0.9+b4"),
            ("fast-dllm-v2-7b", COPY, "fast_dllm_v2-0.9+dual"),
            ("llada-moe-7b", COPY, "threshold-0.9+b8+dual"),
        ],
    )
    def test_what_it_can_run(self, model: str, task: str, sampler: str) -> None:
        """`ideal` where the answers can be listed, checkpoints with a cache, own decoders by their
        own parameters.
        """
        assert Capabilities(model).why_not(task, parse(sampler)) is None

    def test_of_a_users_model_only_its_check_knows(self, own: str) -> None:
        """Any task and any name is tried."""
        assert (
            Capabilities(own).why_not("text_writing/summarization", parse("no_such_policy-3+dual"))
            is None
        )


class TestMayDecodeItself:
    def test_families_that_do_and_users_models(self, own: str) -> None:
        """The registry's others go through the loop."""
        given = {
            "diffusiongemma-26b": True,
            "sedd-small": True,
            own: True,
            "tiny": False,
            "ideal": False,
        }
        assert {model: Capabilities(model).may_decode_itself for model in given} == given


class TestLacksWords:
    @pytest.fixture
    def foreign(self) -> Task:
        """A task whose only prompt has a word that no task of the package has."""
        task = load_task(COPY, limit=1)
        (sample,) = task.samples
        message = {**sample.messages[-1], "content": "Xylophones!"}
        return replace(task, samples=(replace(sample, messages=(*sample.messages[:-1], message)),))

    def test_an_embedded_model_knows_the_packages_words_alone(self, foreign: Task) -> None:
        """The reason names model and task."""
        assert Capabilities("tiny").no_words(load_task(COPY, limit=3)) is None
        assert str(Capabilities("tiny").no_words(foreign)).startswith(
            "tiny × waiting_line/copy: its vocabulary covers"
        )

    def test_others_spell_any_word(self, foreign: Task, tmp_path: Path) -> None:
        """`ideal`, which reads none, and a checkpoint folder with its own tokenizer."""
        assert Capabilities("ideal").no_words(foreign) is None
        assert Capabilities(str(llama_checkpoint(tmp_path))).no_words(foreign) is None
