"""Background token frequencies."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from pbcore.models import load_model
from pbcore.models.errors import ModelError
from pbcore.models.frequencies import (
    FILE,
    VARIABLE,
    count_tokens,
    load_frequencies,
    save_table,
    tokenizer_of,
)
from tests.models.checkpoints import llama_checkpoint


class TestTable:
    def test_counted_tokens_have_their_share(self, tmp_path: Path) -> None:
        """Shares of the total; a token that never came counts as once."""
        save_table(tmp_path / FILE, {3: 6, 1: 2}, 5)
        assert torch.allclose(
            load_frequencies(tmp_path / FILE, 5), torch.tensor([1 / 8, 2 / 8, 1 / 8, 6 / 8, 1 / 8])
        )

    def test_another_vocabulary(self, tmp_path: Path) -> None:
        """A table of another tokenizer is refused."""
        save_table(tmp_path / FILE, {3: 6}, 5)
        with pytest.raises(ModelError, match="vocabulary of 5, but this model's has 6"):
            load_frequencies(tmp_path / FILE, 6)

    @pytest.mark.parametrize(
        "text", ["", "[]", '{"vocab_size": 5}', '{"vocab_size": 5, "counts": {"a": 1}}']
    )
    def test_no_table(self, tmp_path: Path, text: str) -> None:
        """A file of another kind is named, with what makes a right one."""
        (tmp_path / FILE).write_text(text)
        with pytest.raises(
            ModelError, match=r"not a frequency table .* `pbcore list samplers --frequencies"
        ):
            load_frequencies(tmp_path / FILE, 5)

    def test_nothing_to_count(self, tmp_path: Path) -> None:
        """An empty corpus makes no table."""
        with pytest.raises(ModelError, match="no tokens to count"):
            save_table(tmp_path / FILE, {}, 5)


class TestUnreadable:
    @pytest.mark.parametrize(
        "content",
        [
            None,
            "no JSON",
            "[1, 2]",
            '{"vocab_size": 5}',
            '{"counts": {"1": 2}}',
            '{"vocab_size": null, "counts": {"1": 2}}',
            '{"vocab_size": 5, "counts": [1, 2]}',
            '{"vocab_size": 5, "counts": {"one": 2}}',
        ],
    )
    def test_a_named_table_that_can_not_be_used(
        self, content: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """PBCORE_FREQUENCIES at a missing or damaged file is an error that names it; the table
        beside the checkpoint doesn't stand in for it.
        """
        folder = llama_checkpoint(tmp_path / "model")
        tokenizer, size = tokenizer_of(str(folder))
        save_table(folder / FILE, count_tokens(tokenizer, ["abcd"]), size)
        named = tmp_path / "mine.json"
        if content is not None:
            named.write_text(content)
        monkeypatch.setenv(VARIABLE, str(named))
        with pytest.raises(ModelError, match=r"mine\.json is not a frequency table .*make one"):
            load_model(str(folder))

    def test_a_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A folder in place of the file is refused in the same words."""
        folder = llama_checkpoint(tmp_path / "model")
        monkeypatch.setenv(VARIABLE, str(tmp_path))
        with pytest.raises(ModelError, match="is not a frequency table"):
            load_model(str(folder))


class TestModel:
    def test_beside_the_checkpoint_or_named(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A model brings the table that lies beside it; PBCORE_FREQUENCIES comes first; the record
        tells them apart.
        """
        folder = llama_checkpoint(tmp_path / "model")
        monkeypatch.delenv(VARIABLE, raising=False)
        bare = load_model(str(folder))
        tokenizer, size = tokenizer_of(str(folder))
        save_table(folder / FILE, count_tokens(tokenizer, ["abcd abcd ABCD", "abcd"]), size)
        beside = load_model(str(folder))
        save_table(tmp_path / "mine.json", {7: 1, 8: 1}, size)
        monkeypatch.setenv(VARIABLE, str(tmp_path / "mine.json"))
        named = load_model(str(folder))
        assert bare.frequencies is None
        assert beside.frequencies[tokenizer.piece("abcd")[0]] > 0.3
        assert named.frequencies[7] == named.frequencies[8] == 0.5
        assert len({model.info["frequencies"] for model in (bare, beside, named)}) == 3

    def test_models_without_a_tokenizer(self) -> None:
        """`ideal` has nothing to count with."""
        with pytest.raises(ModelError, match="ideal has no tokenizer of its own"):
            tokenizer_of("ideal")
