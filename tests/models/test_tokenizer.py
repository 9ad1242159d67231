"""Tokenizers: files without code, the stand-in for dummies, none."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tokenizers import Tokenizer as RustTokenizer
from tokenizers import decoders, models, pre_tokenizers
from tokenizers.pre_tokenizers import ByteLevel
from transformers import PreTrainedTokenizerFast

from pbcore.models import load_model
from pbcore.models.errors import ModelError
from pbcore.models.tokenizer import (
    FileTokenizer,
    HashTokenizer,
    NoTokenizer,
    prompt_ids,
    read_tokenizer,
)
from pbcore.tasks import Sample
from tests.models.checkpoints import llama_checkpoint, word_tokenizer

CHAT = [
    {"role": "user", "content": "Copy"},
    {"role": "assistant", "content": "Bob"},
    {"role": "user", "content": "Alice"},
]


def byte_tokenizer(gap: int = 0, **special: str) -> PreTrainedTokenizerFast:
    """A tokenizer of bytes, as GPT-2's, and a few words; `gap` ids before these have no token."""
    vocabulary = {sign: i for i, sign in enumerate(sorted(ByteLevel.alphabet()))}
    first = len(vocabulary) + gap
    for number, word in enumerate(("<s>", "<eos>", "Ġhello", "Ġworld")):
        vocabulary[word] = first + number
    rust = RustTokenizer(models.BPE(vocab=vocabulary, merges=[]))
    rust.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    rust.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=rust, eos_token="<eos>", **special)


def read(words: PreTrainedTokenizerFast, folder: Path) -> Any:
    """The tokenizer as it is read from a checkpoint's folder."""
    words.save_pretrained(folder)
    return read_tokenizer(folder, "x", None)


class TestReading:
    """read_tokenizer."""

    def test_vocabulary_and_merges(self, tmp_path: Path) -> None:
        """Dream's layout, vocab.json with merges.txt and added tokens in tokenizer_config.json,
        reads without its code.
        """
        characters = sorted(ByteLevel.alphabet())
        vocabulary = {token: i for i, token in enumerate([*characters, "ab", "<|endoftext|>"])}
        (tmp_path / "vocab.json").write_text(json.dumps(vocabulary))
        (tmp_path / "merges.txt").write_text("#version: 0.2\na b\n")
        plain = dict.fromkeys(("lstrip", "rstrip", "normalized", "single_word"), False)
        config = {
            "tokenizer_class": "DreamTokenizer",
            "auto_map": {"AutoTokenizer": ["own.T", None]},
            "added_tokens_decoder": {
                str(len(vocabulary)): {"content": "<|mask|>", "special": True, **plain}
            },
            "chat_template": (
                "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}{% endfor %}"
            ),
        }
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
        tokenizer = read_tokenizer(tmp_path, "dream", "template")
        assert tokenizer.piece("abc<|mask|>") == [
            vocabulary["ab"],
            vocabulary["c"],
            len(vocabulary),
        ]
        assert tokenizer.decode(tokenizer.piece("abc<|mask|>")) == "abc"
        assert tokenizer.decode(tokenizer.chat(CHAT[:1])) == "<user>Copy"

    def test_none(self, tmp_path: Path) -> None:
        """Without files, text is refused with what is missing and ids print as numbers."""
        tokenizer = read_tokenizer(tmp_path, "bare", None)
        assert isinstance(tokenizer, NoTokenizer)
        assert tokenizer.decode([3, 4]) == "3 4"
        with pytest.raises(ModelError, match=r"tokenizer\.json"):
            tokenizer.chat(CHAT)

    def test_broken(self, tmp_path: Path) -> None:
        """A tokenizer file that can't be read says to download it again."""
        folder = llama_checkpoint(tmp_path)
        (folder / "tokenizer.json").write_text('{"version": "1.0"')
        with pytest.raises(ModelError, match="download it again"):
            read_tokenizer(folder, "x", None)


class TestFiles:
    """FileTokenizer."""

    def test_plain_joins_the_turns(self) -> None:
        """Base models get the turns' texts without a template."""
        tokenizer = FileTokenizer(word_tokenizer(), "base", "plain")
        assert tokenizer.chat(CHAT) == tokenizer.text("Copy\n\nBob\n\nAlice")

    def test_template_is_needed(self) -> None:
        """A chat model whose tokenizer has no template is refused with the way out."""
        words = word_tokenizer()
        words.chat_template = None
        with pytest.raises(ModelError, match="chat='plain'"):
            FileTokenizer(words, "x", "template")

    @pytest.mark.parametrize(("count", "more"), [(1, ""), (8, ""), (9, r" and 1 more")])
    def test_unknown_words_are_named(self, count: int, more: str) -> None:
        """Each once, the first eight and how many more."""
        words = [f"x{letter}" for letter in "abcdefghi"][:count]
        named = ", ".join(repr(word) for word in words[:8])
        with pytest.raises(ModelError, match=f"not in its vocabulary: {named}{more}\\. "):
            FileTokenizer(word_tokenizer(), "x", "plain").text(" ".join([*words, words[0]]))

    def test_text_comes_back(self) -> None:
        """Pieces of an answer decode to the same text; ids beyond the tokenizer are left out."""
        tokenizer = FileTokenizer(word_tokenizer(), "x", None)
        text = '["Alice Smith", "Bob Jones"]'
        assert tokenizer.decode([*tokenizer.piece(text), 10_000]) == text

    def test_a_vocabulary_with_gaps(self, tmp_path: Path) -> None:
        """Ids above the number of tokens have their text, as in the tokenizer's own decode."""
        words = byte_tokenizer(gap=40)
        last = max(words.get_vocab().values())
        assert last >= len(words)
        tokenizer = read(words, tmp_path)
        assert tokenizer.decode([last, last - 1]) == words.decode([last, last - 1]) != ""

    @pytest.mark.parametrize("last", [True, False])
    def test_tokens_without_rust(self, last: bool) -> None:
        """A tokenizer in Python fails for an id that it has no token for, so such are left out."""

        class Slow(SimpleNamespace):
            def get_vocab(self) -> dict[str, int]:
                return {"a": 0, "b": 7}

            def decode(self, ids: list[int], **options: Any) -> str:
                return "".join({0: "a", 7: "b"}[i] for i in ids)

        slow = Slow(chat_template=None, is_fast=False, eos_token_id=None)
        assert FileTokenizer(slow, "x", None).decode([0, 3, 7] if last else [3, 0, 9]) == (
            "ab" if last else "a"
        )

    @pytest.mark.parametrize("unknown", [None, "<eos>", "<s>"])
    def test_an_unknown_token_with_another_meaning(
        self, unknown: str | None, tmp_path: Path
    ) -> None:
        """GPT-2's is its EOS: what the template writes is no unknown word."""
        more = {} if unknown is None else {"unk_token": unknown}
        words = byte_tokenizer(bos_token="<s>", **more)
        words.chat_template = "<s>{{ messages[0]['content'] }}<eos>"
        tokenizer = read(words, tmp_path)
        assert tokenizer.chat(CHAT[:1]) == words.encode("<s>Copy<eos>", add_special_tokens=False)

    def test_a_word_that_is_unknown_beside_it(self) -> None:
        """It is named still, without a sentence about the package's own models."""
        words = word_tokenizer()
        words.unk_token = "[PAD]"
        words.backend_tokenizer.model.unk_token = "[PAD]"
        with pytest.raises(ModelError, match=r"not in its vocabulary: 'xa'\. Leave these words"):
            FileTokenizer(words, "x", "plain").text("[PAD]xa")
        tiny: Any = load_model("tiny")
        with pytest.raises(ModelError, match=r"'Xylophone'.* covers the package's own data only"):
            tiny.tokenizer.text("Xylophone")


class TestTemplates:
    """Chat templates that can't be rendered: one line names the folder, the file and the reason."""

    @pytest.mark.parametrize(
        ("template", "said"),
        [
            ("{% for m in messages %}\n{{ m['content'] }", r", line 2\) .*unexpected '}'"),
            ("{% if %}", r", line 1\) .*\(TemplateSyntaxError\)"),
            ("{{ raise_exception('a system turn\nis needed') }}", r"\) .*a system turn.*needed"),
            ("{{ nobody.knows }}", r"\) .*'nobody' is undefined"),
            ("{{ 1 / 0 }}", r"\) .*ZeroDivisionError"),
            ("{{ messages[0]['content'] + 1 }}", r"\) .*TypeError"),
        ],
    )
    def test_what_it_says(self, template: str, said: str, tmp_path: Path) -> None:
        words = word_tokenizer()
        words.chat_template = template
        tokenizer = read(words, tmp_path)
        place = rf"^{tmp_path}: its chat template \(chat_template\.jinja"
        with pytest.raises(ModelError, match=rf"{place}{said}") as caught:
            tokenizer.chat(CHAT)
        assert "\n" not in str(caught.value)
        assert "chat='plain'" in str(caught.value)

    def test_several_without_a_default(self, tmp_path: Path) -> None:
        """They are named; with one named default that one is used."""
        words = word_tokenizer()
        words.chat_template = {"rag": "R", "tool_use": "T"}
        said = "its chat templates are 'rag', 'tool_use', and none is named default"
        with pytest.raises(ModelError, match=said):
            FileTokenizer(words, "x", None).chat(CHAT)
        with pytest.raises(ModelError, match=said):
            assert FileTokenizer(words, "x", None).template
        words.chat_template = {"rag": "R", "default": "Bob"}
        tokenizer = FileTokenizer(words, "x", None, folder=tmp_path)
        assert (tokenizer.template, tokenizer.templated(CHAT)) == ("Bob", "Bob")

    def test_a_turn_that_is_not_written(self, tmp_path: Path) -> None:
        """transformers' own check of an unfinished turn."""
        words = word_tokenizer()
        words.chat_template = "Bob"
        tokenizer = read(words, tmp_path)
        with pytest.raises(ModelError, match=r"can't be rendered: continue_final_message is set"):
            tokenizer.templated(CHAT[:2], unfinished=True)


class TestHash:
    """HashTokenizer."""

    def test_words_have_one_id_each_in_range(self) -> None:
        """Equal words have equal ids below the size, and a list of names is as long as its words
        and signs.
        """
        ids = HashTokenizer(500).text('["Bob Jones", "Bob Jones"]')
        assert len(ids) == 7
        assert ids[1:3] == ids[4:6]
        assert all(0 <= i < 500 for i in ids)

    def test_ids_are_those_of_the_crc(self) -> None:
        """On every machine; a chat has its turns' roles, and ends where the assistant begins."""
        words = HashTokenizer(97)
        assert words.text("Bob") == [zlib.crc32(b"Bob") % 97]
        assert words.chat(CHAT[:2]) == words.text("<user>\nCopy\n<assistant>\nBob\n<assistant>\n")
        assert words.piece("Bob Jones") == words.text("Bob Jones")
        assert (words.decode([3, 4]), words.words(), words.eos_id) == ("3 4", {}, None)


class TestPrompts:
    """prompt_ids."""

    def test_every_form(self) -> None:
        """A sample and messages are chats, text is text, ids are themselves."""
        words = FileTokenizer(word_tokenizer(), "x", None)
        sample = Sample("a/b", 0, tuple(CHAT), {}, "x", 8)
        assert (
            prompt_ids(words, sample, "x")
            == prompt_ids(words, CHAT, "x")
            == words.chat(CHAT)
            != words.text("Copy")
        )
        assert prompt_ids(words, "Copy", "x") == words.text("Copy")
        assert prompt_ids(words, (3, 4), "x") == [3, 4]

    @pytest.mark.parametrize("prompt", [[{"role": "user"}], [{"content": "x"}], [1, "x"], ["x"]])
    def test_any_other_is_refused(self, prompt: Any) -> None:
        """With what can be given."""
        with pytest.raises(
            ModelError,
            match=r"x can't encode the prompt .*give a Sample, messages with role and content",
        ):
            prompt_ids(HashTokenizer(9), prompt, "x")


class TestBos:
    """Texts of whole prompts."""

    def test_bos_stands_there_once(self) -> None:
        """Text to which a template was applied has its own; what follows is kept."""
        words: Any = SimpleNamespace(
            chat_template=None, is_fast=False, bos_token_id=7, eos_token_id=None, unk_token_id=None
        )

        class Words(SimpleNamespace):
            def __call__(self, text: str, **options: Any) -> dict[str, list[int]]:
                return {
                    "input_ids": [7] * options["add_special_tokens"] + [int(sign) for sign in text]
                }

        words = FileTokenizer(Words(**vars(words)), "x", None)
        assert words.text("12") == [7, 1, 2]
        assert words.text("712") == [7, 1, 2]
        assert words.text("771") == [7, 7, 1]
        assert (words.piece("12"), words.piece("")) == ([1, 2], [])
        words._tokenizer.bos_token_id = None
        assert words.text("712") == [7, 7, 1, 2]

    def test_none_has_no_ids(self) -> None:
        """Whatever the form of a text."""
        bare = NoTokenizer("bare")
        for call in (bare.text, bare.piece):
            with pytest.raises(ModelError, match="bare has no tokenizer files"):
                call("x")
        assert (bare.words(), bare.eos_id) == ({}, None)
