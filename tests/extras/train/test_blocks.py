"""The loss of block-causal models against decoding with the cache of finished blocks."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from random import Random

import pytest
import torch
from torch.nn.functional import cross_entropy
from transformers import PreTrainedTokenizerFast

from pbcore.extras.train import card, loop
from pbcore.extras.train.blocks import BlockLoss, attention_mask, block_numbers, noised_copy
from pbcore.extras.train.noise import TrainingBatch, Words, block_batch
from pbcore.extras.train.recipe import BLOCK, Phase, Recipe
from pbcore.extras.train.rows import encode_rows
from pbcore.extras.train.vocabulary import build_tokenizer, vocabulary
from pbcore.models import load_model
from pbcore.models.base import Query, Request
from pbcore.models.masked import MaskedModel
from pbcore.tasks.registry import generate

TASKS = ("waiting_line/copy", "waiting_line/shuffle", "puzzle/sudoku")


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return build_tokenizer(vocabulary(20, names=TASKS))


@pytest.fixture(scope="module")
def model(
    tokenizer: PreTrainedTokenizerFast, tmp_path_factory: pytest.TempPathFactory
) -> MaskedModel:
    """A small block-causal model with random weights, as its checkpoint loads."""
    recipe = Recipe(32, 2, 4, 48, 3, 1, 0, (Phase(1, 0.1, 0.1),), objective="block", tasks=TASKS)
    run = loop.start(recipe, tokenizer)
    folder = tmp_path_factory.mktemp("block") / "checkpoint"
    run.log.append({"step": 0, "loss": 1.0})
    card.export(run, folder)
    loaded = load_model(str(folder), dtype="float32")
    assert isinstance(loaded, MaskedModel)
    return loaded


def some_batch(
    tokenizer: PreTrainedTokenizerFast, seed: int, masked_shots: float = 0.5, pairs: float = 0.5
) -> TrainingBatch:
    """Noised rows of three tasks, of ragged lengths."""
    samples = [sample for name in TASKS for sample in islice(generate(name, "train", seed=seed), 3)]
    rows = encode_rows(samples, tokenizer, Random(seed), 0.5, BLOCK)
    rng = torch.Generator().manual_seed(seed)
    return block_batch(rows, Words.of(tokenizer), rng, BLOCK, masked_shots, pairs)


class TestBlockLoss:
    @pytest.mark.parametrize("seed", [0, 1, 2])
    def test_equals_block_wise_decoding_with_the_cache(
        self, seed: int, model: MaskedModel, tokenizer: PreTrainedTokenizerFast
    ) -> None:
        """One training forward gives each mask the loss that decoding gives it: row by row, block
        by block, the block with its masks against the cache of the clean blocks before it.
        """
        batch = some_batch(tokenizer, seed)
        loss = BlockLoss(model.network, model.network.module, BLOCK)  # type: ignore[arg-type]
        with torch.no_grad():
            losses = loss(batch.ids, batch.attend, batch.masked, batch.targets)
            expected = decoding_losses(model, batch)
        assert len(losses) == len(batch.targets) > 100
        torch.testing.assert_close(losses, expected, atol=2e-5, rtol=1e-4)

    def test_a_later_or_noised_token_elsewhere_changes_nothing(
        self, model: MaskedModel, tokenizer: PreTrainedTokenizerFast
    ) -> None:
        """A mask's logits stay when clean tokens of its own or a later block change, or the masks
        of another block; they change with a clean token of an earlier block.
        """
        loss = BlockLoss(model.network, model.network.module, BLOCK)  # type: ignore[arg-type]
        generator = torch.Generator().manual_seed(0)
        clean = torch.randint(5, 60, (1, 16), generator=generator)
        attend = torch.ones(1, 16, dtype=torch.bool)

        def logits_at_5(ids: torch.Tensor, *others: int) -> torch.Tensor:
            """Those of a mask at position 5, with masks at some others."""
            places = sorted([5, *others])
            masked = torch.zeros(1, 16, dtype=torch.bool)
            masked[0, places] = True
            noisy = ids.masked_fill(masked, model.mask_id)
            with torch.no_grad():
                logits = loss.logits(noisy, attend, masked, ids[masked])
            return logits[places.index(5)]

        def changed(place: int) -> torch.Tensor:
            other = clean.clone()
            other[0, place] = 61
            return other

        before = logits_at_5(clean)
        torch.testing.assert_close(logits_at_5(changed(5)), before)
        torch.testing.assert_close(logits_at_5(changed(8)), before)
        torch.testing.assert_close(logits_at_5(clean, 9), before)
        torch.testing.assert_close(logits_at_5(clean, 2), before)
        assert not torch.allclose(logits_at_5(changed(2)), before)
        assert not torch.allclose(logits_at_5(clean, 6), before)


def decoding_losses(model: MaskedModel, batch: TrainingBatch) -> torch.Tensor:
    """The loss of each mask (M,), by forwards of decoding: a row alone, its clean blocks stored
    before each block with masks.
    """
    clean = batch.ids.masked_scatter(batch.masked, batch.targets)
    losses = []
    for row in range(len(clean)):
        real = batch.attend[row]
        ids = clean[row][real]
        noisy = batch.ids[row][real]
        masked = batch.masked[row][real]
        # The first token is the prompt, all others the canvas, so that every block is decoded.
        request = Request((int(ids[0]),), tuple(ids[1:].tolist()), 0)
        context = model.prepare([request], cache=None, seed=0)
        for block in range(-(-len(ids) // BLOCK)):
            place = torch.arange(len(ids)) // BLOCK
            canvas = torch.where(place == block, noisy, ids)[None, 1:]
            want = (masked & (place == block))[None, 1:]
            if not bool(want.any()):
                continue
            number = torch.tensor([block])
            context.store(canvas, number, torch.tensor([True]))  # type: ignore[attr-defined]
            query = Query(canvas, want, torch.tensor([0]), block=number)
            logits = context.logits(query)
            targets = ids[None, 1:][want]
            losses.append(cross_entropy(logits.float(), targets, reduction="none"))
    return torch.cat(losses)


class TestAttentionMask:
    def test_equals_an_obvious_loop(self, tokenizer: PreTrainedTokenizerFast) -> None:
        """Pair by pair: padding is never seen, clean columns see clean ones up to their block's
        end, noised ones their own noised block and the clean blocks before it.
        """
        batch = some_batch(tokenizer, 3)
        positions, blocks = block_numbers(batch.attend, BLOCK)
        copy = noised_copy(batch.masked, batch.attend, blocks)
        sees = attention_mask(blocks, batch.attend, copy)
        width = batch.ids.shape[1]
        for row in (0, 4, 8):
            start = width - int(batch.attend[row].sum())
            noised = [
                column
                for column in range(start, width)
                if any(
                    bool(batch.masked[row, other])
                    for other in range(start, width)
                    if (other - start) // BLOCK == (column - start) // BLOCK
                )
            ]
            assert copy.of[row][copy.real[row]].tolist() == noised
            assert positions[row, start:].tolist() == list(range(width - start))
            columns = [(column, False) for column in range(start, width)]
            columns += [(column, True) for column in noised]
            for query, query_noised in columns:
                row_of_query = width + noised.index(query) if query_noised else query
                expected = []
                for key, key_noised in columns:
                    gap = (query - start) // BLOCK - (key - start) // BLOCK
                    if query_noised:
                        expected.append(gap == 0 if key_noised else gap > 0)
                    else:
                        expected.append(not key_noised and gap >= 0)
                keys = [width + noised.index(key) if copied else key for key, copied in columns]
                assert sees[row, row_of_query][keys].tolist() == expected
                assert int(sees[row, row_of_query].sum()) == sum(expected)


class TestBlockBatch:
    def test_each_block_of_the_answer_holds_a_mask(
        self, tokenizer: PreTrainedTokenizerFast
    ) -> None:
        """Whatever is drawn, no block of the answer goes without; the prompt has none unless its
        example is masked.
        """
        for seed in range(20):
            batch = some_batch(tokenizer, seed, masked_shots=0.0)
            clean = batch.ids.masked_scatter(batch.masked, batch.targets)
            for row in range(len(clean)):
                real = batch.attend[row]
                masked = batch.masked[row][real]
                first = int(masked.nonzero()[0]) // BLOCK
                for block in range(first, -(-len(masked) // BLOCK)):
                    assert bool(masked[block * BLOCK : (block + 1) * BLOCK].any())
                turns = clean[row][real] == tokenizer.get_vocab()["<|assistant|>"]
                assert int(masked.nonzero()[0]) > int(turns.nonzero()[-1])

    def test_blocks_have_their_own_amount_of_noise(
        self, tokenizer: PreTrainedTokenizerFast
    ) -> None:
        """A whole block of four masks is drawn once in five, the mean of t⁴ for t ~ U(0, 1),
        whatever its neighbours have.
        """
        whole = []
        for seed in range(40):
            batch = some_batch(tokenizer, seed, masked_shots=0.0, pairs=0.0)
            for row in range(len(batch.ids)):
                masked = batch.masked[row][batch.attend[row]]
                first = int(masked.nonzero()[0]) // BLOCK + 1
                for start in range(first * BLOCK, len(masked) - BLOCK + 1, BLOCK):
                    whole.append(bool(masked[start : start + BLOCK].all()))
        assert 0.17 < sum(whole) / len(whole) < 0.23

    def test_a_shortened_canvas_ends_with_a_block(self, tokenizer: PreTrainedTokenizerFast) -> None:
        """As in decoding, where a block is never cut short by the end of the answer."""
        samples = list(islice(generate("waiting_line/copy", "train", seed=5), 20))
        for row in encode_rows(samples, tokenizer, Random(1), 0.0, BLOCK):
            assert len(row) % BLOCK == 0 or len(row.canvas) == samples[0].max_new_tokens
            assert len(row.canvas) > row.answer


def test_the_checkpoint_is_a_block_model(model: MaskedModel, tmp_path: Path) -> None:
    """Its config.json names a family whose attention at decoding is that of the training."""
    assert model.block == BLOCK
    assert model.info["family"] == "stable_diffcoder"
    assert not model.shift
