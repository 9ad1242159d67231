"""What theory says of cells: ceilings by task, bits lost by recorded steps, answers in a model's
own tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import pytest

from pbcore import register_policy
from pbcore.base.disk_cache import DiskCache
from pbcore.ceilings import ceiling as module
from pbcore.ceilings.ceiling import Ceilings, answers_of, ceiling, mean_bits_lost, structures
from pbcore.decoding import Move, Step
from pbcore.decoding.policies.registry import POLICIES
from pbcore.decoding.run import decode
from pbcore.decoding.samplers import sampler_of
from pbcore.models.ideal import Ideal
from pbcore.models.registry import load_model
from pbcore.tasks.base import Sample, Task
from pbcore.tasks.registry import load_task
from pbcore.theory import answer_distribution
from pbcore.theory.ceiling import Ceiling
from pbcore.theory.lost import bits_lost
from pbcore.theory.problems import structure


class Pieces:
    """A tokenizer of two characters a token."""

    def piece(self, text: str) -> list[int]:
        return [hash_of(text[i : i + 2]) for i in range(0, len(text), 2)]


def hash_of(text: str) -> int:
    return sum(ord(letter) << 8 * i for i, letter in enumerate(text))


class Stub:
    name = "stub"
    mask_id = -5
    tokenizer = Pieces()


class TestCeilings:
    def test_by_task_and_sampler(self) -> None:
        task = load_task("waiting_line/shuffle", limit=4)
        assert Ceilings().of(task, sampler_of("random-k4")) == ceiling(task.samples, "random-k4")

    def test_none_for_answers_with_steps(self) -> None:
        """Their canvas holds more than the answers that `ideal` knows."""
        assert (
            Ceilings().of(
                load_task("waiting_line/shuffle", limit=4, cot=True), sampler_of("random-k4")
            )
            is None
        )

    @pytest.mark.parametrize(
        ("task", "sampler", "block"),
        [
            ("text_writing/w2s_easy", "random-k2", None),
            ("waiting_line/shuffle", "analytic-s32", None),
            ("waiting_line/shuffle", "joint-0.5", None),
            ("waiting_line/shuffle", "random-k2", 4),
        ],
    )
    def test_none_where_ideal_says_nothing(
        self, task: str, sampler: str, block: int | None
    ) -> None:
        assert Ceilings().of(load_task(task, limit=2), sampler_of(sampler), block) is None


class TestKeptCeilings:
    def test_a_decoded_one_is_worked_out_once(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """On a machine, for the same code; another sampler, other samples and other code have
        theirs.
        """
        asked: list[str] = []
        work_out = module.combined
        monkeypatch.setattr(
            module,
            "combined",
            lambda parts, name: asked.append(str(name)) or work_out(parts, name),
        )
        task = load_task("waiting_line/shuffle", limit=2)
        fewer = load_task("waiting_line/shuffle", limit=1)

        def found(
            code: str, task: Task = task, sampler: str = "random-k4+remdm2"
        ) -> Ceiling | None:
            kept = DiskCache(tmp_path / "c.sqlite", "ceilings", "ceilings")
            return Ceilings(kept, code).of(task, sampler_of(sampler))

        first = found("a")
        assert (
            first
            == found("a")
            == work_out(structures(task.samples), sampler_of("random-k4+remdm2"))
        )
        assert first is not None
        assert first.kind == "sampled"
        assert len(asked) == 1
        found("b")
        found("a", fewer)
        found("a", sampler="random-k8+remdm2")
        assert len(asked) == 4

    def test_a_policy_of_the_users_has_its_own(self, tmp_path: Path) -> None:
        """Another version of its code is worked out anew."""
        task = load_task("waiting_line/shuffle", limit=2)
        means = []
        for number, count in (("1", 1), ("2", 16), ("1", 16)):  # the third takes the first's
            with POLICIES.restored():
                register_policy("kept")(policy_of(count, number))
                kept = DiskCache(tmp_path / "c.sqlite", "ceilings", "ceilings")
                found = Ceilings(kept, "code").of(task, sampler_of("kept-1"))
                assert found is not None
                means.append(found.mean)
        assert means[0] == means[2] == 1.0
        assert means[1] < 0.5


def policy_of(count: int, number: str) -> type:
    """A policy that reveals so many tokens a step, and says which version it is."""

    @dataclass(frozen=True)
    class Kept:
        """The surest."""

        places: int = 1
        version: ClassVar[str] = number

        def select(self, step: Step) -> Move:
            return step.best(step.confidence, count)

    return Kept


class TestBitsLost:
    def test_the_mean_over_answers(self) -> None:
        model = Ideal()
        task = load_task("waiting_line/shuffle", limit=6)
        out = decode(model, task.samples, "random-k8")
        pairs = [(sample, one.steps) for sample, one in zip(task.samples, out, strict=True)]
        each = [bits_lost(answer_distribution(sample), steps) for sample, steps in pairs]
        assert mean_bits_lost(model, sampler_of("random-k8"), pairs) == pytest.approx(sum(each) / 6)
        assert sum(each) > 0

    def test_one_token_at_a_time_loses_nothing(self) -> None:
        model = Ideal()
        task = load_task("puzzle/latin_square", limit=2)
        out = decode(model, task.samples, "confidence-k1")
        assert (
            mean_bits_lost(
                model,
                sampler_of("confidence-k1"),
                zip(task.samples, (one.steps for one in out), strict=True),
            )
            == 0
        )

    @pytest.mark.parametrize(
        "sampler", ["confidence-k2+rcr", "confidence-k2+remdm1", "wino-0.6", "analytic-s8"]
    )
    def test_samplers_without_a_partition(self, sampler: str) -> None:
        sample = load_task("waiting_line/shuffle", limit=1).samples[0]
        assert mean_bits_lost(Ideal(), sampler_of(sampler), [(sample, [0] * 32)]) is None

    def test_none_without_steps_or_answers(self) -> None:
        names = "waiting_line/shuffle", "text_writing/w2s_easy"
        shuffle, text = (load_task(name, limit=1).samples[0] for name in names)
        assert mean_bits_lost(Ideal(), sampler_of("random-k2"), [(shuffle, [])]) is None
        assert mean_bits_lost(Ideal(), sampler_of("random-k2"), [(text, [0] * 64)]) is None
        assert mean_bits_lost(Ideal(), sampler_of("random-k2"), []) is None


class TestTokens:
    @pytest.mark.parametrize(
        "task", ["waiting_line/shuffle", "waiting_line/insert_random", "puzzle/latin_square"]
    )
    def test_tiny_has_the_words_of_ideal(self, task: str) -> None:
        sample = load_task(task, limit=1).samples[0]
        assert structure(answers_of(load_model("tiny"), sample)) == structure(
            answer_distribution(sample)
        )

    def test_other_tokens(self) -> None:
        """In pieces of two characters "ab" and "ac" differ in one token; the second pair in
        both.
        """
        sample = Sample(
            "own/x", 0, ({"role": "user", "content": "?"},), {}, {"answers": ["abcd", "abce"]}, 4
        )
        two = replace(sample, label={"answers": ["abcd", "efgh"]})
        one_open, both_open = (answers_of(Stub(), each) for each in (sample, two))
        assert bits_lost(one_open, [0, 0, 0, 0]) == 0
        assert bits_lost(both_open, [0, 0, 0, 0]) == pytest.approx(1)
        assert bits_lost(both_open, [0, 1, 1, 1]) == pytest.approx(0)

    def test_too_many_answers_and_no_tokenizer(self) -> None:
        long = load_task("waiting_line/shuffle", n=8, limit=1).samples[0]
        with pytest.raises(ValueError, match="too many"):
            answers_of(Stub(), long)
        with pytest.raises(ValueError, match="no tokenizer"):
            answers_of(object(), long)


def test_items_that_repeat() -> None:
    """Two orders that read the same are one answer, and the list itself is none: one token at a
    time `ideal` is right, as its ceiling says.
    """
    task = load_task("waiting_line/shuffle", limit=12, n=3)
    samples = []
    for sample in task.samples:
        first, second, _ = sample.label["input"]
        samples.append(replace(sample, label={**sample.label, "input": [first, first, second]}))
    answers = decode(load_model("ideal"), samples, "confidence-k1")
    right = [
        task.score(answer.text, sample)["accuracy"]
        for answer, sample in zip(answers, samples, strict=True)
    ]
    assert set(right) == {1.0}
    assert ceiling(samples, "confidence-k1").mean == 1.0
