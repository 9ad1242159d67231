"""The tokenizer of `tiny`."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest
from transformers import PreTrainedTokenizerFast

from pbcore.extras.train.rows import answers
from pbcore.extras.train.vocabulary import (
    ASSISTANT,
    SPECIAL,
    UNKNOWN,
    USER,
    build_tokenizer,
    vocabulary,
)
from pbcore.tasks.registry import generate, load_task, task_names
from pbcore.tasks.words import tokens

TASKS = (
    "waiting_line/insert_index",
    "puzzle/sudoku",
    "puzzle/latin_square",
    "text_writing/w2s_easy",
)


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return build_tokenizer(vocabulary(40, names=TASKS))


class TestBuild:
    @pytest.mark.parametrize(
        "text",
        [
            '["Anna Underwood", "Arthur Dalton"]',
            "1234\n3412\n",
            "A,B,C,D\n",
            "It's a dog's life, isn't it?  Yes\n\n",
            "a an A I ABC aa 42",
            "é ☃ x",
        ],
    )
    def test_splits_as_words_do(self, tokenizer: PreTrainedTokenizerFast, text: str) -> None:
        """The file's pre-tokenizer and `words.tokens` cut at the same places, lookaheads
        included.
        """
        split = tokenizer.backend_tokenizer.pre_tokenizer.pre_tokenize_str(text)
        assert [piece for piece, _ in split] == tokens(text)

    @pytest.mark.parametrize("name", TASKS)
    def test_reads_and_writes_a_task_losslessly(
        self, tokenizer: PreTrainedTokenizerFast, name: str
    ) -> None:
        """Prompt and answer become the tokens of `words.tokens`, one id each, and decode to the
        same text.
        """
        for sample in islice(generate(name, "train"), 20):
            for text in (sample.prompt, *answers(sample)):
                ids = tokenizer(text, add_special_tokens=False)["input_ids"]
                assert tokenizer.convert_ids_to_tokens(ids) == tokens(text)
                assert tokenizer.decode(ids) == text

    def test_the_chat_template_marks_the_turns(self, tokenizer: PreTrainedTokenizerFast) -> None:
        """Each turn opens with its role's marker; the answer's own turn is opened at the end."""
        chat = [
            {"role": "user", "content": "A"},
            {"role": "assistant", "content": "B"},
            {"role": "user", "content": "C"},
        ]
        text = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
        assert text == f"{USER}A{ASSISTANT}B{USER}C{ASSISTANT}"
        assert tokenizer.convert_ids_to_tokens(tokenizer(text)["input_ids"]) == [
            USER,
            "A",
            ASSISTANT,
            "B",
            USER,
            "C",
            ASSISTANT,
        ]

    def test_a_word_it_does_not_know_is_unknown(self, tokenizer: PreTrainedTokenizerFast) -> None:
        assert tokenizer.convert_ids_to_tokens(tokenizer(" zyzzyva")["input_ids"]) == [UNKNOWN]

    def test_survives_its_file(self, tokenizer: PreTrainedTokenizerFast, tmp_path: Path) -> None:
        """Saved and read again it gives the same ids, special tokens and template; the template
        stands in tokenizer_config.json.
        """
        tokenizer.save_pretrained(tmp_path, save_jinja_files=False)
        again = PreTrainedTokenizerFast.from_pretrained(tmp_path)
        text = '["Anna Underwood"]\n1234'
        assert again(text)["input_ids"] == tokenizer(text)["input_ids"]
        assert (again.mask_token_id, again.eos_token_id, again.pad_token_id) == (0, 1, 1)
        assert again.chat_template == tokenizer.chat_template
        assert not (tmp_path / "chat_template.jinja").exists()


class TestVocabulary:
    def test_is_the_same_every_time_and_has_no_token_twice(self) -> None:
        words = vocabulary(5, names=["waiting_line/sort", "text_writing/w2s_hard"])
        assert words == vocabulary(5, names=["waiting_line/sort", "text_writing/w2s_hard"])
        assert len(set(words)) == len(words)
        assert tuple(words[: len(SPECIAL)]) == SPECIAL


class TestEmbedded:
    @pytest.mark.parametrize("name", task_names())
    def test_the_shipped_tokenizer_knows_every_test_sample(self, name: str, embedded: Path) -> None:
        """No test prompt or answer has a word outside the vocabulary; all decode to what they
        were.
        """
        tokenizer = PreTrainedTokenizerFast.from_pretrained(embedded)
        for sample in load_task(name).samples:
            for text in (*(message["content"] for message in sample.messages), *answers(sample)):
                ids = tokenizer(text, add_special_tokens=False)["input_ids"]
                assert tokenizer.unk_token_id not in ids, text
                assert tokenizer.decode(ids) == text
