"""How each family is published: the layout of config.json, the special tokens and their ids.

The sizes are those of a small checkpoint. Doesn't import torch.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

SMALL = 320  # tokens of a small vocabulary
LENGTH = 256  # positions
_IDS = {"mask_token_id": "mask", "eos_token_id": "eos", "pad_token_id": "eos"}  # of config.json
BLOCK = 8  # tokens of a block, unless a family has shorter ones


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedFamily:
    """A family as its checkpoints look.

    `kind` is its row of `models.families`. `config` is config.json without sizes of the vocabulary
    and token ids; `vocabulary` are the keys that hold its size. `specials` are texts and ids of
    special tokens in the published vocabulary of `size`: `mask`, `eos` (which also pads), and
    others that end an answer. With `keep_ids` the small checkpoint has the same ids; without
    `names_mask` config.json has no mask id, and the tokenizer alone tells it. `names` are those of
    its tensors that are not transformers': of layers, and of what lies in each; `keys` are those
    of config.json. `block` is the block length of the small checkpoint if the attention is
    block-causal. `caches`: whether caches of prefix and suffix are usual; `entropy`: whether
    entropy ranks places in the published loop.
    """

    kind: str
    config: Mapping[str, Any]
    size: int
    mask: tuple[str, int]
    eos: tuple[str, int]
    others: tuple[tuple[str, int], ...] = ()
    vocabulary: tuple[str, ...] = ("vocab_size",)
    keep_ids: bool = False
    names_mask: bool = True
    names: Mapping[str, str] = field(default_factory=dict)
    keys: Mapping[str, str] = field(default_factory=dict)
    block: int | None = None
    caches: bool = True
    entropy: bool = False

    @property
    def specials(self) -> tuple[tuple[str, int], ...]:
        """All special tokens, the mask first, then the EOS."""
        return (self.mask, self.eos, *self.others)

    def ids(self, published: bool) -> dict[str, int]:
        """The ids of the special tokens by their texts: the published ones, or those of a small
        vocabulary.
        """
        if published or self.keep_ids:
            return dict(self.specials)
        count = len(self.specials)
        return {text: SMALL - count + place for place, (text, _) in enumerate(self.specials)}

    def published_name(self, name: str) -> str:
        """The published name of a tensor, or of a module, that transformers calls `name`."""
        stem, dot, kind = name.rpartition(".")
        if kind not in ("weight", "bias"):
            stem, dot, kind = name, "", ""
        inside = re.fullmatch(r"(model\.layers)\.(\d+)\.(.+)", stem)
        if inside is None:
            return self.names.get(stem, stem) + dot + kind
        layers, number, part = inside.groups()
        return f"{self.names.get(layers, layers)}.{number}.{self.names.get(part, part)}{dot}{kind}"

    def tokens(self, published: bool) -> int:
        """The size of the vocabulary."""
        return self.size if published else SMALL


_SIZES: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": LENGTH,
    "hidden_act": "silu",
    "initializer_range": 0.02,
    "attention_dropout": 0.0,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
_LLADA = {
    "activation_type": "silu",
    "alibi": False,
    "alibi_bias_max": 8.0,
    "architectures": ["LLaDAModelLM"],
    "attention_dropout": 0.0,
    "attention_layer_norm": False,
    "attention_layer_norm_with_affine": True,
    "auto_map": {
        "AutoConfig": "configuration_llada.LLaDAConfig",
        "AutoModel": "modeling_llada.LLaDAModelLM",
        "AutoModelForCausalLM": "modeling_llada.LLaDAModelLM",
    },
    "bias_for_layer_norm": False,
    "block_group_size": 1,
    "block_type": "llama",
    "d_model": 64,
    "embedding_dropout": 0.0,
    "flash_attention": False,
    "include_bias": False,
    "include_qkv_bias": False,
    "init_device": "meta",
    "init_fn": "mitchell",
    "init_std": 0.02,
    "input_emb_norm": False,
    "layer_norm_type": "rms",
    "layer_norm_with_affine": True,
    "max_sequence_length": LENGTH,
    "mlp_hidden_size": 96,
    "mlp_ratio": 4,
    "model_type": "llada",
    "multi_query_attention": None,
    "n_heads": 4,
    "n_kv_heads": 4,
    "n_layers": 2,
    "precision": "amp_bf16",
    "residual_dropout": 0.0,
    "rms_norm_eps": 1e-05,
    "rope": True,
    "rope_full_precision": True,
    "rope_theta": 500000.0,
    "scale_logits": False,
    "transformers_version": "4.46.3",
    "use_cache": False,
    "weight_tying": False,
}
_LLADA_MOE = {
    **{key: value for key, value in _SIZES.items() if key != "intermediate_size"},
    "architectures": ["LLaDAMoEModelLM"],
    "attention_bias": False,
    "auto_map": {
        "AutoConfig": "configuration_lladamoe.LLaDAConfig",
        "AutoModel": "modeling_lladamoe.LLaDAMoEModelLM",
        "AutoModelForCausalLM": "modeling_lladamoe.LLaDAMoEModelLM",
    },
    "clip_qkv": None,
    "dense_intermediate_size": 96,
    "expert_intermediate_size": 16,
    "model_type": "llada",
    "moe_layer_freq": [1, 1],
    "moe_router_enable_expert_bias": False,
    "moe_router_score_function": "softmax",
    "norm_topk_prob": None,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "num_key_value_heads": 4,
    "output_router_logits": False,
    "partial_rotary_factor": 1,
    "qk_layernorm": True,
    "rms_norm_eps": 1e-05,
    "rope_scaling": None,
    "rope_theta": 50000,
    "routed_scaling_factor": 1,
    "router_aux_loss_coef": 0.01,
    "router_num_group": None,
    "router_topk_group": None,
    "shared_expert_intermediate_size": None,
    "transformers_version": "4.53.2",
    "use_cache": False,
}
_LLADA2 = {
    **_SIZES,
    "architectures": ["LLaDA2MoeModelLM"],
    "auto_map": {
        "AutoConfig": "configuration_llada2_moe.LLaDA2MoeConfig",
        "AutoModel": "modeling_llada2_moe.LLaDA2MoeModel",
        "AutoModelForCausalLM": "modeling_llada2_moe.LLaDA2MoeModelLM",
    },
    "embedding_dropout": 0.0,
    "first_k_dense_replace": 1,
    "head_dim": 16,
    "max_window_layers": 2,
    "model_type": "llada2_moe",
    "moe_intermediate_size": 16,
    "moe_router_enable_expert_bias": True,
    "n_group": 4,
    "norm_head": False,
    "norm_topk_prob": True,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "num_shared_experts": 1,
    "output_dropout": 0.0,
    "output_router_logits": False,
    "partial_rotary_factor": 0.5,
    "rms_norm_eps": 1e-06,
    "rope_scaling": None,
    "rope_theta": 600000,
    "rotary_dim": 8,
    "routed_scaling_factor": 2.5,
    "router_dtype": "fp32",
    "score_function": "sigmoid",
    "sliding_window": 4096,
    "topk_group": 2,
    "transformers_version": "4.57.1",
    "use_bias": False,
    "use_cache": True,
    "use_qk_norm": True,
    "use_qkv_bias": False,
    "use_rmsnorm": True,
    "use_sliding_window": False,
    "using_split_qkv_in_self_attention": False,
}
_DREAM = {
    **_SIZES,
    "architectures": ["DreamModel"],
    "auto_map": {
        "AutoConfig": "configuration_dream.DreamConfig",
        "AutoModel": "modeling_dream.DreamModel",
    },
    "max_window_layers": 2,
    "model_type": "Dream",
    "rms_norm_eps": 1e-06,
    "rope_scaling": None,
    "rope_theta": 1000000.0,
    "sliding_window": None,
    "transformers_version": "4.46.2",
    "use_cache": False,
    "use_sliding_window": False,
}
_SDAR = {
    **_SIZES,
    "architectures": ["SDARForCausalLM"],
    "attention_bias": False,
    "attn_implementation": "flex_attention",
    "auto_map": {
        "AutoConfig": "configuration_sdar.SDARConfig",
        "AutoModel": "modeling_sdar.SDARModel",
        "AutoModelForCausalLM": "modeling_sdar.SDARForCausalLM",
    },
    "block_size": 4,
    "debug": False,
    "ep_size": 1,
    "fuse_cross_entropy": True,
    "head_dim": 32,
    "max_window_layers": 2,
    "micro_forward": False,
    "model_type": "sdar",
    "rms_norm_eps": 1e-06,
    "rope_scaling": None,
    "rope_theta": 1000000,
    "skip_checkpoint": False,
    "sliding_window": None,
    "transformers_version": "4.52.4",
    "use_cache": True,
    "use_deepep": False,
    "use_sliding_window": False,
}
_FAST_DLLM_V2 = {
    **_SIZES,
    "architectures": ["Fast_dLLM_QwenForCausalLM"],
    "auto_map": {
        "AutoConfig": "configuration.Fast_dLLM_QwenConfig",
        "AutoModel": "modeling.Fast_dLLM_QwenModel",
        "AutoModelForCausalLM": "modeling.Fast_dLLM_QwenForCausalLM",
    },
    "bd_size": 8,
    "layer_types": ["full_attention", "full_attention"],
    "max_window_layers": 2,
    "model_type": "Fast_dLLM_Qwen",
    "rms_norm_eps": 1e-06,
    "rope_scaling": None,
    "rope_theta": 1000000.0,
    "sliding_window": None,
    "tie_word_embeddings": True,
    "transformers_version": "4.53.1",
    "use_cache": True,
    "use_sliding_window": False,
}
_STABLE_DIFFCODER = {
    **_SIZES,
    "architectures": ["StableDiffcoderForCausalLM"],
    "attention_bias": False,
    "auto_map": {"AutoModelForCausalLM": "modeling_stable_diffcoder.StableDiffcoderForCausalLM"},
    "head_dim": 16,
    "mlp_bias": False,
    "model_type": "llama",
    "pretraining_tp": 1,
    "rms_norm_eps": 1e-06,
    "rope_scaling": None,
    "rope_theta": 500000.0,
    "transformers_version": "4.51.3",
    "use_cache": True,
}
_A2D = {
    **_SIZES,
    "architectures": ["A2DQwen3LMHeadModel"],
    "attention_bias": False,
    "auto_map": {
        "AutoConfig": "modeling_qwen3.A2DQwen3Config",
        "AutoModel": "modeling_qwen3.A2DQwen3Model",
        "AutoModelForMaskedLM": "modeling_qwen3.A2DQwen3LMHeadModel",
    },
    "head_dim": 32,
    "layer_types": ["full_attention", "full_attention"],
    "max_window_layers": 2,
    "model_type": "a2d-qwen3",
    "rms_norm_eps": 1e-06,
    "rope_scaling": None,
    "rope_theta": 1000000,
    "sliding_window": None,
    "tie_word_embeddings": True,
    "transformers_version": "4.57.1",
    "use_cache": True,
    "use_sliding_window": False,
}
_NEMOTRON = {
    **_SIZES,
    "architectures": ["NemotronLabsDiffusionModel"],
    "attention_bias": False,
    "auto_map": {
        "AutoConfig": "configuration_nemotron_labs_diffusion.NemotronLabsDiffusionConfig",
        "AutoModel": "modeling_nemotron_labs_diffusion.NemotronLabsDiffusionModel",
    },
    "block_size": 8,
    "dlm_paradigm": "bidirectional",
    "head_dim": 32,
    "mlp_bias": False,
    "model_type": "nemotron_labs_diffusion",
    "rms_norm_eps": 1e-05,
    "rope_parameters": {
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "factor": 16.0,
        "llama_4_scaling_beta": 0.1,
        "mscale": 1.0,
        "mscale_all_dim": 1.0,
        "original_max_position_embeddings": 16,
        "rope_theta": 1000000.0,
        "rope_type": "yarn",
    },
    "sliding_window": None,
    "transformers_version": "5.0.0",
    "use_cache": False,
}
_LLADA_KEYS = {
    "hidden_size": "d_model",
    "intermediate_size": "mlp_hidden_size",
    "num_hidden_layers": "n_layers",
    "num_attention_heads": "n_heads",
    "num_key_value_heads": "n_kv_heads",
    "max_position_embeddings": "max_sequence_length",
}
_LLADA_NAMES = {
    "model.embed_tokens": "model.transformer.wte",
    "model.layers": "model.transformer.blocks",
    "model.norm": "model.transformer.ln_f",
    "lm_head": "model.transformer.ff_out",
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "q_proj",
    "self_attn.k_proj": "k_proj",
    "self_attn.v_proj": "v_proj",
    "self_attn.o_proj": "attn_out",
    "post_attention_layernorm": "ff_norm",
    "mlp.gate_proj": "ff_proj",
    "mlp.up_proj": "up_proj",
    "mlp.down_proj": "ff_out",
}
_LLADA2_NAMES = {
    "model.embed_tokens": "model.word_embeddings",
    "self_attn.qkv_proj": "attention.query_key_value",
    "self_attn.o_proj": "attention.dense",
    "self_attn.q_norm": "attention.query_layernorm",
    "self_attn.k_norm": "attention.key_layernorm",
    "mlp.gate.e_score_correction_bias": "mlp.gate.expert_bias",
}
_NEMOTRON_NAMES = {
    "model.embed_tokens": "encoder.embed_tokens",
    "model.layers": "encoder.layers",
    "model.norm": "encoder.norm",
    "lm_head": "diffusion_head",
}
_QWEN_END = ("<|endoftext|>", 151643)
_A2D_FAMILY = PublishedFamily(
    kind="a2d-qwen3",
    config=_A2D,
    size=151936,
    mask=("<|MASK|>", 151669),
    eos=("<|im_end|>", 151645),
    names_mask=False,
)
PUBLISHED: Mapping[str, PublishedFamily] = {
    "llada": PublishedFamily(
        kind="llada",
        config=_LLADA,
        size=126464,
        mask=("<|mdm_mask|>", 126336),
        eos=("<|endoftext|>", 126081),
        others=(("<|eot_id|>", 126348),),
        vocabulary=("vocab_size", "embedding_size"),
        names=_LLADA_NAMES,
        keys=_LLADA_KEYS,
    ),
    "llada_moe": PublishedFamily(
        kind="llada_moe",
        config=_LLADA_MOE,
        size=157184,
        mask=("<|mask|>", 156895),
        eos=("<|endoftext|>", 156892),
        keys={
            "intermediate_size": "dense_intermediate_size",
            "moe_intermediate_size": "expert_intermediate_size",
        },
        caches=False,
    ),
    "llada2": PublishedFamily(
        kind="llada2",
        config=_LLADA2,
        size=157184,
        mask=("<|mask|>", 156895),
        eos=("<|endoftext|>", 156892),
        names=_LLADA2_NAMES,
        block=BLOCK,
    ),
    "dream": PublishedFamily(
        kind="dream",
        config=_DREAM,
        size=152064,
        mask=("<|mask|>", 151666),
        eos=_QWEN_END,
        entropy=True,
    ),
    "sdar": PublishedFamily(
        kind="sdar",
        config=_SDAR,
        size=151936,
        mask=("<|MASK|>", 151669),
        eos=_QWEN_END,
        block=4,
    ),
    "fast_dllm_v2": PublishedFamily(
        kind="fast_dllm_v2",
        config=_FAST_DLLM_V2,
        size=151936,
        mask=("|<MASK>|", 151665),
        eos=("<|im_end|>", 151645),
        block=BLOCK,
    ),
    "stable_diffcoder": PublishedFamily(
        kind="stable_diffcoder",
        config=_STABLE_DIFFCODER,
        size=155136,
        mask=("<[MASK]>", 5),
        eos=("<[end▁of▁sentence]>", 2),
        keep_ids=True,
        block=4,
    ),
    "a2d": _A2D_FAMILY,  # MDLM
    "a2d_bd3lm": replace(_A2D_FAMILY, block=BLOCK),
    "nemotron": PublishedFamily(
        kind="nemotron",
        config=_NEMOTRON,
        size=131072,
        mask=("<SPECIAL_100>", 100),
        eos=("</s>", 2),
        keep_ids=True,
        names=_NEMOTRON_NAMES,
        block=BLOCK,
    ),
}


def config_of(family: str, published_ids: bool = False) -> dict[str, Any]:
    """The config.json of a family's small checkpoint.

    Args:
        family: a key of PUBLISHED.
        published_ids: whether the vocabulary has its published size and ids.
    """
    of = PUBLISHED[family]
    ids = of.ids(published_ids)
    special = {"mask": ids[of.mask[0]], "eos": ids[of.eos[0]]}
    config = dict(of.config)
    config |= dict.fromkeys(of.vocabulary, of.tokens(published_ids))
    if published_ids:
        narrow = {of.keys.get("hidden_size", "hidden_size"): 16, "head_dim": 4, "rotary_dim": 2}
        config |= {key: value for key, value in narrow.items() if key in config}
    config |= {key: special[which] for key, which in _IDS.items()}
    if not of.names_mask:
        del config["mask_token_id"]
    return config
