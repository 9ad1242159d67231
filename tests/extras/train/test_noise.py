"""Noise over training rows."""

from __future__ import annotations

import torch

from pbcore.extras.train.noise import PADDING_WEIGHT, TrainingRow, Words, causal_batch, masked_batch
from pbcore.extras.train.vocabulary import build_tokenizer

# Ids 0 mask, 1 EOS; for the tests of single tokens no id is punctuation or goes on from another.
WORDS = Words(0, 1, torch.zeros(300, dtype=torch.bool), torch.zeros(300, dtype=torch.bool))


def some_rows() -> list[TrainingRow]:
    return [
        TrainingRow("t", (9, 8, 3, 7, 7, 4, 6, 3), (20, 21, 22, 1, 1, 1), 3, (3, 5)),
        TrainingRow("t", (9, 3), (30, 31, 1, 1), 2),
    ]


class TestMaskedBatch:
    def test_only_canvas_is_masked_and_targets_are_what_was_there(self) -> None:
        """Over many draws every canvas position is masked at some time, no prompt position ever;
        every row keeps a masked answer token.
        """
        rng = torch.Generator().manual_seed(0)
        seen = torch.zeros(2, 14, dtype=torch.bool)
        for _ in range(200):
            batch = masked_batch(some_rows(), WORDS, rng)
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
            batch = masked_batch(some_rows(), WORDS, rng)
            expected = torch.ones(2, 14)
            expected[0, 12:], expected[1, 13:] = PADDING_WEIGHT, PADDING_WEIGHT
            assert torch.equal(batch.weights, expected[batch.masked])

    def test_the_example_is_masked_in_its_share_of_rows(self) -> None:
        """With a share of 1 the example's answer gets masks, and nothing else of the prompt
        does.
        """
        rng = torch.Generator().manual_seed(2)
        seen = torch.zeros(2, 14, dtype=torch.bool)
        for _ in range(100):
            seen |= masked_batch(some_rows(), WORDS, rng, masked_shots=1.0).masked
        assert seen[0].tolist() == [False] * 3 + [True] * 2 + [False] * 3 + [True] * 6
        assert not bool(seen[1, :10].any())

    def test_given_tokens_of_infilling_stay(self) -> None:
        """Of a row with holes each is masked at some time and nothing else ever; other rows are
        masked as without.
        """
        holed = TrainingRow("t", (9, 3), (30, 31, 32), 3, holes=(False, True, True))
        rng = torch.Generator().manual_seed(5)
        seen = torch.zeros(2, 14, dtype=torch.bool)
        for _ in range(100):
            batch = masked_batch([some_rows()[0], holed], WORDS, rng)
            assert bool(batch.masked[1].any())
            seen |= batch.masked
        assert seen.tolist() == [[False] * 8 + [True] * 6, [False] * 12 + [True] * 2]

    def test_the_share_of_masks_is_uniform(self) -> None:
        """t ~ U(0, 1): of a long answer every share of masks is as likely as any other."""
        row = TrainingRow("t", (5,), tuple(range(10, 210)), 200)
        rng = torch.Generator().manual_seed(3)
        shares = torch.cat(
            [masked_batch([row] * 50, WORDS, rng).masked.float().sum(1) / 200 for _ in range(20)]
        )
        for level in (0.1, 0.5, 0.9):
            assert abs(float((shares < level).float().mean()) - level) < 0.05


class TestPairs:
    def test_names_are_masked_whole_and_punctuation_is_mostly_shown(self) -> None:
        """With every row masked by pairs, a first name is a mask exactly when its last name is; in
        most rows all punctuation stays.
        """
        tokenizer = build_tokenizer(
            [
                "<|mask|>",
                "<|eos|>",
                "<|unknown|>",
                '["',
                '", "',
                '"]',
                "Ann",
                " Lee",
                "Bob",
                " Ray",
                "Cy",
                " Poe",
            ]
        )
        ids = tokenizer('["Ann Lee", "Bob Ray", "Cy Poe"]', add_special_tokens=False)["input_ids"]
        row = TrainingRow("t", (2, 2), (*ids, 1, 1), len(ids))
        rng = torch.Generator().manual_seed(5)
        masked = torch.cat(
            [
                masked_batch([row] * 20, Words.of(tokenizer), rng, pairs=1.0).masked
                for _ in range(20)
            ]
        )
        firsts = [3, 6, 9]
        lasts = [4, 7, 10]
        points = [2, 5, 8, 11]
        assert torch.equal(masked[:, firsts], masked[:, lasts])
        assert bool(masked[:, firsts].any(0).all())
        assert 0.65 < float((~masked[:, points]).all(1).float().mean()) < 0.95
        assert not bool(masked[:, :2].any())

    def test_the_words_of_a_sentence_go_two_by_two(self) -> None:
        """A chain of words splits into pairs from its start."""
        tokenizer = build_tokenizer(
            ["<|mask|>", "<|eos|>", "<|unknown|>", "The", " dog", " ran", " home", "."]
        )
        ids = tokenizer("The dog ran home.", add_special_tokens=False)["input_ids"]
        rng = torch.Generator().manual_seed(6)
        row = TrainingRow("t", (2,), tuple(ids), len(ids))
        masked = torch.cat(
            [
                masked_batch([row] * 20, Words.of(tokenizer), rng, pairs=1.0).masked
                for _ in range(10)
            ]
        )
        assert torch.equal(masked[:, 1], masked[:, 2])
        assert torch.equal(masked[:, 3], masked[:, 4])
        assert not torch.equal(masked[:, 2], masked[:, 3])


class TestCausalBatch:
    def test_every_token_of_the_answer_and_its_first_eos_is_predicted_one_position_earlier(
        self,
    ) -> None:
        rows = some_rows()
        batch = causal_batch(rows, WORDS, torch.Generator().manual_seed(0))
        expected = [token for row in rows for token in row.canvas[: row.answer + 1]]
        assert batch.targets.tolist() == expected
        assert batch.ids.roll(-1, dims=1)[batch.masked].tolist() == expected
        assert not (batch.masked & ~batch.attend).any()
        assert (batch.ids != WORDS.mask_id).all()

    def test_examples_are_targets_in_their_share(self) -> None:
        """With share 1 the example in the prompt is predicted too, in the rows that have one."""
        rows = some_rows()
        plain = causal_batch(rows, WORDS, torch.Generator().manual_seed(0))
        more = causal_batch(rows, WORDS, torch.Generator().manual_seed(0), masked_shots=1.0)
        added = int((more.masked & ~plain.masked).sum())
        assert added == sum(row.shot[1] - row.shot[0] for row in rows) > 0
