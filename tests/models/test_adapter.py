"""LoRA adapters: read, refused, merged, and part of a model's name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from pbcore.models import load_model, resolve_model
from pbcore.models.adapter import CONFIG, WEIGHTS, merge_adapter, read_adapter
from pbcore.models.architecture import architecture
from pbcore.models.base import Query
from pbcore.models.checkpoints import random_weights
from pbcore.models.entry import LoadOptions, ModelEntry
from pbcore.models.errors import ModelError
from pbcore.models.families import read_config
from pbcore.models.loading import load_masked
from tests.models.causal import causal_checkpoint
from tests.models.checkpoints import llama_checkpoint
from tests.models.shapes import SHAPES, checkpoint, llada_name

LAYERS = "base_model.model.model.layers.0.self_attn"


def write(folder: Path, tensors: dict[str, torch.Tensor] | None = None, **config: Any) -> Path:
    """An adapter of rank 2 for q of the first layer."""
    folder.mkdir(exist_ok=True)
    given = {"peft_type": "LORA", "r": 2, "lora_alpha": 6, "target_modules": ["q_proj"], **config}
    (folder / CONFIG).write_text(
        json.dumps({key: value for key, value in given.items() if value is not None})
    )
    torch.manual_seed(1)
    pair = {
        f"{LAYERS}.q_proj.lora_A.weight": torch.randn(2, 32),
        f"{LAYERS}.q_proj.lora_B.weight": torch.randn(32, 2),
    }
    save_file(pair if tensors is None else tensors, folder / WEIGHTS)
    return folder


def logits(model: Any) -> torch.Tensor:
    """Logits of masks behind a ragged pair of prompts."""
    requests = [model.encode(prompt, 4, 0) for prompt in ([7, 8, 9], [10, 11])]
    canvas = torch.tensor([request.canvas for request in requests])
    query = Query(canvas, torch.ones_like(canvas, dtype=torch.bool), torch.zeros(2))
    result: torch.Tensor = model.prepare(requests, cache=None, seed=0).logits(query)
    return result


class TestMerged:
    @pytest.mark.parametrize("rslora", [False, True])
    @pytest.mark.parametrize("shape", SHAPES)
    def test_equals_peft_beside_the_weights(self, shape: str, rslora: bool, tmp_path: Path) -> None:
        """Logits of the merged model are those of peft's own forward, and others than without the
        adapter.
        """
        peft = pytest.importorskip("peft")
        folder = checkpoint(tmp_path / "model", shape)
        adapter = tmp_path / "adapter"
        beside: Any = load_model(str(folder), dtype="float64")
        config = peft.LoraConfig(
            r=4, lora_alpha=6, target_modules=["q_proj", "v_proj", "down_proj"], use_rslora=rslora
        )
        network = beside.network.module
        linear = [
            (name, part)
            for name, part in network.named_modules()
            if isinstance(part, torch.nn.Linear)
        ]
        assert linear
        wrapped = peft.get_peft_model(network, config, autocast_adapter_dtype=False)
        torch.manual_seed(2)
        for value in wrapped.parameters():
            if value.requires_grad:
                value.data.normal_(std=0.3)
        wrapped.save_pretrained(adapter)
        wrapped.eval()
        merged, plain = (
            logits(load_model(name, dtype="float64"))
            for name in (f"{folder}+{adapter}", str(folder))
        )
        kept = (merged > -torch.inf) & (plain > -torch.inf)
        unmerged = logits(beside)
        assert (merged - unmerged)[kept & (unmerged > -torch.inf)].abs().max() < 1e-5
        assert (merged - plain)[kept].abs().max() > 1e-2

    @pytest.mark.parametrize(
        ("init", "rslora"),
        [
            *((init, False) for init in (True, False, "gaussian", "orthogonal", "eva")),
            *((init, rslora) for init in ("pissa", "olora", "OLoRA") for rslora in (False, True)),
        ],
    )
    def test_initialisations_that_change_the_base(
        self, init: str | bool, rslora: bool, tmp_path: Path
    ) -> None:
        """Merged weights are those of peft's own reload and merge. Where the base stays, the scale
        of rsLoRA is the one of every adapter.
        """
        peft = pytest.importorskip("peft")
        folder = llama_checkpoint(tmp_path / "model")
        torch.manual_seed(3)
        base = AutoModelForCausalLM.from_pretrained(folder)
        config = peft.LoraConfig(
            r=4,
            lora_alpha=6,
            target_modules=["q_proj", "down_proj"],
            init_lora_weights=init,
            use_rslora=rslora,
        )
        trained = peft.get_peft_model(base, config)
        for name, value in trained.named_parameters():
            if "lora_" in name:
                value.data += 0.05
        trained.save_pretrained(tmp_path / "adapter")
        plain = AutoModelForCausalLM.from_pretrained(folder)
        again = peft.PeftModel.from_pretrained(plain, tmp_path / "adapter")
        theirs = dict(again.merge_and_unload().named_parameters())
        ours: Any = load_model(f"{folder}+{tmp_path / 'adapter'}")
        for name, value in ours.network.module.named_parameters():
            torch.testing.assert_close(value, theirs[name], rtol=0, atol=1e-5)

    @pytest.mark.parametrize("init", [True, "pissa"])
    @pytest.mark.parametrize("rslora", [False, True])
    @pytest.mark.parametrize(
        "name",
        ["q_proj", "layers.1.self_attn.q_proj", r".*\.0\.mlp\.down_proj", "^model.layers.0.*"],
    )
    def test_ranks_and_scales_by_pattern(
        self, name: str, rslora: bool, init: bool | str, tmp_path: Path
    ) -> None:
        """Modules may have a rank and a scale of their own, as peft matches their names."""
        peft = pytest.importorskip("peft")
        folder = llama_checkpoint(tmp_path / "model", tokenizer=False)
        config = peft.LoraConfig(
            r=4,
            lora_alpha=6,
            target_modules=["q_proj", "down_proj"],
            init_lora_weights=init,
            use_rslora=rslora,
            rank_pattern={name: 2},
            alpha_pattern={name: 20, "down_proj": 3},
        )
        torch.manual_seed(4)
        trained = peft.get_peft_model(AutoModelForCausalLM.from_pretrained(folder), config)
        for key, value in trained.named_parameters():
            if "lora_" in key:
                value.data += torch.randn_like(value) / 20
        trained.save_pretrained(tmp_path / "adapter")
        plain = AutoModelForCausalLM.from_pretrained(folder)
        again = peft.PeftModel.from_pretrained(plain, tmp_path / "adapter")
        theirs = dict(again.merge_and_unload().named_parameters())
        ours: Any = load_model(f"{folder}+{tmp_path / 'adapter'}")
        assert len(ours.info["lora"]["rank_pattern"]) == 1
        for key, value in ours.network.module.named_parameters():
            torch.testing.assert_close(value, theirs[key], rtol=0, atol=1e-5)

    def test_names_of_the_checkpoint_itself(self, tmp_path: Path) -> None:
        """An adapter that was trained on the authors' own LLaDA code has their names and gives the
        same weights.
        """
        folder = checkpoint(tmp_path / "model", "llada")
        ours = write(tmp_path / "ours")
        prefix = "base_model.model."
        renamed = {
            prefix + llada_name(key.removeprefix(prefix)): value
            for key, value in load_file(ours / WEIGHTS).items()
        }
        assert "base_model.model.model.transformer.blocks.0.q_proj.lora_A.weight" in renamed
        theirs = write(tmp_path / "theirs", renamed)
        one, two = (logits(load_model(f"{folder}+{adapter}")) for adapter in (ours, theirs))
        assert torch.equal(one, two)

    def test_the_option_is_the_same_as_the_name(self, tmp_path: Path) -> None:
        """And both together are refused."""
        folder = checkpoint(tmp_path / "model", "llada")
        adapter = write(tmp_path / "adapter")
        named = load_model(f"{folder}+{adapter}")
        given = load_model(str(folder), adapter=str(adapter))
        assert torch.equal(logits(named), logits(given))
        assert named.info == given.info
        assert named.name == given.name == "model+adapter"
        with pytest.raises(ModelError, match=r"in its name and .*give one"):
            load_model(f"{folder}+{adapter}", adapter=str(adapter))

    def test_random_weights(self, tmp_path: Path) -> None:
        """They are never quantized, so an adapter is merged into them whatever the option says."""
        raw = read_config(checkpoint(tmp_path / "model", "llada"))
        entry = ModelEntry("x", loaded_as="masked", shape=raw, dummy=True, mask_id=3, eos_id=4)
        options = LoadOptions(adapter=str(write(tmp_path / "adapter")), quantization="quanto-int8")
        assert load_masked(entry, "cpu", None, options).name == "x+adapter"

    def test_the_adapter_of_another_model(self, tmp_path: Path) -> None:
        """It is named with the matrix that doesn't fit."""
        with pytest.raises(
            ModelError,
            match=r"belongs to another model: this llama has no .*q_proj.weight of shape",
        ):
            load_model(f"tiny+{write(tmp_path / 'adapter')}")

    def test_weights_that_are_elsewhere(self, tmp_path: Path) -> None:
        """Where accelerate keeps some on disk or in CPU memory, the model has none to add to."""
        arch = architecture(read_config(checkpoint(tmp_path / "model", "llada")), "model")
        module = random_weights(arch, torch.device("cpu"), torch.float32, None).to("meta")
        with pytest.raises(ModelError, match=r"offloaded.*merge_and_unload"):
            merge_adapter(read_adapter(write(tmp_path / "adapter")), module, arch)


class TestInfo:
    def test_what_a_record_says(self, tmp_path: Path) -> None:
        """Rank, scale and targets ; the source is still the model's."""
        folder = checkpoint(tmp_path / "model", "llada")
        adapter = write(tmp_path / "adapter")
        with_it, without = (load_model(name).info for name in (f"{folder}+{adapter}", str(folder)))
        lora = {"rank": 2, "alpha": 6.0, "targets": ["q_proj"]}
        assert with_it == {**without, "lora": lora}


class TestName:
    def test_a_model_and_a_folder(self, tmp_path: Path) -> None:
        """Whatever signs the folder's name has; of a model in a folder with a + it is that
        folder.
        """
        adapter = write(tmp_path / "a+b")
        entry = resolve_model(f"tiny+{adapter}")
        assert (entry.name, entry.adapter) == ("tiny", adapter)
        model = checkpoint(tmp_path / "m+n", "llada")
        assert resolve_model(str(model)).adapter is None
        assert resolve_model(f"{model}+{adapter}").folder == model

    def test_no_adapter_there(self, tmp_path: Path) -> None:
        """The folder is named, and what writes one; an unknown model is told first."""
        with pytest.raises(
            ModelError, match=r"no adapter in the folder '.*none'.* that peft wrote"
        ):
            resolve_model(f"tiny+{tmp_path}/none")
        with pytest.raises(ModelError, match="unknown model 'tinny'"):
            resolve_model(f"tinny+{tmp_path}/none")

    def test_models_that_have_none(self, tmp_path: Path) -> None:
        """Autoregressive ones and `ideal`."""
        adapter = write(tmp_path / "adapter")
        for name in (str(causal_checkpoint(tmp_path / "causal")), "ideal"):
            with pytest.raises(
                ModelError,
                match="adapters are merged into masked diffusion models, and this one is",
            ):
                load_model(f"{name}+{adapter}")


class TestRefused:
    @pytest.mark.parametrize(
        ("config", "named"),
        [
            ({"peft_type": "IA3"}, "peft_type 'IA3'"),
            ({"use_dora": True}, "use_dora True"),
            ({"bias": "all"}, "bias 'all'"),
            ({"modules_to_save": ["lm_head"]}, "modules_to_save"),
            ({"alora_invocation_tokens": [5, 6]}, r"alora_invocation_tokens \[5, 6\] \(aLoRA"),
            ({"layer_replication": [[0, 2], [0, 2]]}, "layer_replication"),
            ({"kasa_config": {"beta": 1e-4}}, "kasa_config"),
            ({"use_qalora": True, "qalora_group_size": 16}, "use_qalora True"),
            ({"use_bdlora": {"nblocks": 2}}, "use_bdlora"),
            ({"arrow_config": {"top_k": 2}}, "arrow_config"),
            ({"target_parameters": ["experts.gate_up_proj"]}, "target_parameters"),
            ({"trainable_token_indices": [1]}, "trainable_token_indices"),
            ({"lately_invented": {"a": 1}}, "lately_invented"),
        ],
    )
    def test_other_kinds(self, config: dict[str, Any], named: str, tmp_path: Path) -> None:
        """What can't be merged is named, with the way out."""
        with pytest.raises(
            ModelError,
            match=f"{named}.* can't be merged here; merge it with peft's merge_and_unload",
        ):
            read_adapter(write(tmp_path / "adapter", **config))

    def test_each_other_method_of_peft(self, tmp_path: Path) -> None:
        peft = pytest.importorskip("peft")
        for kind in peft.PeftType:
            if kind != peft.PeftType.LORA:
                with pytest.raises(ModelError, match=f"peft_type '{kind.value}'"):
                    read_adapter(write(tmp_path / "adapter", peft_type=kind.value))

    def test_what_peft_writes_by_default_says_nothing(self, tmp_path: Path) -> None:
        """Every key of a plain adapter, with its default."""
        peft = pytest.importorskip("peft")
        plain = peft.LoraConfig(r=2, lora_alpha=6, target_modules=["q_proj"]).to_dict()
        plain = {key: list(v) if isinstance(v, set) else v for key, v in plain.items()}
        assert read_adapter(write(tmp_path / "adapter", **plain)).pairs

    @pytest.mark.parametrize("config", [{"r": 3}, {"rank_pattern": {"q_proj": 4}}])
    def test_other_ranks_than_the_file_has(self, config: dict[str, Any], tmp_path: Path) -> None:
        """They would be merged with another scale than they were trained with."""
        with pytest.raises(ModelError, match=r"other ranks than .*self_attn\.q_proj 2 instead of"):
            read_adapter(write(tmp_path / "adapter", **config))

    @pytest.mark.parametrize("r", [2.5, "2", [2]])
    def test_a_rank_that_is_no_whole_number(self, r: Any, tmp_path: Path) -> None:
        with pytest.raises(ModelError, match=r"adapter_config.json can't be read \(TypeError"):
            read_adapter(write(tmp_path / "adapter", r=r))

    @pytest.mark.parametrize(
        "init", ["pissa_niter_4", "corda", "loftq", "lora_ga", "PiSSA", "lately invented", 1]
    )
    def test_a_base_that_can_not_be_computed_again(self, init: Any, tmp_path: Path) -> None:
        """Initialisations by data or random numbers, and those unknown here."""
        with pytest.raises(ModelError, match=rf"{CONFIG}: init_lora_weights '?{init}'? can't be"):
            read_adapter(write(tmp_path / "adapter", init_lora_weights=init))

    def test_a_config_without_a_rank(self, tmp_path: Path) -> None:
        with pytest.raises(
            ModelError, match=r"adapter_config.json can't be read \(KeyError\('r'\)\)"
        ):
            read_adapter(write(tmp_path / "adapter", r=None))

    @pytest.mark.parametrize(
        ("tensors", "message"),
        [
            ({}, "it holds no matrices"),
            ({f"{LAYERS}.q_proj.lora_A.weight": torch.ones(2, 32)}, "q_proj has one matrix of two"),
            (
                {f"{LAYERS}.q_proj.lora_magnitude_vector": torch.ones(2)},
                "is no matrix of a LoRA adapter",
            ),
            (
                {
                    f"{LAYERS}.q_proj.lora_{one}.weight": torch.full((2, 2), float("nan"))
                    for one in "AB"
                },
                "q_proj' holds NaN or infinity",
            ),
        ],
    )
    def test_odd_weights(
        self, tensors: dict[str, torch.Tensor], message: str, tmp_path: Path
    ) -> None:
        with pytest.raises(ModelError, match=message):
            read_adapter(write(tmp_path / "adapter", tensors))

    @pytest.mark.parametrize(
        "name", ["../../../etc/passwd", "/etc/passwd", "model.layers.0.\x1b[31m.q_proj"]
    )
    def test_names_that_lead_elsewhere(self, name: str, tmp_path: Path) -> None:
        """A weight's name is looked up in the model, and nowhere else."""
        tensors = {f"base_model.model.{name}.lora_{one}.weight": torch.ones(2, 2) for one in "AB"}
        adapter = write(tmp_path / "adapter", tensors)
        with pytest.raises(ModelError) as caught:
            load_model(f"tiny+{adapter}")
        assert "belongs to another model" in str(caught.value)
        assert "\x1b" not in str(caught.value)

    @pytest.mark.parametrize("rank", [0, -1])
    def test_a_rank_that_is_none(self, rank: int, tmp_path: Path) -> None:
        with pytest.raises(ModelError, match=f"r is {rank}, it should be at least 1"):
            read_adapter(write(tmp_path / "adapter", r=rank))

    def test_damaged_weights(self, tmp_path: Path) -> None:
        """A file cut short is to be written again."""
        adapter = write(tmp_path / "adapter")
        (adapter / WEIGHTS).write_bytes((adapter / WEIGHTS).read_bytes()[:40])
        with pytest.raises(ModelError, match=r"can't be read .*write the adapter again"):
            read_adapter(adapter)
