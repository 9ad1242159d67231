"""The last layer for the columns that are read against a forward of all columns."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    Glm4MoeConfig,
    LlamaConfig,
    Qwen2Config,
    Qwen3Config,
    Qwen3MoeConfig,
)

from pbcore.models.network import OLD, Columns, NativeNetwork, last_layer

SIZES = {
    "vocab_size": 50,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "is_causal": False,
}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
CONFIGS: dict[str, Any] = {
    "llama": lambda: LlamaConfig(**SIZES),
    "qwen2": lambda: Qwen2Config(**SIZES),
    "qwen3": lambda: Qwen3Config(head_dim=16, **SIZES),
    "qwen3_moe": lambda: Qwen3MoeConfig(head_dim=8, **EXPERTS, **SIZES),
    "glm4_moe": lambda: Glm4MoeConfig(
        n_routed_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=16,
        first_k_dense_replace=1,
        use_qk_norm=True,
        head_dim=8,
        rope_parameters={
            "rope_type": "default",
            "rope_theta": 10000.0,
            "partial_rotary_factor": 0.5,
        },
        **SIZES,
    ),
}


def network(kind: str, attention: str = "sdpa") -> NativeNetwork:
    torch.manual_seed(0)
    module = AutoModelForCausalLM.from_config(CONFIGS[kind](), attn_implementation=attention).eval()
    for part in module.modules():
        if hasattr(part, "is_causal"):
            part.is_causal = False
        if hasattr(part, "weight") and type(part).__name__.endswith("Norm"):
            torch.nn.init.normal_(part.weight, 1.0, 0.3)
    return NativeNetwork(module)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("kind", CONFIGS)
@torch.inference_mode()
def test_equals_a_forward_of_all_columns(kind: str, padded: bool, attention: str) -> None:
    net = network(kind, attention)
    ids = torch.randint(50, (3, 12))
    seen = torch.ones(3, 12, dtype=torch.bool)
    if padded:
        seen[0, :4], seen[2, 10:] = False, False
    positions = (seen.long().cumsum(-1) - 1).clamp(min=0)
    mask = seen if padded else None
    whole = net.hidden(Columns(ids, positions, mask))
    for skip in (1, 7, 11):
        read = seen[:, skip:]
        narrow = net.hidden(Columns(ids, positions, mask, skip=skip))
        torch.testing.assert_close(narrow[read], whole[:, skip:][read], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(net.hidden(Columns(ids, positions, mask)), whole, rtol=0, atol=0)


@torch.inference_mode()
def test_a_failed_forward_narrows_no_later_one() -> None:
    """The module gives all columns after a forward that ended before the last layer, as when memory
    runs out.
    """
    net = network("llama")
    ids = torch.randint(50, (1, 6))
    columns = Columns(ids, torch.arange(6)[None], None, skip=4)
    before = net.module.model(ids).last_hidden_state

    def fail(*_: Any) -> None:
        raise MemoryError

    with net.module.model.layers[0].register_forward_pre_hook(fail), pytest.raises(MemoryError):
        net.hidden(columns)
    torch.testing.assert_close(net.module.model(ids).last_hidden_state, before, rtol=0, atol=0)


@pytest.mark.skipif(
    OLD, reason="this transformers' own masks are causal, or wait for the cache's columns"
)
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("kind", CONFIGS)
@torch.inference_mode()
def test_masks_as_numbers_are_those_of_transformers(kind: str, attention: str) -> None:
    """A mask added once for all queries gives what transformers makes of the booleans, bit by bit;
    with a cache too.
    """
    net = network(kind, attention)
    ids = torch.randint(50, (3, 12))
    seen = torch.ones(3, 12, dtype=torch.bool)
    seen[0, :4], seen[2, 10:] = False, False
    positions = (seen.long().cumsum(-1) - 1).clamp(min=0)
    theirs = net.module.model(
        ids, attention_mask=seen, position_ids=positions, use_cache=False
    ).last_hidden_state
    whole = net.hidden(Columns(ids, positions, seen))
    torch.testing.assert_close(whole[seen], theirs[seen], rtol=0, atol=0)
    cache = net.cache(12)
    net.hidden(Columns(ids, positions, seen, cache))
    part = net.hidden(Columns(ids[:, 5:9], positions[:, 5:9], seen, cache, 5))
    torch.testing.assert_close(part, whole[:, 5:9], rtol=1e-4, atol=1e-5)


@torch.inference_mode()
def test_skipped_columns_stay_out_of_the_last_layers_mlp() -> None:
    net = network("llama")
    widths = []
    layers = net.module.model.layers
    for layer in layers:
        layer.mlp.register_forward_hook(lambda _, args, __: widths.append(args[0].shape[1]))
    ids = torch.randint(50, (2, 12))
    net.hidden(Columns(ids, torch.arange(12).repeat(2, 1), skip=9))
    assert widths == [12, 12, 3]


@torch.inference_mode()
def test_with_a_cache_every_column_runs_and_is_kept() -> None:
    net = network("llama")
    ids = torch.randint(50, (2, 12))
    positions = torch.arange(12).repeat(2, 1)
    cache = net.cache(12)
    states = net.hidden(Columns(ids, positions, None, cache=cache, skip=9))
    torch.testing.assert_close(states, net.hidden(Columns(ids, positions))[:, 9:])
    assert all(bool(layer.keys.any(-1).all()) for layer in cache.layers)


@torch.inference_mode()
def test_an_attention_of_another_build_runs_whole() -> None:
    net = network("llama")
    whole = network("llama")
    del whole.module.model.layers[-1].self_attn.head_dim
    assert last_layer(whole.module) is None
    assert last_layer(net.module) is not None


def test_another_kernel_runs_whole() -> None:
    module = network("llama").module
    module.config._attn_implementation = "flash_attention_2"
    assert last_layer(module) is None
