"""Training rows."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
import torch
from transformers import PreTrainedTokenizerFast

from pbcore.extras.train.recipe import Phase, Recipe
from pbcore.extras.train.rows import SLACK, Batches, encode_rows
from pbcore.extras.train.vocabulary import answers, build_tokenizer, vocabulary
from pbcore.tasks.base import Sample
from pbcore.tasks.registry import load_task

TASKS = ("waiting_line/copy", "puzzle/sudoku")


def batches(
    tokenizer: PreTrainedTokenizerFast, seed: int, tasks: tuple[str, ...] = TASKS, **phase: Any
) -> Batches:
    """Those of a recipe with one phase."""
    given = Phase(1, 0.1, 0.1, **{"rows": 2, "full_canvas": 0.0, "masked_shots": 0.0, **phase})
    return Batches(Recipe(8, 1, 1, 8, seed, 1, 0, (given,), tasks=tasks), 0, tokenizer)


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return build_tokenizer(vocabulary(40, names=[*TASKS, "puzzle/latin_square"]))


class TestEncoded:
    def test_a_row_is_the_chat_and_the_answer_with_eos_to_the_canvas(
        self, tokenizer: PreTrainedTokenizerFast
    ) -> None:
        sample = load_task("waiting_line/copy", limit=1).samples[0]
        (row,) = encode_rows([sample], tokenizer, Random(0), full_canvas=1.0)
        assert tokenizer.decode(row.canvas[: row.answer]) == sample.answer
        assert set(row.canvas[row.answer :]) == {tokenizer.eos_token_id}
        assert len(row.canvas) == 32
        assert tokenizer.decode(row.prompt).endswith(sample.prompt + "<|assistant|>")
        assert tokenizer.decode(row.prompt[slice(*row.shot)]) == sample.messages[1]["content"]

    def test_a_shortened_canvas_keeps_an_eos(self, tokenizer: PreTrainedTokenizerFast) -> None:
        for row in encode_rows(
            load_task("puzzle/sudoku", limit=8).samples, tokenizer, Random(0), full_canvas=0.0
        ):
            assert 1 <= len(row.canvas) - row.answer <= SLACK

    def test_an_answer_that_does_not_fit_is_an_error(
        self, tokenizer: PreTrainedTokenizerFast
    ) -> None:
        sample = Sample("x/y", 0, ({"role": "user", "content": "A"},), {}, "A B C D", 3)
        with pytest.raises(ValueError, match="does not fit the canvas of 3"):
            encode_rows([sample], tokenizer, Random(0), 1.0)


class TestAnswers:
    def test_reads_the_printed_list_of_paraphrases(self) -> None:
        """Commas and quotes inside a sentence are no borders."""
        examples = ["It's, well, red.", 'A "b".']
        chat = ({"role": "user", "content": "A"},)
        assert (
            answers(Sample("x/y", 0, chat, {}, {"text": "t", "examples": str(examples)}, 64))
            == examples
        )

    def test_a_label_without_answer_is_an_error(self) -> None:
        with pytest.raises(ValueError, match="no answer to learn"):
            answers(Sample("x/y", 0, ({"role": "user", "content": "A"},), {}, {"text": "t"}, 64))


class TestBatches:
    def test_a_batch_depends_on_seed_and_number_alone(
        self, tokenizer: PreTrainedTokenizerFast
    ) -> None:
        """Asked for in another order, by another object, batch 70 is the same; another seed gives
        another.
        """
        shares = {"full_canvas": 0.5, "masked_shots": 0.5}
        first, again = (batches(tokenizer, 4, **shares) for _ in range(2))
        _ = again[0], again[3]
        assert torch.equal(first[70].ids, again[70].ids)
        other = batches(tokenizer, 5, **shares)[70].ids
        assert other.shape != first[70].ids.shape or not torch.equal(other, first[70].ids)

    def test_shares_decide_how_often_a_task_comes(self, tokenizer: PreTrainedTokenizerFast) -> None:
        drawn = batches(tokenizer, 1, rows=8, weights={"waiting_line/copy": 3.0})
        names = [task for number in range(64) for task in drawn[number].tasks]
        assert 0.68 < names.count("waiting_line/copy") / len(names) < 0.82

    def test_lengths_replace_the_tasks_own(self, tokenizer: PreTrainedTokenizerFast) -> None:
        """Latin squares of side 2, though the task asks for side 4."""
        name = "puzzle/latin_square"
        batch = batches(tokenizer, 1, (name,), rows=4, lengths={name: [2]})[0]
        plain = batch.ids.clone()
        plain[batch.masked] = batch.targets
        assert all("of size 2 with" in tokenizer.decode(row) for row in plain)
