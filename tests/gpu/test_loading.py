"""Adapters and quantization on the pseudo-GPU: the CPU's answers, or what transformers is given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import LlamaForCausalLM

from pbcore.models import load_model
from pbcore.models.adapter import WEIGHTS
from pbcore.models.errors import ModelError
from tests.extras.train.lora.shapes import toy
from tests.gpu.test_decoding import PROMPTS, QUICK, Loader, answers, check, refused
from tests.models.causal import causal_checkpoint
from tests.models.checkpoints import edit_config, llama_checkpoint
from tests.models.shapes import SHAPES, checkpoint
from tests.models.test_adapter import write
from tests.pseudo_gpu import DEVICE, pseudo_device

CONFIGS = {  # quantization → transformers' class of its configuration
    "bitsandbytes-4bit": "BitsAndBytesConfig",
    "torchao-int8": "TorchAoConfig",
    "quanto-int8": "QuantoConfig",
}


def parameters(model: Any) -> dict[str, torch.Tensor]:
    """A model's weights, on the CPU."""
    return {name: value.cpu() for name, value in model.network.module.named_parameters()}


class TestMerged:
    @pytest.mark.parametrize("shape", SHAPES)
    def test_answers(self, shape: str, tmp_path: Path) -> None:
        """Those of the CPU, by the model's name as by the option, and others than without it."""
        folder = str(checkpoint(tmp_path / "model", shape))
        adapter = str(write(tmp_path / "adapter", lora_alpha=40))

        def loader(name: str, **options: Any) -> Loader:
            return lambda device: load_model(name, device=device, dtype="float32", **options)

        named = check(loader(f"{folder}+{adapter}"), PROMPTS, QUICK, max_new_tokens=6)
        assert refused(named) == []
        by_option, without = (
            answers(load, PROMPTS, QUICK, "cpu", max_new_tokens=6)
            for load in (loader(folder, adapter=adapter), loader(folder))
        )
        assert by_option == named
        assert without != named

    @pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
    def test_weights(self, dtype: str, tmp_path: Path) -> None:
        """Those of the CPU to the last bit, on the device."""
        name = f"{checkpoint(tmp_path / 'model', 'llada')}+{write(tmp_path / 'adapter')}"
        expected = parameters(load_model(name, dtype=dtype))
        with pseudo_device():
            model: Any = load_model(name, device="cuda", dtype=dtype)
            assert {value.device for value in model.network.module.parameters()} == {DEVICE}
            given = parameters(model)
        assert given.keys() == expected.keys()
        assert [key for key in given if not torch.equal(given[key], expected[key])] == []


class TestBeside:
    @pytest.mark.parametrize("shape", SHAPES)
    def test_answers(self, shape: str, tmp_path: Path) -> None:
        """peft's adapter beside the weights answers as on the CPU and is saved with its numbers;
        merged on the device it answers the same.
        """
        pytest.importorskip("peft")
        from pbcore.extras.train.lora.run import adapted

        folder = checkpoint(tmp_path / "model", shape)

        def beside(device: str) -> Any:
            model, loss = adapted(toy(folder, dtype="float32"), device)
            wrapper: Any = loss.adapted
            torch.manual_seed(5)
            for value in loss.parameters():
                if value.requires_grad:
                    assert value.device.type == device
                    value.data.normal_(std=0.3)
            loss.eval()
            wrapper.save_pretrained(tmp_path / device)
            return model

        def plain(device: str) -> Any:
            return load_model(str(folder), device=device, dtype="float32")

        def merged(device: str) -> Any:
            name = f"{folder}+{tmp_path / 'cuda'}"
            return load_model(name, device=device, dtype="float32")

        samplers = ["confidence-k4+b4+dual", "margin-k2"]
        expected = check(beside, PROMPTS, samplers, max_new_tokens=8)
        assert refused(expected) == []
        saved = [load_file(tmp_path / device / WEIGHTS) for device in ("cpu", "cuda")]
        assert saved[0].keys() == saved[1].keys()
        assert all(torch.equal(saved[0][key], saved[1][key]) for key in saved[0])
        assert check(merged, PROMPTS, samplers, max_new_tokens=8) == expected
        assert answers(plain, PROMPTS, samplers, "cpu", max_new_tokens=8) != expected


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What transformers' `from_pretrained` was given. Its models stay where it put them, as
    quantized ones must: a device map `auto` puts them on the CPU.
    """
    given: list[dict[str, Any]] = []

    def stay(module: Any, *args: Any, **settings: Any) -> Any:
        raise ValueError("`.to` is not supported for quantized models")

    def from_pretrained(cls: Any, /, folder: Path, **settings: Any) -> Any:
        given.append(settings)
        config = settings.get("config") or cls.config_class.from_pretrained(folder)
        place = settings["device_map"]
        module = cls(config).to("cpu" if place == "auto" else place, settings["dtype"])
        monkeypatch.setattr(cls, "to", stay)
        return module, {"missing_keys": set(), "unexpected_keys": set()}

    monkeypatch.setattr(LlamaForCausalLM, "from_pretrained", classmethod(from_pretrained))
    monkeypatch.setattr("pbcore.models.entry.find_spec", lambda name: name)
    for name in CONFIGS.values():
        monkeypatch.setattr(
            f"transformers.{name}", lambda *args, _name=name, **more: (_name, args, more)
        )
    return given


class TestQuantized:
    @pytest.mark.parametrize("quantization", CONFIGS)
    def test_without_the_library(
        self, quantization: str, pseudo_gpu: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The refusal names it, on a GPU as on the CPU."""
        from importlib.util import find_spec

        library = quantization.split("-")[0]
        if find_spec({"quanto": "optimum"}.get(library, library)):
            pytest.skip("the library is installed")
        monkeypatch.setattr("pbcore.models.entry.find_spec", lambda name: name)
        folder = str(llama_checkpoint(tmp_path))
        with pytest.raises(ModelError, match=f"(?i){library}"):
            load_model(folder, device="cuda", quantization=quantization)

    @pytest.mark.parametrize("dtype", [None, "float16"])
    @pytest.mark.parametrize("device", ["cuda", "cuda:0"])
    @pytest.mark.parametrize("quantization", CONFIGS)
    def test_what_transformers_is_given(
        self,
        quantization: str,
        device: str,
        dtype: str | None,
        pseudo_gpu: Any,
        calls: list[dict[str, Any]],
        tmp_path: Path,
    ) -> None:
        """The device as the device map, the dtype (bfloat16 unless told otherwise) and the
        library's configuration; the weights stay there and answer.
        """
        folder = str(llama_checkpoint(tmp_path))
        model: Any = load_model(folder, device=device, dtype=dtype, quantization=quantization)
        [settings] = calls
        kind = torch.float16 if dtype else torch.bfloat16
        assert settings["device_map"] == device
        assert settings["dtype"] == kind
        name, args, more = settings["quantization_config"]
        assert name == CONFIGS[quantization]
        assert ("int8_weight_only" in args) == (quantization == "torchao-int8")
        if "bnb_4bit_compute_dtype" in more:
            assert more["bnb_4bit_compute_dtype"] == kind
        assert model.device == DEVICE
        assert model.info["quantization"] == quantization

    @pytest.mark.parametrize("quantization", [None, "torchao-int8"])
    @pytest.mark.parametrize(("device_map", "place"), [("auto", "cpu"), ("cuda:0", "cuda:0")])
    def test_device_map(
        self,
        device_map: str,
        place: str,
        quantization: str | None,
        pseudo_gpu: Any,
        calls: list[dict[str, Any]],
        tmp_path: Path,
    ) -> None:
        """It goes before the device, and the model computes where transformers put its weights."""
        folder = str(llama_checkpoint(tmp_path))
        options = {"device_map": device_map, "quantization": quantization}
        model: Any = load_model(folder, device="cuda", **options)
        assert calls[0]["device_map"] == device_map
        assert calls[0]["dtype"] == torch.bfloat16
        assert (calls[0].get("quantization_config") is None) == (quantization is None)
        assert model.device == torch.device(place)

    def test_a_quantized_checkpoint(
        self, pseudo_gpu: Any, calls: list[dict[str, Any]], tmp_path: Path
    ) -> None:
        """Its config.json says how, so transformers gets that and no configuration of ours."""
        folder = llama_checkpoint(tmp_path)
        stored = {"quant_method": "gptq", "bits": 4}
        edit_config(folder, quantization_config=stored)
        model: Any = load_model(str(folder), device="cuda")
        assert calls[0]["device_map"] == "cuda"
        assert calls[0].get("quantization_config") is None
        assert calls[0]["config"].quantization_config == stored
        assert model.device == DEVICE

    def test_an_autoregressive_model(
        self, pseudo_gpu: Any, calls: list[dict[str, Any]], tmp_path: Path
    ) -> None:
        """The same goes for those."""
        folder = str(causal_checkpoint(tmp_path))
        model: Any = load_model(folder, device="cuda", quantization="torchao-int8")
        assert calls[0]["device_map"] == "cuda"
        assert calls[0]["dtype"] == torch.bfloat16
        assert model.info["quantization"] == "torchao-int8"

    def test_an_adapter(self, pseudo_gpu: Any, calls: list[dict[str, Any]], tmp_path: Path) -> None:
        """It isn't merged into quantized weights; nothing is loaded."""
        folder = llama_checkpoint(tmp_path / "model")
        adapter = str(write(tmp_path / "adapter"))
        with pytest.raises(ModelError, match="can't be merged into quantized weights"):
            load_model(str(folder), device="cuda", adapter=adapter, quantization="quanto-int8")
        assert calls == []
