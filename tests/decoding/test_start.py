"""A decoding that goes on from a canvas that was begun."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import pbcore
from pbcore.base.errors import InputError
from pbcore.decoding import decode
from pbcore.models.base import Generation
from tests.decoding.toys import MASK, Toy, scrambled

ONE_AT_A_TIME = (
    "confidence-k1",
    "confidence-k1+b4",
    "left_to_right-k1",
    "confidence-k1+b8+eos_stop",
    "margin-k1+no_early_eos",
    "confidence-k1+b4+eos_last",
)
ROWS = [[5], [5, 6], [7, -1, 0, 8, *[0] * 8, 9, *[0] * 7]]  # the last one is given in part


def begun(
    model: Any, prompts: Sequence[Any], sampler: str, **more: Any
) -> list[tuple[Any, tuple[int, ...], int, Generation]]:
    """(prompt, canvas, step, answer) of every canvas of the answers to some prompts."""
    answers = decode(model, prompts, sampler, record=True, **more)
    canvases = []
    for prompt, answer in zip(prompts, answers, strict=True):
        for step, canvas in enumerate((answer.trajectory or ())[:-1]):
            canvases.append((prompt, canvas, step, answer))
    return canvases


def assert_rest(rest: Generation, step: int, answer: Generation) -> None:
    """A continuation is what an answer did after a step."""
    assert rest.token_ids == answer.token_ids
    assert rest.nfe is not None
    assert answer.nfe is not None
    assert rest.nfe + step == answer.nfe
    decoded = [(place, at) for place, at in enumerate(rest.steps) if at >= 0]
    assert decoded == [(place, at) for place, at in enumerate(answer.steps) if at >= step]


class TestRest:
    @pytest.mark.parametrize("sampler", ONE_AT_A_TIME)
    def test_it_is_what_the_answer_did_next(self, sampler: str) -> None:
        """One token at a time from any canvas of an answer: the same tokens, forwards and steps,
        with blocks, rules of EOS and given tokens.
        """
        rule = scrambled()
        toy = Toy(lambda canvas, place, key: rule(canvas, place, 0))  # the same to all rows
        given = [row for row in ROWS if "+b8" not in sampler or -1 not in row]
        for row in given:
            canvases = begun(toy, [row], sampler, max_new_tokens=16)
            starts = [canvas for _, canvas, _, _ in canvases]
            rows = [row] * len(starts)
            rests = decode(toy, rows, sampler, max_new_tokens=16, starts=starts)
            for rest, (_, _, step, answer) in zip(rests, canvases, strict=True):
                assert_rest(rest, step, answer)

    @pytest.mark.parametrize("name", ["ideal", "tiny-block"])
    def test_ties_and_stored_blocks(self, name: str) -> None:
        """`ideal` breaks ties as it did; a block model stores its full blocks again, and stops."""
        model = pbcore.load_model(name)
        samples = pbcore.load_task("waiting_line/shuffle", limit=2).samples
        canvases = begun(model, samples, "confidence-k1")
        prompts = [sample for sample, _, _, _ in canvases]
        starts = [canvas for _, canvas, _, _ in canvases]
        answers = decode(model, prompts, "confidence-k1", starts=starts)
        for rest, (_, _, step, answer) in zip(answers, canvases, strict=True):
            assert_rest(rest, step, answer)

    def test_the_batch_decides_nothing(self) -> None:
        """Rows at different places of their answers share a batch."""
        canvases = begun(Toy(), [[5]] * 3, "random-k3+b8", max_new_tokens=16)
        prompts = [[5]] * len(canvases)
        starts = [canvas for _, canvas, _, _ in canvases]
        sampler = "confidence-k1+b8"
        more = {"max_new_tokens": 16, "starts": starts}
        at_once = decode(Toy(), prompts, sampler, batch_size=64, **more)
        assert at_once == decode(Toy(), prompts, sampler, batch_size=1, **more)

    def test_a_full_canvas_is_its_own_rest(self) -> None:
        (answer,) = decode(Toy(), [[5]], "random-k3", max_new_tokens=8)
        (rest,) = decode(Toy(), [[5]], "random-k3", max_new_tokens=8, starts=[answer.token_ids])
        assert (rest.token_ids, rest.nfe) == (answer.token_ids, 0)


class TestRefused:
    @pytest.mark.parametrize(
        ("start", "sampler", "words"),
        [
            ([MASK] * 7, "confidence-k1", "of that length"),
            ([99] + [MASK] * 7, "confidence-k1", "isn't its canvas"),
            ([MASK] * 8, "confidence-k1+prefix", "has no cache"),
        ],
    )
    def test_starts_that_cant_be(self, start: list[int], sampler: str, words: str) -> None:
        with pytest.raises(InputError, match=words):
            decode(Toy(), [[5]], sampler, max_new_tokens=8, starts=[start])

    def test_given_tokens_stay(self) -> None:
        """A start has the given tokens of its request."""
        with pytest.raises(InputError, match="isn't its canvas"):
            decode(Toy(), [[7, -1, 0, 8, 0, 0]], "confidence-k1", starts=[[0, 9, 0, 0]])

    def test_a_model_that_decodes_by_itself(self) -> None:
        model = pbcore.load_model("tiny-ar")
        with pytest.raises(InputError, match="decodes by itself"):
            decode(model, ["x"], "ar", starts=[[0]])
