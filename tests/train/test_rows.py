"""Training rows and their noise."""

from __future__ import annotations

from random import Random

import pytest
import torch
from transformers import PreTrainedTokenizerFast

import pbcore.metrics  # noqa: F401
from pbcore.tasks.base import Sample
from pbcore.tasks.registry import load_task
from pbcore.train.rows import PADDING_WEIGHT, SLACK, Batches, Draw, Row, answers, encoded, masked_batch
from pbcore.train.vocabulary import build, vocabulary

TASKS = {"waiting_line/copy": 1.0, "puzzle/sudoku": 1.0}


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return build(vocabulary(40))


def some_rows() -> list[Row]:
    return [Row("t", (9, 8, 3, 7, 7, 4, 6, 3), (20, 21, 22, 1, 1, 1), 3, (3, 5)), Row("t", (9, 3), (30, 31, 1, 1), 2)]


class TestEncoded:
    def test_a_row_is_the_chat_and_the_answer_with_eos_to_the_canvas(self, tokenizer: PreTrainedTokenizerFast) -> None:
        sample = load_task("waiting_line/copy", limit=1).samples[0]
        (row,) = encoded([sample], tokenizer, Random(0), full_canvas=1.0)
        assert tokenizer.decode(row.canvas[: row.answer]) == sample.answer
        assert set(row.canvas[row.answer :]) == {tokenizer.eos_token_id}
        assert len(row.canvas) == 32
        assert tokenizer.decode(row.prompt).endswith(sample.prompt + "<|assistant|>")
        assert tokenizer.decode(row.prompt[slice(*row.shot)]) == sample.messages[1]["content"]

    def test_a_shortened_canvas_keeps_an_eos(self, tokenizer: PreTrainedTokenizerFast) -> None:
        for row in encoded(load_task("puzzle/sudoku", limit=8).samples, tokenizer, Random(0), full_canvas=0.0):
            assert 1 <= len(row.canvas) - row.answer <= SLACK

    def test_an_answer_that_does_not_fit_is_an_error(self, tokenizer: PreTrainedTokenizerFast) -> None:
        sample = Sample("x/y", 0, ({"role": "user", "content": "A"},), {}, "A B C D", 3)
        with pytest.raises(ValueError, match="does not fit 3"):
            encoded([sample], tokenizer, Random(0), 1.0)


class TestAnswers:
    def test_reads_the_printed_list_of_paraphrases(self) -> None:
        """Commas and quotes inside a sentence are no borders."""
        examples = ["It's, well, red.", 'A "b".']
        chat = ({"role": "user", "content": "A"},)
        assert answers(Sample("x/y", 0, chat, {}, {"text": "t", "examples": str(examples)}, 64)) == examples

    def test_a_label_without_answer_is_an_error(self) -> None:
        with pytest.raises(ValueError, match="no answer to learn"):
            answers(Sample("x/y", 0, ({"role": "user", "content": "A"},), {}, {"text": "t"}, 64))


class TestMaskedBatch:
    def test_only_canvas_is_masked_and_targets_are_what_was_there(self) -> None:
        """Over many draws every canvas position is masked at some time, no prompt position ever; every row keeps a masked answer token."""
        rng, seen = torch.Generator().manual_seed(0), torch.zeros(2, 14, dtype=torch.bool)
        for _ in range(200):
            batch = masked_batch(some_rows(), rng, 0, 1)
            plain = batch.ids.clone()
            plain[batch.masked] = batch.targets
            assert plain[0].tolist() == [9, 8, 3, 7, 7, 4, 6, 3, 20, 21, 22, 1, 1, 1]
            assert plain[1].tolist() == [1] * 8 + [9, 3, 30, 31, 1, 1]
            assert bool((batch.ids[batch.masked] == 0).all())
            assert bool(batch.masked[0, 8:11].any())
            assert bool(batch.masked[1, 10:12].any())
            seen |= batch.masked
        assert seen.tolist() == [[False] * 8 + [True] * 6, [False] * 10 + [True] * 4]
        assert batch.attend.tolist() == [[True] * 14, [False] * 8 + [True] * 6]

    def test_eos_after_the_first_counts_less(self) -> None:
        """Weights: 1 for the answer and its first EOS, PADDING_WEIGHT behind it."""
        rng = torch.Generator().manual_seed(1)
        for _ in range(50):
            batch = masked_batch(some_rows(), rng, 0, 1)
            expected = torch.ones(2, 14)
            expected[0, 12:], expected[1, 13:] = PADDING_WEIGHT, PADDING_WEIGHT
            assert torch.equal(batch.weights, expected[batch.masked])

    def test_the_example_is_masked_in_its_share_of_rows(self) -> None:
        """With a share of 1 the example's answer gets masks, and nothing else of the prompt does."""
        rng, seen = torch.Generator().manual_seed(2), torch.zeros(2, 14, dtype=torch.bool)
        for _ in range(100):
            seen |= masked_batch(some_rows(), rng, 0, 1, masked_shots=1.0).masked
        assert seen[0].tolist() == [False] * 3 + [True] * 2 + [False] * 3 + [True] * 6
        assert not bool(seen[1, :10].any())

    def test_the_share_of_masks_is_uniform(self) -> None:
        """t ~ U(0, 1): of a long answer every share of masks is as likely as any other."""
        row = Row("t", (5,), tuple(range(10, 210)), 200)
        rng = torch.Generator().manual_seed(3)
        shares = torch.cat([masked_batch([row] * 50, rng, 0, 1).masked.float().sum(1) / 200 for _ in range(20)])
        for level in (0.1, 0.5, 0.9):
            assert abs(float((shares < level).float().mean()) - level) < 0.05


class TestBatches:
    def test_a_batch_depends_on_seed_and_number_alone(self, tokenizer: PreTrainedTokenizerFast) -> None:
        """Asked for in another order, by another object, batch 70 is the same; another seed gives another."""
        draw = Draw(TASKS, 2, 0.5, 0.5, seed=4)
        first, again = Batches(draw, tokenizer), Batches(draw, tokenizer)
        _ = again[0], again[3]
        assert torch.equal(first[70].ids, again[70].ids)
        other = Batches(Draw(TASKS, 2, 0.5, 0.5, seed=5), tokenizer)[70].ids
        assert other.shape != first[70].ids.shape or not torch.equal(other, first[70].ids)

    def test_shares_decide_how_often_a_task_comes(self, tokenizer: PreTrainedTokenizerFast) -> None:
        batches = Batches(Draw({"waiting_line/copy": 3.0, "puzzle/sudoku": 1.0}, 8, 0.0, 0.0, seed=1), tokenizer)
        names = [task for number in range(64) for task in batches[number].tasks]
        assert 0.68 < names.count("waiting_line/copy") / len(names) < 0.82
