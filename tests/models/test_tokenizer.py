"""Tokenizers: files without code, the stand-in for dummies, none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tokenizers.pre_tokenizers import ByteLevel

from pbcore.models.errors import ModelError
from pbcore.models.tokenizer import FileTokenizer, HashTokenizer, NoTokenizer, read_tokenizer
from tests.models.checkpoints import llama_checkpoint, word_tokenizer

CHAT = [
    {"role": "user", "content": "Copy"},
    {"role": "assistant", "content": "Bob"},
    {"role": "user", "content": "Alice"},
]


class TestReading:
    """read_tokenizer."""

    def test_vocabulary_and_merges(self, tmp_path: Path) -> None:
        """Dream's layout, vocab.json with merges.txt and added tokens in tokenizer_config.json, reads without
        its code.
        """
        characters = sorted(ByteLevel.alphabet())
        vocabulary = {token: i for i, token in enumerate([*characters, "ab", "<|endoftext|>"])}
        (tmp_path / "vocab.json").write_text(json.dumps(vocabulary))
        (tmp_path / "merges.txt").write_text("#version: 0.2\na b\n")
        plain = dict.fromkeys(("lstrip", "rstrip", "normalized", "single_word"), False)
        config = {
            "tokenizer_class": "DreamTokenizer",
            "auto_map": {"AutoTokenizer": ["own.T", None]},
            "added_tokens_decoder": {str(len(vocabulary)): {"content": "<|mask|>", "special": True, **plain}},
            "chat_template": "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}{% endfor %}",
        }
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
        tokenizer = read_tokenizer(tmp_path, "dream", "template")
        assert tokenizer.piece("abc<|mask|>") == [vocabulary["ab"], vocabulary["c"], len(vocabulary)]
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


class TestHash:
    """HashTokenizer."""

    def test_words_have_one_id_each_in_range(self) -> None:
        """Equal words have equal ids below the size, and a list of names is as long as its words and signs."""
        ids = HashTokenizer(500).text('["Bob Jones", "Bob Jones"]')
        assert len(ids) == 7
        assert ids[1:3] == ids[4:6]
        assert all(0 <= i < 500 for i in ids)
