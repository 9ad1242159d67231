"""Checkpoints whose config.json says that they are quantized."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, LlamaForCausalLM

from pbcore.models import load_model
from pbcore.models.checkpoints import quantized_as
from pbcore.models.errors import ModelError
from tests.models.causal import causal_checkpoint
from tests.models.checkpoints import edit_config, llama_checkpoint

EMBEDDED = Path(__file__).parents[2] / "pbcore" / "models"
FP8 = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}


def fp8_checkpoint(folder: Path, name: str) -> Path:
    """An embedded model with its projections in 8-bit floats and a scale for each 128 × 128 of
    them, as DeepSeek's and Qwen's fp8 checkpoints are.
    """
    shutil.copytree(EMBEDDED / name, folder)
    stored = {}
    for key, tensor in load_file(folder / "model.safetensors").items():
        stored[key] = tensor
        if key.endswith("proj.weight"):
            rows, columns = (size // 128 for size in tensor.shape)
            blocks = tensor.float().reshape(rows, 128, columns, 128)
            scale = blocks.abs().amax((1, 3)) / 448  # (rows, columns)
            small = (blocks / scale[:, None, :, None]).reshape(tensor.shape)
            stored[key] = small.to(torch.float8_e4m3fn)
            stored[f"{key}_scale_inv"] = scale
    save_file(stored, folder / "model.safetensors", metadata={"format": "pt"})
    edit_config(folder, quantization_config=FP8)
    return folder


class TestLoaded:
    @pytest.mark.parametrize(
        ("name", "theirs"), [("tiny-ar", AutoModelForCausalLM), ("tiny", LlamaForCausalLM)]
    )
    def test_as_transformers_loads_it(self, name: str, theirs: Any, tmp_path: Path) -> None:
        """Without a GPU that computes in 8 bits it unpacks them, with their scales."""
        folder = fp8_checkpoint(tmp_path / name, name)
        ours: Any = load_model(str(folder), dtype="float32")
        module = ours.module if name == "tiny-ar" else ours.network.module
        reference = theirs.from_pretrained(folder, dtype=torch.float32)
        key = "model.layers.1.mlp.down_proj.weight"
        assert torch.equal(module.state_dict()[key], reference.state_dict()[key])
        plain: Any = load_model(name)
        full = plain.module if name == "tiny-ar" else plain.network.module
        assert torch.allclose(
            module.state_dict()[key], full.state_dict()[key], rtol=0.07, atol=0.01
        )

    @pytest.mark.parametrize("config", [None, {}])
    @pytest.mark.parametrize("make", [causal_checkpoint, llama_checkpoint])
    def test_an_empty_one_says_nothing(self, make: Any, config: Any, tmp_path: Path) -> None:
        folder = make(tmp_path)
        path = folder / "config.json"
        text = path.read_text().rstrip().removesuffix("}")
        path.write_text(f'{text}, "quantization_config": {"null" if config is None else "{}"}}}')
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            load_model(str(folder))

    @pytest.mark.parametrize("make", [causal_checkpoint, llama_checkpoint])
    def test_plain_weights_are_named(self, make: Any, tmp_path: Path) -> None:
        edit_config(make(tmp_path), quantization_config=FP8)
        with pytest.warns(UserWarning, match=r"quantized \(fp8\), but the files hold plain"):
            load_model(str(tmp_path))


class TestRefused:
    @pytest.mark.parametrize(
        ("config", "said"),
        [
            ("fp8", r"quantization_config is 'fp8'; it should be a mapping"),
            ({"quant_method": "zzz"}, r"quant_method 'zzz', which transformers can't load"),
            ({"bits": 4}, r"quant_method None"),
            ({"quant_method": "gptq", "bits": 4}, r"pip install optimum|gptqmodel"),
            ({"quant_method": "compressed-tensors"}, r"pip install compressed-tensors"),
        ],
    )
    @pytest.mark.parametrize("make", [causal_checkpoint, llama_checkpoint])
    def test_in_one_line(self, make: Any, config: Any, said: str, tmp_path: Path) -> None:
        edit_config(make(tmp_path), quantization_config=config)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(ModelError, match=said) as error:
                load_model(str(tmp_path))
        assert "\n" not in str(error.value)
        assert "doesn't match its config.json" not in str(error.value)

    @pytest.mark.parametrize("make", [causal_checkpoint, llama_checkpoint])
    def test_packed_weights_without_one(self, make: Any, tmp_path: Path) -> None:
        folder = make(tmp_path)
        tensors = load_file(folder / "model.safetensors")
        key = "model.layers.0.mlp.up_proj.weight"
        tensors[key] = tensors[key].to(torch.float8_e4m3fn)
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        with pytest.raises(ModelError, match=rf"8-bit floats as weights.*{key} \(F8_E4M3\)"):
            load_model(str(folder))


class TestItsKeys:
    def test_unknown_ones_are_named(self) -> None:
        with pytest.warns(UserWarning, match="transformers' fp8 doesn't read.*rotation 'hadamard'"):
            assert quantized_as({"quantization_config": {**FP8, "rotation": "hadamard"}}, "x")

    def test_both_kinds_of_bitsandbytes(self) -> None:
        config = {"quant_method": "bitsandbytes", "load_in_8bit": True, "_load_in_8bit": True}
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            method = quantized_as({"quantization_config": config}, "x")
        assert method == "bitsandbytes_8bit"
