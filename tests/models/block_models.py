"""Small random block models for tests, without files: a shape as published ones name it, with
random weights.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from pbcore.models.entry import LoadOptions, ModelEntry
from pbcore.models.loading import load_masked
from pbcore.models.masked import MaskedModel

MASK = 61
EOS = 60
TOKENS = 64
SDAR = {
    "model_type": "sdar",
    "architectures": ["SDARForCausalLM"],
    "block_size": 4,
    "vocab_size": TOKENS,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
}
FAST = {
    **SDAR,
    "model_type": "Fast_dLLM_Qwen",
    "architectures": ["Fast_dLLM_QwenForCausalLM"],
    "bd_size": 8,
}
LLADA2 = {
    **{key: value for key, value in SDAR.items() if key != "block_size"},
    "model_type": "llada2_moe",
    "architectures": ["LLaDA2MoeModelLM"],
    "partial_rotary_factor": 0.5,
    "moe_intermediate_size": 16,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "num_shared_experts": 1,
    "n_group": 4,
    "topk_group": 2,
    "routed_scaling_factor": 2.5,
    "first_k_dense_replace": 1,
}
LLADA_MOE = {
    **{
        key: value
        for key, value in SDAR.items()
        if key not in ("block_size", "head_dim", "intermediate_size")
    },
    "model_type": "llada",
    "architectures": ["LLaDAMoEModelLM"],
    "expert_intermediate_size": 16,
    "num_experts": 8,
    "num_experts_per_tok": 2,
}
A2D = {
    **{key: value for key, value in SDAR.items() if key != "block_size"},
    "model_type": "a2d-qwen3",
    "architectures": ["A2DQwen3LMHeadModel"],
}
NEMOTRON = {
    **{key: value for key, value in SDAR.items() if key != "rope_theta"},
    "model_type": "nemotron_labs_diffusion",
    "architectures": ["NemotronLabsDiffusionModel"],
    "rope_parameters": {
        "rope_type": "yarn",
        "rope_theta": 10000.0,
        "factor": 4.0,
        "original_max_position_embeddings": 16,
        "llama_4_scaling_beta": 0.1,
    },
}
SHAPES: Mapping[str, Mapping[str, Any]] = {
    "sdar": SDAR,
    "a2d-qwen3": A2D,
    "nemotron": NEMOTRON,
    "fast_dllm_v2": FAST,
    "llada2": LLADA2,
    "llada_moe": LLADA_MOE,
}


def block_model(
    family: str = "sdar",
    seed: int = 3,
    stops: tuple[int, ...] = (),
    layers: int = 2,
    **options: Any,
) -> MaskedModel:
    """A model of a family with random weights large enough that its answers vary; no token ends an
    answer unless given.
    """
    shape = {**SHAPES[family], "num_hidden_layers": layers}
    entry = ModelEntry(family, "masked", mask_id=MASK, eos_id=EOS, shape=shape, dummy=True)
    model = load_masked(entry, "cpu", "float32", LoadOptions.of(options))
    module: Any = model.network.module  # type: ignore[attr-defined]
    generator = torch.Generator().manual_seed(seed)
    for parameter in module.parameters():
        if parameter.dim() > 1:
            parameter.normal_(0.0, 0.25, generator=generator)
    return replace(model, stop_ids=frozenset(stops))


def block_checkpoint(folder: Path, family: str = "sdar", **changes: Any) -> Path:
    """A checkpoint folder of a small model under the names of published ones; `changes` go into
    config.json.
    """
    model = block_model(family)
    module: Any = model.network.module  # type: ignore[attr-defined]
    tensors = published_names(module.state_dict(), SHAPES[family])
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / "model.safetensors")
    config = {**SHAPES[family], "mask_token_id": MASK, "eos_token_id": EOS, **changes}
    (folder / "config.json").write_text(
        json.dumps({key: value for key, value in config.items() if value != "absent"})
    )
    return folder


def published_names(
    tensors: Mapping[str, torch.Tensor], shape: Mapping[str, Any]
) -> dict[str, torch.Tensor]:
    """A model's tensors as published: a tensor per expert, and LLaDA2's names with q, k and v in
    one.
    """
    found: dict[str, torch.Tensor] = {}
    for name, tensor in tensors.items():
        if name.endswith("experts.gate_up_proj"):
            for e, both in enumerate(tensor):
                for part, half in zip(("gate", "up"), both.chunk(2), strict=True):
                    found[name.replace("gate_up_proj", f"{e}.{part}_proj.weight")] = half.clone()
        elif name.endswith("experts.down_proj"):
            for e, down in enumerate(tensor):
                found[name.replace("down_proj", f"{e}.down_proj.weight")] = down.clone()
        else:
            found[name] = tensor.clone()
    if shape["model_type"] == "nemotron_labs_diffusion":
        theirs = {"model.": "encoder.", "lm_head.": "diffusion_head."}
        return {
            head + name.removeprefix(ours): tensor
            for name, tensor in found.items()
            for ours, head in theirs.items()
            if name.startswith(ours)
        }
    if shape["model_type"] != "llada2_moe":
        return found
    for i in range(shape["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        found[layer + "attention.query_key_value.weight"] = torch.cat(
            [found.pop(layer + f"self_attn.{letter}_proj.weight") for letter in "qkv"]
        )
        for ours, theirs in (
            ("self_attn.o_proj", "attention.dense"),
            ("self_attn.q_norm", "attention.query_layernorm"),
            ("self_attn.k_norm", "attention.key_layernorm"),
        ):
            found[layer + theirs + ".weight"] = found.pop(layer + ours + ".weight")
        if layer + "mlp.gate.e_score_correction_bias" in found:
            found[layer + "mlp.gate.expert_bias"] = found.pop(
                layer + "mlp.gate.e_score_correction_bias"
            )
    found["model.word_embeddings.weight"] = found.pop("model.embed_tokens.weight")
    return found
