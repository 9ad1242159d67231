"""Maps a published checkpoint's config.json to one of transformers' own architectures."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PretrainedConfig,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from pbcore.models.errors import ModelError
from pbcore.models.families import FAMILIES, INVALID, body
from pbcore.models.family_detection import MARKS, recognised
from pbcore.printable import printable

# LLaDA's names → Llama's, as regular expressions over whole keys.
LLADA_KEYS = {
    r"(?:model\.)?transformer\.wte\.weight": "model.embed_tokens.weight",
    r"(?:model\.)?transformer\.ln_f\.weight": "model.norm.weight",
    r"(?:model\.)?transformer\.ff_out\.weight": "lm_head.weight",
    **{
        rf"(?:model\.)?transformer\.blocks\.(\d+)\.{theirs}\.weight": rf"model.layers.\1.{ours}.weight"
        for theirs, ours in {
            "attn_norm": "input_layernorm",
            "ff_norm": "post_attention_layernorm",
            "q_proj": "self_attn.q_proj",
            "k_proj": "self_attn.k_proj",
            "v_proj": "self_attn.v_proj",
            "attn_out": "self_attn.o_proj",
            "ff_proj": "mlp.gate_proj",
            "up_proj": "mlp.up_proj",
            "ff_out": "mlp.down_proj",
        }.items()
    },
}

# The values with which a LLaDA config describes Llama's architecture.
_LLADA_MUST = {
    "block_type": "llama",
    "activation_type": "silu",
    "layer_norm_type": "rms",
    "block_group_size": 1,
    "rope": True,
    "alibi": False,
    "attention_layer_norm": False,
    "include_bias": False,
    "include_qkv_bias": False,
    "input_emb_norm": False,
    "scale_logits": False,
}
_NOT_FOR_CONFIG = {
    "architectures",
    "auto_map",
    "model_type",
    "torch_dtype",
    "dtype",
    "transformers_version",
    "use_cache",
    "is_causal",
}
_PLAIN: Mapping[str, tuple[Any, Any]] = {
    "dream": (Qwen2Config, Qwen2ForCausalLM),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM),
    "llama": (LlamaConfig, LlamaForCausalLM),
}


@dataclass(frozen=True, slots=True)
class Architecture:
    """How to build and fill a checkpoint: transformers' class and config, the key map, and the ids that config.json
    names. `blocks` says whether attention is block-causal, `block` its block length if known; `problems` what is wrong
    with config.json, to be named together with what is wrong with the weights.
    """

    kind: str  # llada, dream, llama, qwen2, qwen3, or a name of FAMILIES
    model_class: Any
    config: PretrainedConfig
    keys: Mapping[str, str]
    mask_id: int | None
    eos_id: int | None
    shift: bool
    blocks: bool = False
    block: int | None = None
    problems: tuple[str, ...] = ()

    def rename(self, key: str) -> str:
        """A checkpoint's key as transformers calls it; keys without a rule stay."""
        for pattern, replacement in self.keys.items():
            if re.fullmatch(pattern, key):
                return re.sub(pattern, replacement, key)
        return key


def architecture(raw: Mapping[str, Any], where: str, layers: int | None = None) -> Architecture:
    """The architecture that a config.json (`raw`, read from `where`) describes; `layers` overrides the number of
    layers.

    LLaDA becomes Llama and Dream becomes Qwen2, both with `is_causal = False`, which gives full attention in every
    implementation. Families with names of their own are in `families`. Raises ModelError for other architectures, for
    LLaDA options that Llama lacks, and for keys that are missing or have values that no model can be built with.
    """
    try:
        return _architecture(raw, where, layers)
    except INVALID as error:
        said = " ".join(str(error).split())
        raise ModelError(
            f"{where}: config.json can't be used ({printable(said, 300)}); mend the named value"
        ) from error


def _architecture(raw: Mapping[str, Any], where: str, layers: int | None) -> Architecture:
    kind = str(raw.get("model_type", "")).lower()
    family = recognised(raw)
    if family is not None:
        return _of_family(family, raw, where, layers)
    if kind == "llada":
        model_class: Any = LlamaForCausalLM
        config, keys = _llada_config(raw, where), LLADA_KEYS
    elif kind in _PLAIN:
        config_class, model_class = _PLAIN[kind]
        kept = {
            key: value
            for key, value in raw.items()
            if key not in _NOT_FOR_CONFIG and not (key == "rope_scaling" and value is None)
        }
        config, keys = config_class(**kept), {}
    else:
        raise ModelError(
            f"{where}: model_type {raw.get('model_type')!r} can't be loaded natively; llada, Dream, "
            f"{', '.join(FAMILIES)}, and llama, qwen2 or qwen3 with full attention can. With trust_remote_code the "
            "checkpoint's own code runs instead"
        )
    _shorten(config, layers)
    return Architecture(
        kind,
        model_class,
        config,
        keys,
        mask_id=raw.get("mask_token_id"),
        eos_id=_first(raw.get("eos_token_id", raw.get("pad_token_id"))),
        shift=bool(raw.get("shift_logits", kind == "dream")),
    )


def _of_family(name: str, raw: Mapping[str, Any], where: str, layers: int | None) -> Architecture:
    """The architecture of a family of `families`; ids that config.json lacks are those of its authors' code."""
    family = FAMILIES[name]
    config, problems = body(name, raw, where)
    _shorten(config, layers)
    size: int = config.vocab_size
    known = {"mask_id": family.mask_id, "eos_id": family.eos_id}
    known = {key: value if value is not None and value < size else None for key, value in known.items()}
    mask_id = raw.get("mask_token_id")
    eos_id = _first(raw.get("eos_token_id", raw.get("pad_token_id")))
    return Architecture(
        name,
        family.model_class,
        config,
        family.keys,
        mask_id=known["mask_id"] if mask_id is None else mask_id,
        eos_id=known["eos_id"] if eos_id is None else eos_id,
        shift=family.shift,
        blocks=MARKS[name].blocks,
        block=MARKS[name].block_of(raw),
        problems=problems,
    )


def _shorten(config: PretrainedConfig, layers: int | None) -> None:
    """Sets the number of layers, if given, and full attention within whatever mask a forward gets."""
    if layers is not None:
        config.num_hidden_layers = layers
        if getattr(config, "layer_types", None):
            config.layer_types = config.layer_types[:layers]
    config.is_causal = False
    config.use_cache = False


def _llada_config(raw: Mapping[str, Any], where: str) -> PretrainedConfig:
    wrong = {key: raw[key] for key, value in _LLADA_MUST.items() if key in raw and raw[key] != value}
    if wrong:
        expected = {key: _LLADA_MUST[key] for key in wrong}
        raise ModelError(f"{where}: this LLaDA variant has {wrong}, but Llama needs {expected}; use trust_remote_code")
    needed = (
        *(("d_model",), ("n_heads",), ("n_layers",), ("max_sequence_length",)),
        *(("embedding_size", "vocab_size"), ("mlp_hidden_size", "mlp_ratio")),
    )
    missing = [" or ".join(names) for names in needed if not any(raw.get(name) for name in names)]
    if missing:
        raise ModelError(f"{where} (llada): config.json has no {', '.join(missing)}. Complete config.json")
    width = raw["d_model"]
    kv_heads = raw.get("n_kv_heads") or (1 if raw.get("multi_query_attention") else raw["n_heads"])
    return LlamaConfig(
        vocab_size=raw.get("embedding_size") or raw["vocab_size"],
        hidden_size=width,
        intermediate_size=raw.get("mlp_hidden_size") or raw["mlp_ratio"] * width,
        num_hidden_layers=raw["n_layers"],
        num_attention_heads=raw["n_heads"],
        num_key_value_heads=kv_heads,
        max_position_embeddings=raw["max_sequence_length"],
        rms_norm_eps=raw.get("rms_norm_eps", 1e-5),
        rope_parameters={"rope_type": "default", "rope_theta": raw.get("rope_theta", 10000.0)},
        tie_word_embeddings=bool(raw.get("weight_tying", False)),
        pad_token_id=None,
        bos_token_id=None,
        eos_token_id=raw.get("eos_token_id"),
    )


def _first(value: Any) -> int | None:
    """An id, or the first of several."""
    first = value[0] if isinstance(value, list) else value
    return None if first is None else int(first)
