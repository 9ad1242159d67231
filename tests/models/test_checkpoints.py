"""Weights: sharded, tied, wrong, incomplete; random ones of a published shape."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, LlamaForCausalLM

from pbcore.models import load_model, resolve_model
from pbcore.models.architecture import architecture
from pbcore.models.checkpoints import empty_model, random_weights
from pbcore.models.errors import ModelError
from pbcore.models.network import count_parameters
from tests.models.causal import causal_checkpoint
from tests.models.checkpoints import edit_config, llama_checkpoint, split_shards, with_own_code
from tests.models.test_adapter import write as write_adapter


def parameters(model: Any) -> dict[str, torch.Tensor]:
    return dict(model.network.module.named_parameters(remove_duplicate=False))


class TestLoading:
    """load_weights through load_model."""

    def test_shards_equal_one_file(self, tmp_path: Path) -> None:
        """A sharded checkpoint loads to the same weights as the single file."""
        whole = llama_checkpoint(tmp_path / "whole")
        parts = llama_checkpoint(tmp_path / "parts")
        tensors = load_file(parts / "model.safetensors")
        (parts / "model.safetensors").unlink()
        split_shards(parts, tensors, 3)
        one = parameters(load_model(str(whole)))
        many = parameters(load_model(str(parts)))
        assert one.keys() == many.keys()
        assert all(torch.equal(one[name], many[name]) for name in one)

    def test_tied_output_projection(self, tmp_path: Path) -> None:
        """Tied weights need no lm_head in the file and share one tensor."""
        model = load_model(str(llama_checkpoint(tmp_path)))
        assert parameters(model)["lm_head.weight"] is parameters(model)["model.embed_tokens.weight"]

    @pytest.mark.parametrize("same", [False, True])
    def test_a_head_beside_a_config_that_ties(self, same: bool, tmp_path: Path) -> None:
        """As transformers: one that differs is kept, with a warning; an equal one is shared."""
        folder = llama_checkpoint(tmp_path, tied=False)
        edit_config(folder, tie_word_embeddings=True)
        tensors = load_file(folder / "model.safetensors")
        if same:
            tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].clone()
            save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        theirs = AutoModelForCausalLM.from_pretrained(folder)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            ours = parameters(load_model(str(folder)))
        said = [str(one.message) for one in caught if "tie_word_embeddings" in str(one.message)]
        assert len(said) == (0 if same else 1)
        assert torch.equal(ours["lm_head.weight"], tensors["lm_head.weight"])
        for name, tensor in theirs.named_parameters(remove_duplicate=False):
            assert torch.equal(ours[name], tensor), name
        assert (ours["lm_head.weight"] is ours["model.embed_tokens.weight"]) == same

    def test_tied_with_the_head_alone(self, tmp_path: Path) -> None:
        """It serves as embeddings, as in transformers; without either these are missing."""
        folder = llama_checkpoint(tmp_path)
        file = folder / "model.safetensors"
        tensors = load_file(file)
        tensors["lm_head.weight"] = tensors.pop("model.embed_tokens.weight")
        save_file(tensors, file, metadata={"format": "pt"})
        theirs = AutoModelForCausalLM.from_pretrained(folder)
        ours = parameters(load_model(str(folder)))
        assert ours["lm_head.weight"] is ours["model.embed_tokens.weight"]
        for name, tensor in theirs.named_parameters(remove_duplicate=False):
            assert torch.equal(ours[name], tensor), name
        del tensors["lm_head.weight"]
        save_file(tensors, file)
        with pytest.raises(ModelError, match=r"missing keys \(1\): model.embed_tokens.weight"):
            load_model(str(folder))

    @pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
    def test_dtype(self, dtype: str, tmp_path: Path) -> None:
        """Every weight has the dtype asked for, and the record says so."""
        model: Any = load_model(str(llama_checkpoint(tmp_path)), dtype=dtype)
        assert {tensor.dtype for tensor in parameters(model).values()} == {getattr(torch, dtype)}
        assert model.info["dtype"] == dtype

    def test_wrong_dtype_and_device(self, tmp_path: Path) -> None:
        """Unknown dtypes and devices are refused with those that exist."""
        folder = str(llama_checkpoint(tmp_path))
        with pytest.raises(ModelError, match="float32, bfloat16"):
            load_model(folder, dtype="int3")
        with pytest.raises(ModelError, match="try cpu, cuda"):
            load_model(folder, device="toaster")

    def test_attention_implementation(self, tmp_path: Path) -> None:
        """The implementation asked for is used and recorded; one that can't run is refused."""
        folder = str(llama_checkpoint(tmp_path))
        eager: Any = load_model(folder, attn_implementation="eager")
        assert eager.info["attention"] == "eager"
        with pytest.raises(ModelError, match="no_such_attention"):
            load_model(folder, attn_implementation="no_such_attention")

    @pytest.mark.parametrize(
        ("quantization", "library"),
        [
            ("bitsandbytes-4bit", "accelerate|bitsandbytes"),
            ("torchao-int8", "accelerate|torchao"),
            ("quanto-int8", "accelerate|quanto"),
        ],
    )
    def test_quantization_names_what_is_missing(
        self, quantization: str, library: str, tmp_path: Path
    ) -> None:
        """Where the library behind a quantization isn't installed, the error names it."""
        pytest.importorskip("transformers")
        missing = [
            name for name in ("accelerate", quantization.split("-")[0]) if not _installed(name)
        ]
        if not missing:
            pytest.skip("the libraries are installed")
        with pytest.raises(ModelError, match=library):
            load_model(str(llama_checkpoint(tmp_path)), quantization=quantization)


class TestWrongCheckpoints:
    """Errors name what doesn't fit."""

    def test_missing_unexpected_and_misshapen_keys(self, tmp_path: Path) -> None:
        """One error names all three kinds."""
        folder = llama_checkpoint(tmp_path)
        tensors = load_file(folder / "model.safetensors")
        del tensors["model.layers.1.mlp.up_proj.weight"]
        tensors["model.layers.7.extra.weight"] = torch.zeros(2)
        tensors["model.norm.weight"] = torch.ones(5)
        save_file(tensors, folder / "model.safetensors")
        with pytest.raises(ModelError) as caught:
            load_model(str(folder))
        message = str(caught.value)
        assert "missing keys (1): model.layers.1.mlp.up_proj.weight" in message
        assert "unexpected keys (1): model.layers.7.extra.weight" in message
        assert "model.norm.weight is (5,), config.json says (32,)" in message

    @pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
    @pytest.mark.parametrize("kind", ["masked", "causal"])
    def test_weights_that_are_no_numbers(self, value: float, kind: str, tmp_path: Path) -> None:
        """One is enough, and it is named; some kernels would answer nevertheless."""
        folder = llama_checkpoint(tmp_path) if kind == "masked" else causal_checkpoint(tmp_path)
        tensors = load_file(folder / "model.safetensors")
        name = "model.layers.1.self_attn.q_proj.weight"
        tensors[name][0, 0] = value
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        with pytest.raises(ModelError, match=f"{name}'? holds NaN or infinity.*download"):
            load_model(str(folder))

    def test_numbers_that_a_dtype_can_not_hold(self, tmp_path: Path) -> None:
        """They are no damage: another dtype loads them, also where their sum overflows."""
        folder = llama_checkpoint(tmp_path)
        tensors = load_file(folder / "model.safetensors")
        tensors["model.norm.weight"][:] = 3e38
        save_file(tensors, folder / "model.safetensors")
        with pytest.raises(ModelError, match="weight' has values that float16 can't"):
            load_model(str(folder), dtype="float16")
        assert load_model(str(folder)).name == folder.name

    def test_a_text_for_a_number(self, tmp_path: Path) -> None:
        """An autoregressive model's config.json is read as strictly."""
        edit_config(causal_checkpoint(tmp_path), rms_norm_eps="1e-6")
        with pytest.raises(ModelError, match="rms_norm_eps is '1e-6'; it should be a number"):
            load_model(str(tmp_path))

    @pytest.mark.parametrize("kind", ["masked", "causal"])
    def test_whole_numbers_without_scales(self, kind: str, tmp_path: Path) -> None:
        """Quantized weights whose quantization_config is missing."""
        folder = llama_checkpoint(tmp_path) if kind == "masked" else causal_checkpoint(tmp_path)
        tensors = load_file(folder / "model.safetensors")
        name = "model.layers.1.self_attn.q_proj.weight"
        tensors[name] = (tensors[name] * 100).to(torch.int8)
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        with pytest.raises(
            ModelError, match=rf"whole numbers or 8-bit floats.* \(1\): {name} \(I8\)"
        ):
            load_model(str(folder))

    @pytest.mark.parametrize("old_shards", [True, False])
    def test_a_single_file_outweighs_an_index(self, old_shards: bool, tmp_path: Path) -> None:
        """As in transformers: what an older save left beside it is not read, nor missed."""
        folder = llama_checkpoint(tmp_path)
        single = folder / "model.safetensors"
        tensors = load_file(single)
        split_shards(folder, {name: -tensor for name, tensor in tensors.items()}, 2)
        if not old_shards:
            for shard in folder.glob("model-*.safetensors"):
                shard.unlink()
        loaded: Any = load_model(str(folder))
        weights = loaded.network.module.state_dict()
        theirs = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).state_dict()
        assert all(torch.equal(weights[name], theirs[name]) for name in theirs)

    def test_an_unknown_key_of_the_index_is_named(self, tmp_path: Path) -> None:
        folder = llama_checkpoint(tmp_path)
        single = folder / "model.safetensors"
        split_shards(folder, load_file(single), 2)
        single.unlink()
        index = folder / "model.safetensors.index.json"
        index.write_text(json.dumps({**json.loads(index.read_text()), "lora_map": {"a": 1}}))
        with pytest.warns(UserWarning, match=r"index\.json: nothing here knows.*lora_map"):
            load_model(str(folder))

    def test_missing_shards(self, tmp_path: Path) -> None:
        """A shard that the index names and the folder lacks is named."""
        folder = llama_checkpoint(tmp_path)
        split_shards(folder, load_file(folder / "model.safetensors"), 3)
        (folder / "model.safetensors").unlink()
        (folder / "model-00002-of-00003.safetensors").unlink()
        with pytest.raises(ModelError, match=r"1 of 3 shards are missing \(model-00002-of-00003"):
            load_model(str(folder))

    @pytest.mark.parametrize(
        ("index", "said"),
        [
            ("[1]", "can't be read"),
            ("{", "can't be read"),
            ("{}", r"can't be read \(KeyError\('weight_map'\)\)"),
            ('{"weight_map": [1]}', "can't be read"),
            (
                '{"weight_map": {"a": "../other/model.safetensors"}}',
                "names '../other/model.safetensors', which is not a",
            ),
            (
                '{"weight_map": {"a": "/etc/passwd"}}',
                "names '/etc/passwd', which is not a file of this folder",
            ),
            ('{"weight_map": {"a": ""}}', "names '', which is not a file of this folder"),
        ],
    )
    def test_odd_indices(self, index: str, said: str, tmp_path: Path) -> None:
        """One line with the file; no index leads out of its folder."""
        folder = llama_checkpoint(tmp_path)
        (folder / "model.safetensors").unlink()
        (folder / "model.safetensors.index.json").write_text(index)
        with pytest.raises(ModelError, match=rf"index\.json {said}"):
            load_model(str(folder))

    @pytest.mark.parametrize("text", ["[1]", "1", '"x"', "null"])
    def test_a_config_that_is_no_mapping(self, text: str, tmp_path: Path) -> None:
        folder = llama_checkpoint(tmp_path)
        (folder / "config.json").write_text(text)
        with pytest.raises(ModelError, match=r"config\.json holds .*; it should be a mapping"):
            load_model(str(folder))

    def test_cut_off_file(self, tmp_path: Path) -> None:
        """A file that ends early is named with what to do."""
        folder = llama_checkpoint(tmp_path)
        data = (folder / "model.safetensors").read_bytes()
        (folder / "model.safetensors").write_bytes(data[: len(data) // 2])
        with pytest.raises(ModelError, match="download it again"):
            load_model(str(folder))

    def test_no_weights_and_no_config(self, tmp_path: Path) -> None:
        """A folder without safetensors, or without config.json, says which is missing."""
        folder = llama_checkpoint(tmp_path / "a")
        (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
        with pytest.raises(ModelError, match=r"pytorch_model\.bin; convert"):
            load_model(str(folder))
        (tmp_path / "b").mkdir()
        with pytest.raises(ModelError, match=r"config\.json"):
            load_model(str(tmp_path / "b"))

    def test_no_mask_token(self, tmp_path: Path) -> None:
        """A checkpoint that names no mask token is refused, unless the user does."""
        folder = llama_checkpoint(tmp_path)
        edit_config(folder, mask_token_id=None)
        with pytest.raises(ModelError, match=r"mask_token_id.*mask_id="):
            load_model(str(folder))
        model: Any = load_model(str(folder), mask_id=1)
        assert model.mask_id == 1

    @pytest.mark.parametrize(
        ("change", "named"),
        [({"model_type": "mamba"}, "mamba"), ({"model_type": "llada", "alibi": True}, "alibi")],
    )
    def test_other_architectures(self, change: dict[str, Any], named: str, tmp_path: Path) -> None:
        """Unknown architectures and LLaDA options that Llama lacks are refused by name."""
        folder = llama_checkpoint(tmp_path)
        edit_config(folder, **change)
        with pytest.raises(ModelError, match=named):
            load_model(str(folder))

    def test_code_in_a_checkpoint_is_not_run(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A checkpoint's own code stays untouched without trust_remote_code and runs with it, which
        the record says.
        """
        monkeypatch.setattr(
            "transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules")
        )
        ran = tmp_path / "ran"
        folder = with_own_code(tmp_path, f"open({str(ran)!r}, 'w').close()")
        with pytest.raises(ModelError, match="trust_remote_code"):
            load_model(str(folder))
        assert not ran.exists()
        model: Any = load_model(str(folder), trust_remote_code=True)
        assert ran.exists()
        assert model.info["remote_code"] is True
        assert model.caches == frozenset()
        edit_config(folder, eos_token_id=[2, 3])  # of several, the first
        several: Any = load_model(str(folder), trust_remote_code=True)
        assert several.eos_id == 2

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (
                {"adapter": "lora"},
                r"adapter '.*lora' can't be applied .* merge it into the weights",
            ),
            ({"quantization": "quanto-int8"}, "quantization 'quanto-int8' can't be applied"),
            ({"device_map": "auto"}, "device_map 'auto' can't be applied"),
            ({"attn_implementation": "eager"}, "attn_implementation 'eager' can't be applied"),
            ({"block": 4}, "block 4 can't be applied"),
        ],
    )
    def test_what_own_code_would_ignore_is_refused(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        options: dict[str, Any],
        message: str,
    ) -> None:
        """Options that only our own loading applies are refused, not dropped and recorded."""
        monkeypatch.setattr(
            "transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules")
        )
        monkeypatch.setattr("pbcore.models.entry.find_spec", lambda name: name)
        folder = with_own_code(tmp_path / "own", "pass")
        if "adapter" in options:
            options = {"adapter": str(write_adapter(tmp_path / "lora"))}
        with pytest.raises(ModelError, match=message):
            load_model(str(folder), trust_remote_code=True, **options)

    def test_an_adapter_and_quantized_weights(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Refused in our own loading, too, by the option and by what config.json says."""
        monkeypatch.setattr("pbcore.models.entry.find_spec", lambda name: name)
        folder = llama_checkpoint(tmp_path / "model")
        adapter = str(write_adapter(tmp_path / "lora"))
        with pytest.raises(ModelError, match="can't be merged into quantized weights"):
            load_model(str(folder), adapter=adapter, quantization="quanto-int8")
        edit_config(folder, quantization_config={"quant_method": "gptq", "bits": 4})
        with pytest.raises(ModelError, match="can't be merged into quantized weights"):
            load_model(str(folder), adapter=adapter)


class TestShapes:
    """Published shapes with random weights."""

    @pytest.mark.parametrize(
        ("name", "parameters"), [("llada-8b", 8_015_581_184), ("dream-7b", 7_615_616_512)]
    )
    def test_published_sizes(self, name: str, parameters: int) -> None:
        """The shape has exactly the published number of parameters (counted without storage)."""
        entry = resolve_model(f"{name}:dummy")
        assert entry.shape is not None
        assert count_parameters(empty_model(architecture(entry.shape, name))) == parameters

    def test_random_weights_repeat(self) -> None:
        """The same seed gives the same weights; norms are 1, matrices have the deviation 0.02,
        nothing stays without storage.
        """
        shape = {
            **(resolve_model("dream-7b:dummy").shape or {}),
            "hidden_size": 64,
            "intermediate_size": 96,
            "vocab_size": 500,
        }
        shape |= {"num_attention_heads": 4, "num_key_value_heads": 2}
        arch = architecture(shape, "small", layers=2)
        first, second = (random_weights(arch, torch.device("cpu"), torch.float32) for _ in range(2))
        for (name, a), b in zip(first.named_parameters(), second.parameters(), strict=True):
            assert torch.equal(a, b), name
        assert first.get_parameter("model.norm.weight").eq(1).all()
        assert first.get_parameter("lm_head.weight").std().item() == pytest.approx(0.02, rel=0.05)
        assert len(first.model.layers) == 2  # type: ignore[union-attr,arg-type]

    @pytest.mark.nightly
    def test_two_layers_of_llada_answer(self) -> None:
        """`llada-8b:dummy-l2` loads in bfloat16 and decodes; it is marked as a dummy."""
        from pbcore.decoding import decode

        model: Any = load_model("llada-8b:dummy-l2", dtype="bfloat16")
        assert model.info["dummy"] is True
        assert model.info["layers"] == 2
        assert (
            decode(model, ["Copy this list: a, b"], "confidence-k4", max_new_tokens=8)[0].nfe == 2
        )


def _installed(name: str) -> bool:
    from importlib.util import find_spec

    return find_spec({"quanto": "optimum"}.get(name, name)) is not None


def test_config_round_trip(tmp_path: Path) -> None:
    """The helper's config.json says what a masked checkpoint must."""
    config = json.loads((llama_checkpoint(tmp_path) / "config.json").read_text())
    assert config["mask_token_id"] == 1
    assert config["is_causal"] is False
