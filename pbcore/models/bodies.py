"""Bodies of masked checkpoints: the values of transformers' config that a config.json describes, by family."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from huggingface_hub.errors import StrictDataclassError
from transformers import PretrainedConfig

from pbcore.models.errors import ModelError
from pbcore.printable import printable

# What transformers' own checks of a config's values raise, and what sizes that make no sense lead to.
INVALID = (TypeError, ValueError, ArithmeticError, StrictDataclassError)

# The values with which a LLaDA config describes Llama's architecture.
_LLADA_MUST = dict.fromkeys(
    ("alibi", "attention_layer_norm", "include_bias", "include_qkv_bias", "input_emb_norm", "scale_logits"), False
) | {"block_type": "llama", "activation_type": "silu", "layer_norm_type": "rms", "block_group_size": 1, "rope": True}
_NOT_FOR_CONFIG = {
    *("architectures", "auto_map", "model_type", "torch_dtype", "dtype", "transformers_version"),
    *("use_cache", "is_causal"),
}
_NO_IDS = dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id"))


@dataclass(slots=True)
class Keys:
    """A config.json read strictly: every key that is missing or has an unusable value is collected, then named."""

    raw: Mapping[str, Any]
    where: str
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

    def flag(self, name: str) -> bool:
        """A key that is false where it is missing."""
        return bool(self.raw.get(name, False))

    def sizes(self) -> dict[str, Any]:
        """Values that every body has."""
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
            "tie_word_embeddings": self.flag("tie_word_embeddings"),
            "rope_parameters": rope,
            **_NO_IDS,
        }

    def head_dim(self) -> int:
        """Width of a head: given, else hidden_size / heads."""
        return int(self.raw.get("head_dim") or self.need("hidden_size") // (self.need("num_attention_heads") or 1))


def _experts(keys: Keys, width: str) -> dict[str, Any]:
    """Values that every mixture of experts has; `width` is the key of an expert's width."""
    return {
        "moe_intermediate_size": keys.need(width),
        "num_experts": keys.need("num_experts"),
        "num_experts_per_tok": keys.need("num_experts_per_tok"),
    }


def _sdar(keys: Keys) -> dict[str, Any]:
    return {
        **keys.sizes(),
        "intermediate_size": keys.need("intermediate_size"),
        "head_dim": int(keys.need("head_dim")),
        "attention_bias": keys.flag("attention_bias"),
    }


def _sdar_moe(keys: Keys) -> dict[str, Any]:
    return {
        **_sdar(keys),
        **_experts(keys, "moe_intermediate_size"),
        "norm_topk_prob": bool(keys.need("norm_topk_prob")),
        "decoder_sparse_step": keys.raw.get("decoder_sparse_step") or 1,
        "mlp_only_layers": list(keys.raw.get("mlp_only_layers") or []),
    }


def _fast_dllm_v2(keys: Keys) -> dict[str, Any]:
    return {**keys.sizes(), "intermediate_size": keys.need("intermediate_size")}


def _stable_diffcoder(keys: Keys) -> dict[str, Any]:
    return {
        **keys.sizes(),
        "intermediate_size": keys.need("intermediate_size"),
        "head_dim": keys.head_dim(),
        "attention_bias": keys.flag("attention_bias"),
        "mlp_bias": keys.flag("mlp_bias"),
    }


def _llada_moe(keys: Keys) -> dict[str, Any]:
    """Softmax over all experts; the weights of the chosen ones aren't renormalised, whatever `norm_topk_prob` says."""
    keys.only("moe_router_enable_expert_bias", False, None)
    keys.only("shared_expert_intermediate_size", None, 0)
    keys.only("qk_layernorm", True)
    keys.only("partial_rotary_factor", 1, 1.0, None)
    keys.only("clip_qkv", None)
    sizes = keys.sizes()
    layers = int(sizes["num_hidden_layers"])
    frequency = keys.raw.get("moe_layer_freq") or [1] * layers
    if not isinstance(frequency, Sequence) or len(frequency) != layers:
        keys.problems.append(f"moe_layer_freq {frequency!r} (known: one 0 or 1 for each layer)")
        frequency = [1] * layers
    dense = [i for i, moe in enumerate(frequency) if not moe]
    return {
        **sizes,
        "intermediate_size": keys.need("dense_intermediate_size") if dense else 1,
        "head_dim": keys.head_dim(),
        "attention_bias": keys.flag("attention_bias"),
        **_experts(keys, "expert_intermediate_size"),
        "norm_topk_prob": False,
        "mlp_only_layers": dense,
    }


def _llada2(keys: Keys) -> dict[str, Any]:
    """Sigmoid scores, chosen with a bias among the best groups, weighted without it."""
    for name in ("use_qkv_bias", "use_bias", "norm_head", "using_split_qkv_in_self_attention"):
        keys.only(name, False)
    for name in ("use_qk_norm", "use_rmsnorm", "moe_router_enable_expert_bias", "norm_topk_prob"):
        keys.only(name, True)
    keys.only("score_function", "sigmoid")
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
    return {
        **sizes,
        "intermediate_size": keys.need("intermediate_size"),
        "head_dim": keys.head_dim(),
        "use_qk_norm": True,
        **_experts(keys, "moe_intermediate_size"),
        "n_routed_experts": experts,
        "n_shared_experts": int(keys.need("num_shared_experts")),
        "n_group": groups,
        "topk_group": keys.need("topk_group"),
        "routed_scaling_factor": float(keys.need("routed_scaling_factor")),
        "first_k_dense_replace": int(keys.raw.get("first_k_dense_replace") or 0),
        "norm_topk_prob": int(keys.need("num_experts_per_tok")) > 1,
        "num_mtp_layers": 0,
    }


def _llada(keys: Keys) -> dict[str, Any]:
    raw = keys.raw
    wrong = {key: raw[key] for key, value in _LLADA_MUST.items() if key in raw and raw[key] != value}
    if wrong:
        expected = {key: _LLADA_MUST[key] for key in wrong}
        raise ModelError(
            f"{keys.where}: this LLaDA variant has {wrong}, but Llama needs {expected}; use trust_remote_code"
        )
    heads, width = keys.need("n_heads"), keys.need("d_model")
    return {
        "vocab_size": keys.need("embedding_size", "vocab_size"),
        "hidden_size": width,
        "intermediate_size": raw.get("mlp_hidden_size") or keys.need("mlp_ratio", "mlp_hidden_size") * width,
        "num_hidden_layers": keys.need("n_layers"),
        "num_attention_heads": heads,
        "num_key_value_heads": raw.get("n_kv_heads") or (1 if raw.get("multi_query_attention") else heads),
        "max_position_embeddings": keys.need("max_sequence_length"),
        "rms_norm_eps": raw.get("rms_norm_eps", 1e-5),
        "rope_parameters": {"rope_type": "default", "rope_theta": raw.get("rope_theta", 10000.0)},
        "tie_word_embeddings": keys.flag("weight_tying"),
        **_NO_IDS,
        "eos_token_id": raw.get("eos_token_id"),
    }


def _plain(keys: Keys) -> dict[str, Any]:
    """config.json as it is: it has transformers' own names."""
    kept = {key: value for key, value in keys.raw.items() if key not in _NOT_FOR_CONFIG}
    return {key: value for key, value in kept.items() if key != "rope_scaling" or value is not None}


_VALUES: Mapping[str, Callable[[Keys], dict[str, Any]]] = {
    "llada": _llada,
    "sdar": _sdar,
    "sdar_moe": _sdar_moe,
    "fast_dllm_v2": _fast_dllm_v2,
    "stable_diffcoder": _stable_diffcoder,
    "llada_moe": _llada_moe,
    "llada2": _llada2,
}


def body(name: str, config_class: Any, raw: Mapping[str, Any], where: str) -> tuple[PretrainedConfig, tuple[str, ...]]:
    """The body's config and what is wrong with config.json beyond missing keys.

    Raises ModelError that names every missing key together with the rest, since no body can be built without them.
    """
    keys = Keys(raw, where)
    problem: list[str] = []
    config: PretrainedConfig | None = None
    try:
        config = config_class(**_VALUES.get(name, _plain)(keys))
    except INVALID as error:
        problem = [printable(" ".join(str(error).split()), 300)]
    if keys.missing:
        problem = [f"config.json has no {', '.join(dict.fromkeys(keys.missing))}"]
    if problem or config is None:
        raise ModelError(f"{where} ({name}): {'; '.join([*problem, *keys.problems])}. Complete config.json")
    return config, tuple(keys.problems)
