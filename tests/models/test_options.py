"""Options of config.json, one at a time on small random models: a ragged batch, each row alone, and
transformers' own forward of that row say the same. Every key that a family reads has a value here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, cast

import pytest
import torch
import transformers
from torch import Tensor

from pbcore.decoding import decode
from pbcore.decoding.sharing import ForwardStore
from pbcore.models import file_keys
from pbcore.models.base import Query, Request
from pbcore.models.entry import LoadOptions, ModelEntry
from pbcore.models.families import BODIES
from pbcore.models.file_keys import IGNORED, READ
from pbcore.models.loading import load_masked
from pbcore.models.masked import MaskedModel
from tests.models.block_models import EOS, FAST, LLADA2, LLADA_MOE, MASK, SDAR, TOKENS

# Prompts as long as these and a canvas of 8: on both sides of 16 positions, where the frequencies
# of the rules below change. Blocks of 4 never lie across.
PROMPTS = [
    [5, 6, 7],
    [9, 8, 7, 6],
    list(range(20, 34)),
    [(7 * i) % 50 for i in range(31)],
]
CANVAS = 8
BEFORE = 16
# Of Ministral's body, whatever its rope type.
_SCALED = {"llama_4_scaling_beta": 0.1, "original_max_position_embeddings": BEFORE}
PLAIN = {
    "vocab_size": TOKENS,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
}
_BASES: Mapping[str, Mapping[str, Any]] = {
    "llada": {
        "model_type": "llada",
        "architectures": ["LLaDAModelLM"],
        "vocab_size": TOKENS,
        "d_model": 32,
        "n_heads": 4,
        "n_layers": 2,
        "mlp_hidden_size": 48,
        "max_sequence_length": 256,
    },
    "dream": {**PLAIN, "model_type": "Dream", "architectures": ["DreamModel"]},
    "llama": {**PLAIN, "model_type": "llama", "head_dim": 8, "is_causal": False},
    "qwen2": {**PLAIN, "model_type": "qwen2", "is_causal": False},
    "qwen3": {**PLAIN, "model_type": "qwen3", "head_dim": 8, "is_causal": False},
    "sdar": SDAR,
    "sdar_moe": {
        **SDAR,
        "model_type": "sdar_moe",
        "architectures": ["SDARMoeForCausalLM"],
        "moe_intermediate_size": 16,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "norm_topk_prob": True,
    },
    "fast_dllm_v2": {
        key: value for key, value in {**FAST, "bd_size": 4}.items() if key != "block_size"
    },
    "stable_diffcoder": {
        **{key: value for key, value in SDAR.items() if key != "block_size"},
        "model_type": "llama",
        "architectures": ["StableDiffcoderForCausalLM"],
    },
    "llada_moe": LLADA_MOE,
    "llada2": LLADA2,
    "a2d-qwen3": {
        **PLAIN,
        "model_type": "a2d-qwen3",
        "architectures": ["A2DQwen3LMHeadModel"],
        "head_dim": 8,
    },
    "a2d-qwen2": {
        **PLAIN,
        "model_type": "a2d-qwen2",
        "architectures": ["A2DQwen2LMHeadModel"],
    },
    "a2d-llama": {
        **PLAIN,
        "model_type": "a2d-llama",
        "architectures": ["A2DLlamaLMHeadModel"],
        "head_dim": 8,
    },
    "nemotron": {
        **SDAR,
        "model_type": "nemotron_labs_diffusion",
        "architectures": ["NemotronLabsDiffusionModel"],
        "rope_scaling": {"rope_type": "default", **_SCALED},
    },
}
BASES = {family: base for family, base in _BASES.items() if family in BODIES}
OWN_GRID = ("nemotron",)  # their blocks begin at the prompt's end
_LONG = {"original_max_position_embeddings": BEFORE}
ROPE: Mapping[str, Mapping[str, Any]] = {
    "linear": {"rope_type": "linear", "factor": 4.0},
    "yarn": {"rope_type": "yarn", "factor": 4.0, **_LONG},
    "llama3": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        **_LONG,
    },
    "dynamic": {"rope_type": "dynamic", "factor": 4.0, **_LONG},
    "longrope": {"rope_type": "longrope", "factor": 16.0, **_LONG},
}


def rope(family: str, kind: str) -> dict[str, Any]:
    """A rope type as a change of the family's config.json."""
    rule = dict(ROPE[kind])
    if kind == "longrope":
        base = BASES[family]
        width = base.get("head_dim", 8)
        pairs = int(width * base.get("partial_rotary_factor", 1)) // 2
        rule |= {
            "short_factor": [1.0 + i / 4 for i in range(pairs)],
            "long_factor": [2.0 + 3 * i for i in range(pairs)],
        }
    if family in OWN_GRID:
        rule |= _SCALED
    changes: dict[str, Any] = {"rope_scaling": rule}
    if kind == "dynamic":
        limit = "max_sequence_length" if family == "llada" else "max_position_embeddings"
        changes[limit] = BEFORE
    return changes


# Further keys of a rope type, tried with one family.
ROPE_KEYS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "attention_factor": ("yarn", {"attention_factor": 1.5}),
    "beta_fast and beta_slow": ("yarn", {"beta_fast": 4.0, "beta_slow": 0.5}),
    "mscale and mscale_all_dim": ("yarn", {"mscale": 1.0, "mscale_all_dim": 0.5}),
    "truncate": ("yarn", {"truncate": False}),
    "attention_factor of longrope": ("longrope", {"attention_factor": 1.5}),
}


def rope_keys(family: str) -> dict[str, Mapping[str, Any]]:
    """`ROPE_KEYS` as changes of config.json."""
    found: dict[str, Mapping[str, Any]] = {}
    for name, (kind, more) in ROPE_KEYS.items():
        found[f"rope {name}"] = {"rope_scaling": rope(family, kind)["rope_scaling"] | more}
    return found


_WINDOW = {"use_sliding_window": True, "sliding_window": 3}
WINDOWS: Mapping[str, Mapping[str, Any]] = {
    "all layers": {**_WINDOW, "max_window_layers": 0},
    "upper layers": {**_WINDOW, "max_window_layers": 1},
    "layer_types": {**_WINDOW, "layer_types": ["sliding_attention", "full_attention"]},
}
SLIDING = ("dream", "qwen2", "qwen3", "a2d-qwen2", "a2d-qwen3")
_HEADS: Mapping[str, Mapping[str, Any]] = {"head_dim": {"head_dim": 16}}
_BIASES: Mapping[str, Mapping[str, Any]] = {
    "attention_bias": {"attention_bias": True},
    "mlp_bias": {"mlp_bias": True},
}
_GELU: Mapping[str, Mapping[str, Any]] = {"hidden_act": {"hidden_act": "gelu"}}
OWN: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "a2d-qwen3": {**_HEADS, **_GELU, "attention_bias": {"attention_bias": True}},
    "a2d-qwen2": {**_HEADS, **_GELU},
    "a2d-llama": {**_HEADS, **_GELU, **_BIASES},
    "nemotron": {"head_dim": {"head_dim": 8}},
    "llada": {
        "n_kv_heads": {"n_kv_heads": 2},
        "multi_query_attention": {"multi_query_attention": True},
        "mlp_ratio": {"mlp_hidden_size": None, "mlp_ratio": 2},
        "embedding_size": {"embedding_size": TOKENS + 8},
        "rope_theta": {"rope_theta": 100.0},
        "rms_norm_eps": {"rms_norm_eps": 0.5},
        "weight_tying": {"weight_tying": True},
        "head_dim": {"head_dim": 16},
    },
    "dream": {"hidden_act": {"hidden_act": "gelu"}, "head_dim": {"head_dim": 16}},
    "llama": {
        "attention_bias": {"attention_bias": True},
        "mlp_bias": {"mlp_bias": True},
        "head_dim": {"head_dim": 16},
        "hidden_act": {"hidden_act": "gelu"},
    },
    "qwen2": {"hidden_act": {"hidden_act": "gelu"}, "head_dim": {"head_dim": 16}},
    "qwen3": {
        "attention_bias": {"attention_bias": True},
        "head_dim": {"head_dim": 16},
        "hidden_act": {"hidden_act": "gelu"},
    },
    "sdar": {"attention_bias": {"attention_bias": True}, "head_dim": {"head_dim": 8}},
    "sdar_moe": {
        "norm_topk_prob": {"norm_topk_prob": False},
        "decoder_sparse_step": {"decoder_sparse_step": 2},
        "mlp_only_layers": {"mlp_only_layers": [0]},
    },
    "stable_diffcoder": {
        "attention_bias": {"attention_bias": True},
        "mlp_bias": {"mlp_bias": True},
    },
    "llada_moe": {
        "moe_layer_freq": {"moe_layer_freq": [0, 1], "dense_intermediate_size": 48},
        "num_experts_per_tok": {"num_experts_per_tok": 4},
        "head_dim": {"head_dim": 16},
    },
    "llada2": {
        "first_k_dense_replace": {"first_k_dense_replace": 0},
        "routed_scaling_factor": {"routed_scaling_factor": 1.0},
        "num_experts_per_tok": {"num_experts_per_tok": 1},
        "num_shared_experts": {"num_shared_experts": 2},
        "topk_group": {"topk_group": 1},
        "n_group": {"n_group": 2},
        "partial_rotary_factor": {"partial_rotary_factor": 1.0},
        "rotary_dim": {"partial_rotary_factor": None, "rotary_dim": 4},
    },
}
COMMON = {
    "rope_theta": {"rope_theta": 100.0},
    "rms_norm_eps": {"rms_norm_eps": 0.5},
    "num_key_value_heads": {"num_key_value_heads": 4},
    "tie_word_embeddings": {"tie_word_embeddings": True},
}


def options(family: str) -> dict[str, Mapping[str, Any]]:
    """The options of a family that change what it computes, a change of config.json each."""
    found: dict[str, Mapping[str, Any]] = {}
    if family != "llada":
        found |= COMMON
    found |= {f"rope {kind}": rope(family, kind) for kind in ROPE}
    if family == "qwen2":
        found |= rope_keys(family)
    newer = rope(family, "linear")["rope_scaling"] | {"rope_theta": 100.0}
    older = {"rope_theta": None, "rope_scaling": None}
    found["rope_parameters"] = {**older, "rope_parameters": newer}
    if family in SLIDING:
        found |= {f"window in {name}": change for name, change in WINDOWS.items()}
    return found | OWN.get(family, {})


CASES = [(family, option) for family in BASES for option in options(family)]


@cache
def model(family: str, option: str | None) -> MaskedModel:
    """A family's small model with an option; None: without any."""
    change = {} if option is None else options(family)[option]
    shape = _merged(family, change)
    entry = ModelEntry(family, "masked", mask_id=MASK, eos_id=EOS, shape=shape, dummy=True)
    given = {"block": 4} if family == "llada2" else {}
    made = load_masked(entry, "cpu", "float32", LoadOptions.of(given))
    filled(made.network.module)
    return made


def _merged(family: str, change: Mapping[str, Any]) -> dict[str, Any]:
    """The family's config.json with a change; None removes a key."""
    raw = {**BASES[family], **change}
    return {key: value for key, value in raw.items() if value is not None}


def filled(module: Any) -> None:
    """Gives weights, norms and biases random values."""
    generator = torch.Generator().manual_seed(3)
    for name, parameter in module.named_parameters():
        norm = "norm" in name and parameter.dim() == 1
        parameter.normal_(1.0 if norm else 0.0, 0.25, generator=generator)


def theirs(family: str, option: str | None, made: MaskedModel) -> Any:
    """transformers' own model of the body, made from its own config, with the same weights."""
    change = {} if option is None else options(family)[option]
    raw = _merged(family, change)
    model_class = getattr(transformers, BODIES[family].body)
    dropped = ("model_type", "architectures", "block_size", "bd_size", "is_causal")
    values = {key: value for key, value in raw.items() if key not in dropped}
    config = model_class.config_class(**TRANSLATED.get(family, dict)(values))
    config.is_causal = False
    module = model_class._from_config(config, attn_implementation="eager")
    module.load_state_dict(made.network.module.state_dict())
    for part in module.modules():
        if hasattr(part, "is_causal"):
            part.is_causal = False
    return module.eval()


def _llada(values: Mapping[str, Any]) -> dict[str, Any]:
    heads = values["n_heads"]
    shared = 1 if values.get("multi_query_attention") else heads
    return {
        "vocab_size": values.get("embedding_size") or values["vocab_size"],
        "hidden_size": values["d_model"],
        "intermediate_size": values.get("mlp_hidden_size")
        or values["mlp_ratio"] * values["d_model"],
        "num_hidden_layers": values["n_layers"],
        "num_attention_heads": heads,
        "num_key_value_heads": values.get("n_kv_heads") or shared,
        "max_position_embeddings": values["max_sequence_length"],
        "rms_norm_eps": values.get("rms_norm_eps", 1e-5),
        "tie_word_embeddings": values.get("weight_tying", False),
        "head_dim": values.get("head_dim") or values["d_model"] // heads,
        "rope_theta": 10000.0,
        **{key: values[key] for key in values if key.startswith("rope_")},
    }


def _llada_moe(values: Mapping[str, Any]) -> dict[str, Any]:
    frequency = values.get("moe_layer_freq", [1, 1])
    return {
        **values,
        "moe_intermediate_size": values["expert_intermediate_size"],
        "intermediate_size": values.get("dense_intermediate_size", 1),
        "mlp_only_layers": [layer for layer, moe in enumerate(frequency) if not moe],
        "head_dim": values.get("head_dim", 8),
        "norm_topk_prob": False,
    }


def _llada2(values: Mapping[str, Any]) -> dict[str, Any]:
    rotary = {"rope_type": "default", "rope_theta": values.get("rope_theta")}
    rotary |= values.get("rope_scaling") or values.get("rope_parameters") or {}
    part = values.get("partial_rotary_factor") or values["rotary_dim"] / values["head_dim"]
    return {
        **{key: value for key, value in values.items() if not key.startswith("rope_")},
        "rope_parameters": {**rotary, "partial_rotary_factor": part},
        "n_routed_experts": values["num_experts"],
        "n_shared_experts": values["num_shared_experts"],
        "use_qk_norm": True,
        "norm_topk_prob": values["num_experts_per_tok"] > 1,
    }


TRANSLATED = {"llada": _llada, "llada_moe": _llada_moe, "llada2": _llada2}


@dataclass(frozen=True, slots=True)
class Rows:
    """Logits (L, V) of each row's masks."""

    logits: list[Tensor]

    def equals(self, other: Rows) -> None:
        for own, theirs_of in zip(self.logits, other.logits, strict=True):
            torch.testing.assert_close(own, theirs_of, rtol=1e-4, atol=1e-4)


@torch.inference_mode()
def ours(made: MaskedModel, prompts: Sequence[Sequence[int]]) -> Rows:
    """What a batch predicts of its canvases, all masks: of a block model, in the first block."""
    if made.name in OWN_GRID:
        answers = decode(cast(Any, replace(made, limit=256)), prompts, "confidence-k1", CANVAS)
        return Rows([torch.tensor(answer.confidences) for answer in answers])
    requests = [Request(tuple(ids), (MASK,) * CANVAS, i) for i, ids in enumerate(prompts)]
    context: Any = made.prepare(requests, cache=None, seed=0)
    rows = len(prompts)
    canvas = torch.full((rows, CANVAS), MASK)
    nothing = torch.zeros(rows, dtype=torch.long)
    want = torch.ones_like(canvas, dtype=torch.bool)
    query = Query(canvas, want, nothing)
    if made.block is not None:
        context.store(canvas, nothing, torch.ones(rows, dtype=torch.bool))
        sizes = [first_block(len(ids), made) for ids in prompts]
        want = torch.arange(CANVAS) < torch.tensor(sizes)[:, None]
        query = Query(canvas, want, nothing, block=nothing, blocks=(0,) * rows)
    logits = context.logits(query)
    return Rows(list(logits.split(want.sum(-1).tolist())))


def first_block(prompt: int, made: MaskedModel) -> int:
    """How many canvas positions the first active block has that its own columns predict."""
    assert made.block is not None
    return min(made.block - prompt % made.block, CANVAS)


@torch.inference_mode()
def alone(made: MaskedModel, module: Any, prompts: Sequence[Sequence[int]]) -> Rows:
    """The same by transformers' own forward of each row alone, of a block model with transformers'
    own cache of the finished blocks.
    """
    found = []
    for ids in prompts:
        for rotary in [part for part in module.modules() if hasattr(part, "max_seq_len_cached")]:
            rotary(torch.zeros(1), torch.zeros(1, 1, dtype=torch.long))  # forgets longer rows
        size = CANVAS if made.block is None else first_block(len(ids), made)
        row = torch.tensor([[*ids, *[MASK] * size]])
        start = 0
        cache = None
        if made.block is not None and len(ids) >= made.block:
            start = len(ids) // made.block * made.block
            block = torch.arange(start) // made.block
            hidden = block[:, None] < block
            mask = torch.zeros(hidden.shape).masked_fill(hidden, torch.finfo().min)[None, None]
            cache = transformers.DynamicCache()
            module(row[:, :start], attention_mask=mask, past_key_values=cache, use_cache=True)
        run = row[:, start:]
        mask = None if made.block is None else torch.zeros(1, 1, run.shape[1], row.shape[1])
        places = torch.arange(start, row.shape[1])[None]
        output = module(run, attention_mask=mask, position_ids=places, past_key_values=cache)
        first = len(ids) - int(made.shift) - start
        found.append(output.logits[0, first : first + size])
    return Rows(found)


@pytest.mark.parametrize("family", BODIES)
def test_every_key_that_is_read_has_a_value(family: str) -> None:
    """Each key that a family reads, but token ids and names, is in its small config.json or in one
    of its options.
    """
    assert family in BASES, f"give {family} a small config.json in BASES, and its options in OWN"
    body = getattr(transformers, BODIES[family].body)
    keys = BODIES[family].config_keys([declared.name for declared in fields(body.config_class)])
    ignored = [pattern for patterns in IGNORED.values() for pattern in patterns]
    read = {
        key
        for key in keys.reads - {*READ}
        if not any(fnmatchcase(key, pattern) for pattern in ignored)
    }
    tried = {key for change in (BASES[family], *options(family).values()) for key in change}
    assert read <= tried, f"without a value: {', '.join(sorted(read - tried))}"


def test_every_key_of_a_rope_type_has_a_value() -> None:
    """Each type that is read, with each of its keys."""
    tried: dict[str, set[str]] = {kind: set(rope("qwen2", kind)["rope_scaling"]) for kind in ROPE}
    for kind, more in ROPE_KEYS.values():
        tried[kind] |= more.keys()
    assert {kind: {*keys} for kind, keys in file_keys.ROPE.items() if kind != "default"} == {
        kind: keys - {"rope_type"} for kind, keys in tried.items()
    }


@pytest.mark.parametrize(("family", "option"), [*((family, None) for family in BASES), *CASES])
def test_ragged_batch(family: str, option: str | None) -> None:
    """A ragged batch predicts what each row does alone, and what transformers' own forward of that
    row does.
    """
    made = model(family, option)
    prompts = PROMPTS
    if made.block is not None and made.shift:
        # A block's first token is read from the column before it, which is stored by then.
        prompts = [ids if len(ids) % 4 else [*ids, 11] for ids in PROMPTS]
    batch = ours(made, prompts)
    for ids, logits in zip(prompts, batch.logits, strict=True):
        Rows([logits]).equals(ours(made, [ids]))
    if family not in OWN_GRID:
        batch.equals(alone(made, theirs(family, option, made), prompts))


@pytest.mark.parametrize(("family", "option"), CASES)
def test_each_option_has_an_effect(family: str, option: str) -> None:
    """With the option some predictions differ, so the test above can fail."""
    plain, changed = (predictions(family, kind) for kind in (None, option))
    assert plain.shape != changed.shape or not torch.allclose(plain, changed, atol=1e-3)


@cache
def predictions(family: str, option: str | None) -> Tensor:
    """What a batch of the prompts predicts, in one."""
    return torch.cat(ours(model(family, option), PROMPTS).logits)


FULL = (
    "confidence-k2",
    "confidence-k2+b4+prefix",
    "confidence-k2+b4+dual",
    "wino-0.6",
    "spec-8",
    "dapd_direct",
)
IN_BLOCKS = ("confidence-k2", "spec-8", "s2d2")
SAMPLED: Mapping[str, Sequence[str]] = {
    "dream": [sampler for sampler in FULL if sampler != "wino-0.6"],
    "qwen3": FULL,
    "sdar": IN_BLOCKS,
    "fast_dllm_v2": ("fast_dllm_v2-0.9+dual", "s2d2"),
}
DECODED = [
    (family, option, sampler)
    for family, samplers in SAMPLED.items()
    for option in ("window in upper layers", "rope dynamic", "rope longrope")
    for sampler in samplers
    if (family, option) in CASES
]


@pytest.mark.parametrize(("family", "option", "sampler"), DECODED)
def test_decoding(family: str, option: str, sampler: str) -> None:
    """Samplers and caches answer a ragged batch as row by row, with shared forwards, too."""
    made: Any = replace(model(family, option), limit=256)  # dynamic NTK begins where the limit is
    rows = decode(made, PROMPTS, sampler, CANVAS, batch_size=1)
    store = ForwardStore(made)
    for shared in (None, store):
        batch = decode(made, PROMPTS, sampler, CANVAS, batch_size=4, store=shared)
        assert [a.token_ids for a in batch] == [a.token_ids for a in rows]
        for answer, row in zip(batch, rows, strict=True):
            assert answer.confidences == pytest.approx(row.confidences, abs=1e-5)
