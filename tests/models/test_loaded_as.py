"""Masked or autoregressive, by config.json."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pbcore.models import load_model, resolve_model
from pbcore.models.causal import CausalModel
from pbcore.models.errors import ModelError
from pbcore.models.families import loaded_as
from pbcore.models.masked import MaskedModel
from tests.models.causal import causal_checkpoint
from tests.models.checkpoints import edit_config, llama_checkpoint


class TestLoadedAs:
    @pytest.mark.parametrize(
        ("config", "kind"),
        [
            ({"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"]}, "causal"),
            ({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]}, "causal"),
            (
                {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "mask_token_id": 5},
                "masked",
            ),
            (
                {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "is_causal": False},
                "masked",
            ),
            ({"model_type": "llada", "architectures": ["LLaDAModelLM"]}, "masked"),
            ({"model_type": "Dream", "architectures": ["DreamModel"]}, "masked"),
            ({"model_type": "sdar", "architectures": ["SDARForCausalLM"]}, "masked"),
            ({"model_type": "bert", "architectures": ["BertForMaskedLM"]}, "masked"),
            ({"model_type": "llama", "architectures": None}, "masked"),
        ],
    )
    def test_a_mask_token_or_a_diffusion_type_outweighs_the_class(
        self, config: dict[str, Any], kind: str
    ) -> None:
        assert loaded_as(config) == kind


class TestFolders:
    def test_one_of_each(self, tmp_path: Path) -> None:
        """The same Llama with a mask token is a masked model, without it an autoregressive one."""
        assert isinstance(load_model(str(llama_checkpoint(tmp_path / "masked"))), MaskedModel)
        assert isinstance(load_model(str(causal_checkpoint(tmp_path / "causal"))), CausalModel)

    def test_a_mask_id_of_the_users_makes_it_masked(self, tmp_path: Path) -> None:
        assert isinstance(load_model(str(causal_checkpoint(tmp_path)), mask_id=1), MaskedModel)

    def test_neither_says_what_is_missing(self, tmp_path: Path) -> None:
        """Without mask token and architectures both ways out are named."""
        edit_config(causal_checkpoint(tmp_path), architectures=None)
        with pytest.raises(ModelError, match=r"mask_token_id.*ForCausalLM"):
            load_model(str(tmp_path))


class TestHub:
    def test_a_cached_config_tells(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Known before it is loaded if its config.json is on this machine, else only then."""
        assert resolve_model("someone/nothing-of-that-name").loaded_as == "unknown"
        config = causal_checkpoint(tmp_path) / "config.json"
        monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda *_, **__: str(config))
        assert resolve_model("someone/some-model").loaded_as == "causal"

    def test_an_unknown_one_is_loaded_as_what_it_is(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder = tmp_path / "snapshots" / "0123abc"
        causal_checkpoint(folder)
        monkeypatch.setattr("pbcore.models.hub.snapshot_download", lambda *_, **__: str(folder))
        model = load_model("someone/nothing-of-that-name")
        assert isinstance(model, CausalModel)
        assert model.info["revision"] == "0123abc"
