"""Blame of a trained model's answers, and of policies with one planted fault."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, log2

import pytest

import pbcore
from pbcore.blame import Continuing, blamed
from pbcore.decoding import decode, denoise
from pbcore.decoding.samplers import resolve
from pbcore.decoding.step import Move, Step
from pbcore.models.base import Denoiser, Generation
from pbcore.models.tokenizer import pieces
from pbcore.names import parse
from pbcore.results.build import sample_record
from pbcore.results.record import SampleRecord
from pbcore.tasks.base import Task

Planted = Mapping[int, Sequence[tuple[int, int]]]  # key of a row → positions and tokens


@pytest.fixture(scope="module")
def tiny() -> Denoiser:
    model: Denoiser = pbcore.load_model("tiny")
    return model


def shortened(name: str, limit: int) -> Task:
    """A task's first questions, on canvases half as long: their answers still fit."""
    task = pbcore.load_task(name, limit=limit)
    samples = [replace(one, max_new_tokens=one.max_new_tokens // 2) for one in task.samples]
    return replace(task, samples=tuple(samples))


def records_of(model: Denoiser, task: Task, answers: Sequence[Generation]) -> list[SampleRecord]:
    """The records of answers to a task's samples."""
    scored = task.score_many([answer.text for answer in answers], task.samples)
    records = []
    for sample, answer, result in zip(task.samples, answers, scored, strict=True):
        records.append(sample_record(sample.index, answer, result, 0, pieces(model)))
    return records


@dataclass
class OneAtATimeBut:
    """The most confident token at each step, but at the first one the planted tokens."""

    planted: Planted
    rewrites = True

    def select(self, step: Step) -> Move:
        tokens = step.token.clone()
        reveal = step.best(step.confidence, 1)
        for row, key in enumerate(step.key.tolist()):
            if int(step.nfe[row]) or key not in self.planted:
                continue
            reveal[row] = False
            for at, token in self.planted[key]:
                slot = step.column[row].tolist().index(at)
                reveal[row, slot] = True
                tokens[row, slot] = token
        return Move(reveal, token=tokens)


def answered_with(model: Denoiser, task: Task, planted: Planted) -> list[SampleRecord]:
    """Answers whose first step writes planted tokens."""
    requests = [model.encode(sample, None, sample.index) for sample in task.samples]
    rows = denoise(model, requests, OneAtATimeBut(planted), parse("planted"))
    return records_of(model, task, rows)


class TestShares:
    @pytest.mark.parametrize(
        ("task", "sampler"),
        [("puzzle/latin_square", "random-k4"), ("waiting_line/shuffle", "confidence-k4+b8")],
    )
    def test_they_add_up(self, tiny: Denoiser, task: str, sampler: str) -> None:
        """Model errors are the wrong answers to questions that the reference answers wrong; what
        the sampler loses to it is the difference of their scores; and no answer costs more than
        ⌈log₂ steps⌉ + 8 continuations beside the reference's answer.
        """
        loaded = shortened(task, 2)
        continuing = Continuing(tiny, loaded, "accuracy")
        records = records_of(tiny, loaded, decode(tiny, loaded.samples, sampler))
        answers, shares = blamed(continuing, resolve(sampler), records)
        assert shares.reference is not None
        known = continuing.references[resolve(shares.reference)]
        for answer in answers:
            wrong = answer.scores["accuracy"] < 1
            by_reference = known[answer.place].scores["accuracy"] < 1
            verdict = None if answer.blame is None else answer.blame.verdict
            assert (verdict == "model") == (wrong and by_reference)
            assert (verdict == "gained") == (by_reference and not wrong)
            assert (verdict is None) == (not wrong and not by_reference)
        before = sum(known[answer.place].scores["accuracy"] for answer in answers)
        now = sum(answer.scores["accuracy"] for answer in answers)
        assert shares.net_loss == pytest.approx((before - now) / len(answers))
        size = len(records[0].steps)
        broken = [answer for answer in answers if answer.scores["accuracy"] < 1]
        most = sum(ceil(log2(max(answer.steps) + 1)) + 8 for answer in broken)
        assert shares.forwards <= size * (len(answers) + most)

    def test_one_token_a_step_is_never_together(self, tiny: Denoiser) -> None:
        """Another order is to blame for a token that is wrong alone; the reference's own wrong
        answers are the model's.
        """
        task = shortened("puzzle/latin_square", 2)
        continuing = Continuing(tiny, task, "accuracy")
        for sampler in ("random-k1", "confidence-k1"):
            records = records_of(tiny, task, decode(tiny, task.samples, sampler, seed=3))
            _, shares = blamed(continuing, resolve(sampler), records)
            assert shares.together.mean == shares.undecided.mean == 0
            if sampler == "confidence-k1":
                assert shares.token.mean == shares.gained.mean == 0
                assert shares.forwards == 0


class TestPlantedFaults:
    def test_a_right_pair_revealed_at_once(self, tiny: Denoiser) -> None:
        """The same first name in two places, each of which would end right alone."""
        task = shortened("waiting_line/shuffle", 2)
        pairs = {}
        for sample, answer in zip(
            task.samples, decode(tiny, task.samples, "confidence-k1"), strict=True
        ):
            comma = answer.token_ids[3]  # ["Given Family", "Given Family"
            second = answer.token_ids.index(comma, 3) + 1
            pair = [(1, answer.token_ids[1]), (second, answer.token_ids[1])]
            if _right(tiny, task, sample.index, pair[:1]) and _right(
                tiny, task, sample.index, pair[1:]
            ):
                pairs[sample.index] = pair
        assert pairs
        answers, _ = blamed(
            Continuing(tiny, task, "accuracy"),
            resolve("confidence-k2"),
            answered_with(tiny, task, pairs),
        )
        for answer in answers:
            if answer.index in pairs:
                assert answer.blame is not None
                assert (answer.blame.verdict, answer.blame.step) == ("together", 0)
                assert [token.alone for token in answer.blame.revealed] == [True, True]

    def test_a_token_that_is_wrong_alone(self, tiny: Denoiser) -> None:
        """A quotation mark in place of the first name, beside a token that is right."""
        task = shortened("waiting_line/shuffle", 2)
        planted = {}
        for sample, answer in zip(
            task.samples, decode(tiny, task.samples, "confidence-k1"), strict=True
        ):
            planted[sample.index] = [(1, answer.token_ids[0]), (2, answer.token_ids[2])]
        records = answered_with(tiny, task, planted)
        answers, shares = blamed(
            Continuing(tiny, task, "accuracy"), resolve("confidence-k2"), records
        )
        assert shares.token.mean + shares.model.mean == 1
        assert shares.token.mean > 0
        for answer in answers:
            if answer.blame is not None and answer.blame.verdict == "token":
                assert answer.blame.step == 0
                assert answer.blame.revealed[0].alone is False


def _right(model: Denoiser, task: Task, index: int, tokens: Sequence[tuple[int, int]]) -> bool:
    """Whether an answer ends right one token at a time with these tokens in its canvas."""
    sample = task.samples[index]
    canvas = list(model.encode(sample, None, index).canvas)
    for at, token in tokens:
        canvas[at] = token
    (answer,) = decode(model, [sample], "confidence-k1", starts=[canvas])
    return task.score(answer.text, sample)["accuracy"] == 1
