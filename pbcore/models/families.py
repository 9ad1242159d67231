"""Families that share a body with transformers' own classes under other names: block diffusion and mixtures of experts.

`marks` tells a checkpoint's family; this module says how each is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from huggingface_hub.errors import StrictDataclassError
from transformers import (
    Glm4MoeConfig,
    Glm4MoeForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    PretrainedConfig,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
)

from pbcore.models.errors import ModelError
from pbcore.printable import printable

# What transformers' own checks of a config's values raise, and what sizes that make no sense lead to.
INVALID = (TypeError, ValueError, ArithmeticError, StrictDataclassError)


@dataclass(slots=True)
class Keys:
    """A config.json read strictly: every key that is missing or has an unusable value is collected, then named."""

    raw: Mapping[str, Any]
    missing: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def need(self, *names: str) -> Any:
        """The first of these keys that is there; 0 where none is, which `missing` then names."""
        value = next((self.raw[name] for name in names if self.raw.get(name) is not None), None)
        if value is None:
            self.missing.append(" or ".join(names))
            return 0
        return value

    def only(self, name: str, *allowed: Any) -> None:
        """A key that, if it is there, must have one of these values."""
        if name in self.raw and self.raw[name] not in allowed:
            self.problems.append(f"{name} {self.raw[name]!r} (known: {', '.join(map(repr, allowed))})")

    def sizes(self) -> dict[str, Any]:
        """What every body has."""
        self.only("hidden_act", "silu")
        self.only("use_sliding_window", False)
        rope = dict(self.raw.get("rope_scaling") or self.raw.get("rope_parameters") or {})
        rope["rope_type"] = rope.pop("type", None) or rope.get("rope_type") or "default"
        if "rope_theta" not in rope:
            rope["rope_theta"] = self.need("rope_theta")
        return {
            "vocab_size": self.need("vocab_size"),
            "hidden_size": self.need("hidden_size"),
            "num_hidden_layers": self.need("num_hidden_layers"),
            "num_attention_heads": self.need("num_attention_heads"),
            "num_key_value_heads": self.raw.get("num_key_value_heads") or self.need("num_attention_heads"),
            "max_position_embeddings": self.need("max_position_embeddings"),
            "rms_norm_eps": self.need("rms_norm_eps"),
            "tie_word_embeddings": bool(self.raw.get("tie_word_embeddings", False)),
            "rope_parameters": rope,
            "pad_token_id": None,
            "bos_token_id": None,
            "eos_token_id": None,
        }

    def head_dim(self) -> int:
        """Width of a head: given, else hidden_size / heads."""
        return int(self.raw.get("head_dim") or self.need("hidden_size") // (self.need("num_attention_heads") or 1))


def _configured(config_class: Any, **values: Any) -> PretrainedConfig:
    """A config whose class takes more than its annotations say; it checks its values itself."""
    config: PretrainedConfig = config_class(**values)
    return config


def _sdar(keys: Keys) -> PretrainedConfig:
    return Qwen3Config(
        **keys.sizes(),
        intermediate_size=keys.need("intermediate_size"),
        head_dim=int(keys.need("head_dim")),
        attention_bias=bool(keys.raw.get("attention_bias", False)),
    )


def _sdar_moe(keys: Keys) -> PretrainedConfig:
    return _configured(
        Qwen3MoeConfig,
        **keys.sizes(),
        intermediate_size=keys.need("intermediate_size"),
        head_dim=int(keys.need("head_dim")),
        attention_bias=bool(keys.raw.get("attention_bias", False)),
        moe_intermediate_size=keys.need("moe_intermediate_size"),
        num_experts=keys.need("num_experts"),
        num_experts_per_tok=keys.need("num_experts_per_tok"),
        norm_topk_prob=bool(keys.need("norm_topk_prob")),
        decoder_sparse_step=keys.raw.get("decoder_sparse_step") or 1,
        mlp_only_layers=list(keys.raw.get("mlp_only_layers") or []),
    )


def _fast_dllm_v2(keys: Keys) -> PretrainedConfig:
    return Qwen2Config(**keys.sizes(), intermediate_size=keys.need("intermediate_size"))


def _stable_diffcoder(keys: Keys) -> PretrainedConfig:
    return LlamaConfig(
        **keys.sizes(),
        intermediate_size=keys.need("intermediate_size"),
        head_dim=keys.head_dim(),
        attention_bias=bool(keys.raw.get("attention_bias", False)),
        mlp_bias=bool(keys.raw.get("mlp_bias", False)),
    )


def _llada_moe(keys: Keys) -> PretrainedConfig:
    """Softmax over all experts; the weights of the chosen ones aren't renormalised, whatever `norm_topk_prob` says."""
    keys.only("moe_router_enable_expert_bias", False, None)
    keys.only("shared_expert_intermediate_size", None, 0)
    keys.only("qk_layernorm", True)
    keys.only("partial_rotary_factor", 1, 1.0, None)
    keys.only("clip_qkv", None)
    sizes = keys.sizes()
    frequency = keys.raw.get("moe_layer_freq") or [1] * int(sizes["num_hidden_layers"])
    if not isinstance(frequency, Sequence) or len(frequency) != sizes["num_hidden_layers"]:
        keys.problems.append(f"moe_layer_freq {frequency!r} (known: one 0 or 1 for each layer)")
        frequency = [1] * int(sizes["num_hidden_layers"])
    dense = [i for i, moe in enumerate(frequency) if not moe]
    return _configured(
        Qwen3MoeConfig,
        **sizes,
        intermediate_size=keys.need("dense_intermediate_size") if dense else 1,
        head_dim=keys.head_dim(),
        attention_bias=bool(keys.raw.get("attention_bias", False)),
        moe_intermediate_size=keys.need("expert_intermediate_size"),
        num_experts=keys.need("num_experts"),
        num_experts_per_tok=keys.need("num_experts_per_tok"),
        norm_topk_prob=False,
        mlp_only_layers=dense,
    )


def _llada2(keys: Keys) -> PretrainedConfig:
    """Sigmoid scores, chosen with a bias among the best groups, weighted without it."""
    for name in ("use_qkv_bias", "use_bias", "norm_head", "using_split_qkv_in_self_attention"):
        keys.only(name, False)
    for name in ("use_qk_norm", "use_rmsnorm"):
        keys.only(name, True)
    keys.only("score_function", "sigmoid")
    keys.only("moe_router_enable_expert_bias", True)
    keys.only("norm_topk_prob", True)
    sizes = keys.sizes()
    factor = keys.raw.get("partial_rotary_factor")
    if factor is None:
        factor = int(keys.need("partial_rotary_factor", "rotary_dim")) / (keys.head_dim() or 1)
    sizes["rope_parameters"]["partial_rotary_factor"] = float(factor)
    experts, groups = int(keys.need("num_experts")), int(keys.need("n_group"))
    if groups and (experts % groups or experts // groups < 2):
        keys.problems.append(f"{experts} experts in {groups} groups (known: groups of equal size, at least 2)")
    if keys.need("topk_group") > groups:
        keys.problems.append(f"topk_group {keys.raw['topk_group']} of {groups} groups")
    per_token = int(keys.need("num_experts_per_tok"))
    return _configured(
        Glm4MoeConfig,
        **sizes,
        intermediate_size=keys.need("intermediate_size"),
        head_dim=keys.head_dim(),
        use_qk_norm=True,
        moe_intermediate_size=keys.need("moe_intermediate_size"),
        n_routed_experts=experts,
        num_experts_per_tok=per_token,
        n_shared_experts=int(keys.need("num_shared_experts")),
        n_group=groups,
        topk_group=keys.need("topk_group"),
        routed_scaling_factor=float(keys.need("routed_scaling_factor")),
        first_k_dense_replace=int(keys.raw.get("first_k_dense_replace") or 0),
        norm_topk_prob=per_token > 1,
        num_mtp_layers=0,
    )


_LLADA2_KEYS = {
    r"model\.word_embeddings\.weight": "model.embed_tokens.weight",
    r"model\.layers\.(\d+)\.attention\.dense\.weight": r"model.layers.\1.self_attn.o_proj.weight",
    r"model\.layers\.(\d+)\.attention\.query_layernorm\.weight": r"model.layers.\1.self_attn.q_norm.weight",
    r"model\.layers\.(\d+)\.attention\.key_layernorm\.weight": r"model.layers.\1.self_attn.k_norm.weight",
    r"model\.layers\.(\d+)\.attention\.query_key_value\.weight": r"model.layers.\1.self_attn.query_key_value.weight",
    r"model\.layers\.(\d+)\.mlp\.gate\.expert_bias": r"model.layers.\1.mlp.gate.e_score_correction_bias",
}


@dataclass(frozen=True, slots=True)
class Family:
    """How to load a family. `mask_id` and `eos_id` are those of its authors' code, where config.json has none."""

    model_class: Any
    config: Callable[[Keys], PretrainedConfig]
    keys: Mapping[str, str] = field(default_factory=dict)
    mask_id: int | None = None
    eos_id: int | None = None
    shift: bool = False


FAMILIES: Mapping[str, Family] = {
    "sdar": Family(Qwen3ForCausalLM, _sdar, mask_id=151669),
    "sdar_moe": Family(Qwen3MoeForCausalLM, _sdar_moe, mask_id=151669),
    "fast_dllm_v2": Family(Qwen2ForCausalLM, _fast_dllm_v2, mask_id=151665, eos_id=151645, shift=True),
    "stable_diffcoder": Family(LlamaForCausalLM, _stable_diffcoder, mask_id=5),
    "llada_moe": Family(Qwen3MoeForCausalLM, _llada_moe, mask_id=156895),
    "llada2": Family(Glm4MoeForCausalLM, _llada2, keys=_LLADA2_KEYS, mask_id=156895, eos_id=156892),
}


def body(name: str, raw: Mapping[str, Any], where: str) -> tuple[PretrainedConfig, tuple[str, ...]]:
    """The body's config and what is wrong with config.json beyond missing keys.

    Raises ModelError that names every missing key together with the rest, since no body can be built without them.
    """
    keys = Keys(raw)
    try:
        config: PretrainedConfig | None = FAMILIES[name].config(keys)
    except INVALID as error:
        config = None
        if not keys.missing:
            keys.problems.append(printable(" ".join(str(error).split()), 300))
    if keys.missing or config is None:
        missing = [f"config.json has no {', '.join(dict.fromkeys(keys.missing))}"] if keys.missing else []
        raise ModelError(f"{where} ({name}): {'; '.join([*missing, *keys.problems])}. Complete config.json")
    return config, tuple(keys.problems)
