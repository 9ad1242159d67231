"""Small random block models for tests, without files: a shape as published ones name it, with random weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from pbcore.models.entry import LoadOptions, ModelEntry
from pbcore.models.loading import load
from pbcore.models.masked import MaskedModel

MASK, EOS, TOKENS = 61, 60, 64
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
FAST = {**SDAR, "model_type": "Fast_dLLM_Qwen", "architectures": ["Fast_dLLM_QwenForCausalLM"], "bd_size": 8}
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
    **{key: value for key, value in SDAR.items() if key not in ("block_size", "head_dim", "intermediate_size")},
    "model_type": "llada",
    "architectures": ["LLaDAMoEModelLM"],
    "expert_intermediate_size": 16,
    "num_experts": 8,
    "num_experts_per_tok": 2,
}
SHAPES: Mapping[str, Mapping[str, Any]] = {"sdar": SDAR, "fast_dllm_v2": FAST, "llada2": LLADA2, "llada_moe": LLADA_MOE}


def block_model(family: str = "sdar", seed: int = 3, stops: tuple[int, ...] = (), **options: Any) -> MaskedModel:
    """A model of a family with random weights large enough that its answers vary; no token ends an answer unless
    given.
    """
    entry = ModelEntry(family, "masked", mask_id=MASK, eos_id=EOS, shape=SHAPES[family], dummy=True)
    model = load(entry, "cpu", "float32", LoadOptions.of(options))
    module: Any = model.network._module  # type: ignore[attr-defined]
    generator = torch.Generator().manual_seed(seed)
    for parameter in module.parameters():
        if parameter.dim() > 1:
            parameter.normal_(0.0, 0.25, generator=generator)
    return replace(model, stop_ids=frozenset(stops))
