"""Families told from their config.json, loaded from published names, and refused with everything
that is wrong.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast

from pbcore.models import load_model, resolve_model
from pbcore.models.architecture import architecture
from pbcore.models.checkpoints import empty_model
from pbcore.models.errors import ModelError
from pbcore.models.families import FAMILIES, block_of, recognised
from pbcore.models.network import count_parameters
from pbcore.models.registry import all_entries
from tests.models.block_models import SHAPES, block_checkpoint, block_model


class TestTelling:
    @pytest.mark.parametrize(
        ("raw", "family"),
        [
            ({"model_type": "sdar"}, "sdar"),
            ({"model_type": "llada", "architectures": ["LLaDAMoEModelLM"]}, "llada_moe"),
            (
                {
                    "model_type": "llada",
                    "auto_map": {"AutoModel": "modeling_lladamoe.LLaDAMoEModel"},
                },
                "llada_moe",
            ),
            ({"model_type": "llada", "architectures": ["LLaDAModelLM"], "d_model": 64}, "llada"),
            (
                {
                    "model_type": "llada",
                    "expert_intermediate_size": 8,
                    "num_experts": 4,
                    "num_experts_per_tok": 2,
                },
                "llada_moe",
            ),
            ({"model_type": "Dream"}, "dream"),
            (
                {"model_type": "llama", "architectures": ["StableDiffcoderForCausalLM"]},
                "stable_diffcoder",
            ),
            ({"model_type": "llama", "architectures": ["LlamaForCausalLM"]}, None),
            ({"model_type": "qwen2", "bd_size": 32}, "fast_dllm_v2"),
            ({"model_type": "qwen2"}, None),
            ({"model_type": "llada2_moe"}, "llada2"),
            ({"model_type": "sdar", "architectures": ["SDARMoeForCausalLM"]}, "sdar_moe"),
        ],
    )
    def test_by_classes_and_own_keys(self, raw: dict[str, Any], family: str | None) -> None:
        """`architectures` and `auto_map` decide, then a model_type or keys that no other family
        has.
        """
        assert recognised(raw) == family


class TestLoading:
    @pytest.mark.parametrize("family", SHAPES)
    def test_published_names(self, family: str, tmp_path: Path) -> None:
        """A checkpoint with an expert a tensor, and LLaDA2's names, gives back every weight."""
        loaded: Any = load_model(
            str(block_checkpoint(tmp_path, family)), **({"block": 8} if family == "llada2" else {})
        )
        made: Any = block_model(family)
        before = made.network.module.state_dict()
        after = loaded.network.module.state_dict()
        assert before.keys() == after.keys()
        assert all(torch.equal(before[name], after[name]) for name in before)
        assert loaded.info["family"] == family

    def test_block_length(self, tmp_path: Path) -> None:
        """It comes from config.json, and an option overrides it."""
        folder = str(block_checkpoint(tmp_path))
        assert (load_model(folder).block, load_model(folder, block=8).block) == (4, 8)  # type: ignore[union-attr]
        assert block_of(resolve_model(folder)) == 4

    def test_everything_wrong_at_once(self, tmp_path: Path) -> None:
        """Missing and misshapen tensors, unknown router options and a block length that doesn't fit
        are one error.
        """
        folder = block_checkpoint(tmp_path, "llada2", score_function="softmax", use_qkv_bias=True)
        tensors = load_file(folder / "model.safetensors")
        del tensors["model.layers.1.mlp.experts.3.up_proj.weight"]
        tensors["model.layers.0.attention.query_key_value.weight"] = torch.zeros(7, 32)
        tensors["model.layers.1.mlp.gate.expert_bias"] = torch.zeros(4)
        save_file(tensors, folder / "model.safetensors")
        with pytest.raises(ModelError) as error:
            load_model(str(folder), block=1000)
        for text in (
            "score_function 'softmax' (known: 'sigmoid')",
            "use_qkv_bias True",
            "block length 1000 (known: whole numbers from 1 to its 256 positions)",
            "model.layers.1.mlp.experts.3.up_proj.weight",
            "v_proj.weight is (0, 32)",
            "e_score_correction_bias is (4,), config.json says (8,)",
        ):
            assert text in str(error.value), text

    @pytest.mark.parametrize(
        ("family", "changes", "named"),
        [
            (
                "sdar",
                {"head_dim": "absent", "rope_theta": "absent"},
                r"has no rope_theta, head_dim",
            ),
            ("sdar", {"block_size": "absent"}, r"no block length \(pass block=…"),
            ("sdar", {"block_size": "four"}, r"block length 'four'"),
            ("sdar", {"use_sliding_window": True}, r"use_sliding_window True"),
            (
                "llada_moe",
                {"moe_router_enable_expert_bias": True},
                r"moe_router_enable_expert_bias True",
            ),
            (
                "llada_moe",
                {"shared_expert_intermediate_size": 16},
                r"shared_expert_intermediate_size 16",
            ),
            ("llada_moe", {"moe_layer_freq": [1]}, r"moe_layer_freq \[1\]"),
            ("llada2", {"n_group": 3}, r"8 experts in 3 groups"),
            ("llada2", {"topk_group": 5}, r"topk_group 5 of 4 groups"),
            (
                "llada2",
                {"num_experts": "absent", "n_group": "absent"},
                r"has no num_experts, n_group",
            ),
        ],
    )
    def test_bad_configs(
        self, family: str, changes: dict[str, Any], named: str, tmp_path: Path
    ) -> None:
        """What config.json lacks or has that can't be loaded is named."""
        with pytest.raises(ModelError, match=named):
            load_model(str(block_checkpoint(tmp_path, family, **changes)))

    def test_full_attention_has_no_blocks(self, tmp_path: Path) -> None:
        """A block length for LLaDA-MoE, and an attention without block-causal masks, are
        refused.
        """
        with pytest.raises(ModelError, match="block=4 for a model with full attention"):
            load_model(str(block_checkpoint(tmp_path / "moe", "llada_moe")), block=4)
        with pytest.raises(ModelError, match="flex_attention has no block-causal mask"):
            load_model(
                str(block_checkpoint(tmp_path / "sdar")), attn_implementation="flex_attention"
            )


class TestTinyA2D:
    """Models whose files say neither the mask token's id nor whether attention is in blocks."""

    def folder(self, path: Path, **tokens: Any) -> str:
        """A checkpoint without a mask id, and a tokenizer with `tokens`."""
        folder = block_checkpoint(path, "a2d-qwen3", mask_token_id="absent")
        words = {word: place for place, word in enumerate(["<|MASK|>", "end", "a", "b"])}
        made = Tokenizer(WordLevel(words, unk_token="a"))
        PreTrainedTokenizerFast(tokenizer_object=made, **tokens).save_pretrained(folder)
        return str(folder)

    @pytest.mark.parametrize("tokens", [{"mask_token": "<|MASK|>"}, {}])
    def test_the_tokenizer_names_the_mask(self, tmp_path: Path, tokens: dict[str, str]) -> None:
        """As its mask token, or by the text alone."""
        loaded: Any = load_model(self.folder(tmp_path, **tokens))
        assert (loaded.mask_id, loaded.block) == (0, None)

    def test_without_a_tokenizer(self, tmp_path: Path) -> None:
        """What is missing is said, and what to do."""
        folder = block_checkpoint(tmp_path, "a2d-qwen3", mask_token_id="absent")
        with pytest.raises(ModelError, match=r"no mask token, where a2d-qwen3 has it .*mask_id=…"):
            load_model(str(folder))

    def test_blocks_are_an_option(self, tmp_path: Path) -> None:
        """Attention is full without one; the record's model_info has the length."""
        folder = str(block_checkpoint(tmp_path, "a2d-qwen3"))
        full: Any = load_model(folder)
        blocks: Any = load_model(folder, block=8)
        assert (full.block, blocks.block) == (None, 8)
        assert ("block" in full.info, blocks.info["block"]) == (False, 8)

    @pytest.mark.parametrize("block", [0, -4, 1000, "8"])
    def test_impossible_blocks(self, tmp_path: Path, block: Any) -> None:
        """One line names the length and what is allowed."""
        folder = str(block_checkpoint(tmp_path, "a2d-qwen3"))
        with pytest.raises(
            ModelError, match=f"block length {block!r} .known: whole numbers"
        ) as why:
            load_model(folder, block=block)
        assert "\n" not in str(why.value)


class TestNemotron:
    def test_an_older_transformers(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The error names both versions."""
        folder = str(block_checkpoint(tmp_path, "nemotron"))
        monkeypatch.setattr("pbcore.models.architecture.transformers.__version__", "5.0.0")
        with pytest.raises(ModelError, match=r"needs transformers 5\.4 or newer.* 5\.0\.0 is inst"):
            load_model(folder)

    def test_an_empty_prompt(self) -> None:
        """Its first token is predicted from the prompt's last one."""
        with pytest.raises(ModelError, match="predicts the first token from the one before it"):
            block_model("nemotron").encode([], 8, 0)


class TestTable:
    @pytest.mark.parametrize(
        ("name", "billions"),
        [
            ("sdar-1.7b", 1.72),
            ("sdar-8b", 8.19),
            ("qwen3-0.6b-diffusion-mdlm", 0.60),
            ("qwen2.5-coder-0.5b-diffusion-bd3lm", 0.49),
            ("nemotron-labs-diffusion-14b", 13.51),
            ("sdar-30b-a3b", 30.53),
            ("llada-moe-7b", 7.36),
            ("llada2.0-mini", 16.26),
            ("llada2.0-flash", 102.89),
        ],
    )
    def test_sizes(self, name: str, billions: float) -> None:
        """Shapes have their published sizes, counted without memory."""
        shape = resolve_model(f"{name}:dummy").shape
        assert shape is not None
        assert count_parameters(empty_model(architecture(shape, name))) / 1e9 == pytest.approx(
            billions, abs=0.005
        )

    def test_every_entry_has_its_family(self) -> None:
        """Each masked entry of the hub names its row, and a published shape is recognised as of
        that family.
        """
        for entry in all_entries():
            if entry.loaded_as == "masked" and entry.source:
                assert entry.architecture in FAMILIES, entry.name
                if entry.shape is not None:
                    kind = recognised(entry.shape) or str(entry.shape["model_type"]).lower()
                    assert kind == entry.architecture, entry.name

    def test_block_entries_know_their_length(self) -> None:
        """An entry's block length is that of its shape's family."""
        for entry in all_entries():
            if entry.loaded_as == "masked" and entry.shape is not None:
                family = FAMILIES.get(recognised(entry.shape) or "")
                if family is not None and family.may_have_blocks:
                    assert entry.block == (32 if entry.name.endswith("bd3lm") else None)
                else:
                    own = family.block_of(entry.shape) if family else None
                    assert entry.block == own, entry.name
