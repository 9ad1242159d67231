"""Sizes of models without their weights, held against checkpoints that are loaded and against
published numbers.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from huggingface_hub.errors import LocalEntryNotFoundError

from pbcore.models import load_model, resolve_model
from pbcore.models.entry import LoadOptions
from pbcore.models.errors import ModelError
from pbcore.models.registry import all_entries
from pbcore.models.shape import stored_parameters
from pbcore.models.sizes import held_shape, sized_model, weights_here
from tests.models.block_models import block_checkpoint
from tests.models.checkpoints import edit_config, llama_checkpoint

# Parameters in billions as model cards and papers give them.
PUBLISHED = {
    "llada-8b": 8.02,
    "dream-7b": 7.62,
    "llada-moe-7b": 7.36,
    "llada2.0-mini": 16.26,
    "llada2.0-flash": 102.89,
    "sdar-30b-a3b": 30.5,
    "fast-dllm-v2-1.5b": 1.54,
    "fast-dllm-v2-7b": 7.62,
    "llama-3.1-8b": 8.03,
    "llama-3.2-3b": 3.21,
    "qwen2.5-3b": 3.09,
    "qwen2.5-7b": 7.62,
    "qwen3-4b": 4.02,
    "sedd-medium": 0.424,
}


def network_of(model: Any) -> torch.nn.Module:
    """The module of a loaded model of any kind."""
    network = getattr(model, "network", None) or model.module
    module: torch.nn.Module = getattr(network, "module", network)
    return module


class TestSizedModel:
    """sized_model."""

    @pytest.mark.parametrize("name", PUBLISHED)
    def test_published_parameters(self, name: str) -> None:
        """By the shapes of the table."""
        sized = sized_model(resolve_model(name))
        assert sized.parameters / 1e9 == pytest.approx(PUBLISHED[name], rel=0.005)

    @pytest.mark.parametrize(
        "name", ["tiny", "tiny-block", "tiny-ar", "tiny-sedd", "sdar", "llama"]
    )
    def test_it_is_as_large_as_the_loaded_checkpoint(self, name: str, tmp_path: Path) -> None:
        """Parameters, bytes of the weights, and what a forward takes beside them."""
        where = name
        if name == "sdar":
            where = str(block_checkpoint(tmp_path, "sdar"))
        if name == "llama":
            llama_checkpoint(tmp_path)
            where = str(tmp_path)
        loaded: Any = load_model(where)
        sized = sized_model(resolve_model(where), "float32")
        weights = list(network_of(loaded).parameters())
        assert sized.parameters == sum(weight.numel() for weight in weights)
        assert sized.weights == sum(weight.nbytes for weight in weights)
        folder = resolve_model(where).folder
        assert folder is not None
        assert stored_parameters(folder) == pytest.approx(sized.parameters, rel=1e-4)  # and buffers
        assert all(weight.is_meta for weight in sized.network.parameters())
        assert sized.shape == held_shape(loaded)

    def test_a_hub_id_of_the_table_has_its_shape(self) -> None:
        """Without the hub, before anything was downloaded."""
        of_hub = sized_model(resolve_model("GSAI-ML/LLaDA-8B-Instruct"))
        of_table = sized_model(resolve_model("llada-8b"))
        assert of_hub.parameters == of_table.parameters
        assert of_hub.download == 2 * of_table.parameters

    def test_quantized_weights(self) -> None:
        """Linear layers alone: a quarter of their 16 bits, without the output projection."""
        whole = sized_model(resolve_model("llada-8b"))
        small = sized_model(
            resolve_model("llada-8b"), options=LoadOptions(quantization="bitsandbytes-4bit")
        )
        linear = sum(
            module.weight.numel()
            for name, module in whole.network.named_modules()
            if isinstance(module, torch.nn.Linear) and name != "lm_head"
        )
        assert whole.weights - small.weights == linear * 1.5
        assert small.download == whole.download

    def test_a_hub_model_costs_one_config(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Of a model that nobody here knows."""
        llama_checkpoint(tmp_path)
        asked = []

        def download(source: str, name: str, revision: str | None) -> str:
            asked.append((source, name))
            return str(tmp_path / name)

        monkeypatch.setattr("pbcore.models.hub.hf_hub_download", download)
        sized = sized_model(resolve_model("nobody/model"))
        assert asked == [("nobody/model", "config.json")]
        assert sized.parameters == sized_model(resolve_model(str(tmp_path))).parameters

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"vocab_size": 0}, "no vocab_size"),
            ({"vocab_size": None}, "no vocab_size"),
            ({"torch_dtype": "half-ish"}, "the dtype 'half-ish'"),
        ],
    )
    def test_a_config_that_says_no_sizes(
        self, tmp_path: Path, changes: dict[str, Any], message: str
    ) -> None:
        """Is refused in a line, never an error of the head that a run prints first."""
        block_checkpoint(tmp_path)
        edit_config(tmp_path, **changes)
        with pytest.raises(ModelError, match=message):
            sized_model(resolve_model(str(tmp_path)))

    def test_where_the_hub_is_out_of_reach(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """What to do, and the hub ids that are like this one."""

        def unreachable(*args: object, **kwargs: object) -> str:
            raise LocalEntryNotFoundError("no network")

        monkeypatch.setattr("pbcore.models.hub.hf_hub_download", unreachable)
        with pytest.raises(ModelError, match="did you mean GSAI-ML/LLaDA-8B-Instruct") as caught:
            sized_model(resolve_model("GSAI-ML/LLaDA-8B-Instrct"))
        assert "hf download GSAI-ML/LLaDA-8B-Instrct --revision main" in str(caught.value)


class TestWeightsHere:
    """weights_here."""

    def test_models_of_the_hub_are_elsewhere(self) -> None:
        """Until they were downloaded; embedded ones and ideal are here."""
        here = {entry.name for entry in all_entries() if weights_here(entry)}
        assert {"tiny", "ideal"} <= here
        assert "llada-8b" not in here

    def test_all_shards_of_an_index(self, tmp_path: Path) -> None:
        """One that is missing has still to be downloaded."""
        llama_checkpoint(tmp_path)
        entry = resolve_model(str(tmp_path))
        assert weights_here(entry)
        index = {"weight_map": {"a": "model.safetensors", "b": "model-2.safetensors"}}
        (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
        assert not weights_here(entry)

    def test_a_config_alone(self, tmp_path: Path) -> None:
        llama_checkpoint(tmp_path)
        (tmp_path / "model.safetensors").unlink()
        assert not weights_here(resolve_model(str(tmp_path)))


def test_a_config_that_no_model_has(tmp_path: Path) -> None:
    """Is refused as when it is loaded."""
    llama_checkpoint(tmp_path)
    edit_config(tmp_path, hidden_size="wide")
    with pytest.raises(ModelError, match="hidden_size is 'wide'"):
        sized_model(resolve_model(str(tmp_path)))
