"""What the keys of a checkpoint's files mean here: lists of those that are read, that change no
answer, and that would change the network. One function judges a file by its lists. What a family
adds stands in its row of `families`. Doesn't import torch.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from pbcore.base.printable import printable, shown

# Read of every config.json, whatever the family.
READ = (
    "architectures",
    "auto_map",
    "model_type",
    "quantization_config",
    "mask_token_id",
    "eos_token_id",
    "pad_token_id",
    "is_causal",
    "shift_logits",
)
# Keys of a config.json that change no answer here, as patterns.
IGNORED: Mapping[str, tuple[str, ...]] = {
    "how and by what it was written": (
        "_*",
        "dtype",
        "torch_dtype",
        "transformers_version",
        "transformers.js_config",
        "tokenizer_class",
        "unsloth_*",
        "precision",
    ),
    "training": (
        "*dropout*",
        "init_*",
        "initializer_*",
        "*aux_loss*",
        "*z_loss*",
        "gradient_checkpointing",
        "use_liger_kernel",
        "tf_legacy_loss",
        "problem_type",
        "finetuning_task",
        "task_specific_params",
        "id2label",
        "label2id",
        "num_labels",
    ),
    "how it computes": (
        "use_cache",
        "attn_implementation",
        "flash_attention",
        "pretraining_tp",
        "chunk_size_feed_forward",
        "torchscript",
        "use_bfloat16",
    ),
    "what it returns": (
        "output_attentions",
        "output_hidden_states",
        "output_router_logits",
        "output_scores",
        "return_dict",
        "return_dict_in_generate",
    ),
    "another generation's settings": (
        "max_length",
        "max_new_tokens",
        "min_length",
        "do_sample",
        "early_stopping",
        "num_beams",
        "num_beam_groups",
        "num_return_sequences",
        "temperature",
        "top_k",
        "top_p",
        "typical_p",
        "diversity_penalty",
        "repetition_penalty",
        "length_penalty",
        "exponential_decay_length_penalty",
        "no_repeat_ngram_size",
        "encoder_no_repeat_ngram_size",
        "bad_words_ids",
        "suppress_tokens",
        "begin_suppress_tokens",
        "forced_bos_token_id",
        "forced_eos_token_id",
        "remove_invalid_values",
        "prefix",
    ),
    "tokens that the tokenizer writes": (
        "bos_token_id",
        "sep_token_id",
        "unk_token_id",
        "cls_token_id",
        "decoder_start_token_id",
    ),
    "encoders beside a decoder": (
        "is_decoder",
        "is_encoder_decoder",
        "add_cross_attention",
        "cross_attention_hidden_size",
        "tie_encoder_decoder",
    ),
    "what the tensors' names and shapes show, which are compared": ("attention_bias", "mlp_bias"),
}
# Any other key like these can change the network.
CHANGES = (
    "*rope*",
    "rotary*",
    "*rotary*",
    "*scal*",
    "sliding*",
    "*sliding*",
    "*window*",
    "layer_types",
    "*expert*",
    "moe_*",
    "router_*",
    "block*",
    "*_block*",
    "bd_size",
    "canvas*",
    "*_token_id",
    "*_token_ids",
    "delete_*",
    "split_*",
    "insert_*",
    "alibi*",
    "clip*",
    "*softcap*",
    "*multiplier*",
    "*_config",
    "pruned_heads",
    "is_*causal*",
    "*conditioning*",
)
# What keys of other models mean, which no family that lacks them can stand for.
MEANINGS: Mapping[str, str] = {
    "expert_capacity": "experts are chosen by block, as in LLaDA2.2",
    "delete_token_id": "tokens edit the canvas, as in LLaDA2.2",
    "split_token_id": "tokens edit the canvas, as in LLaDA2.2",
    "insert_token_id": "tokens edit the canvas",
    "canvas_length": "it writes whole canvases, as DiffusionGemma does",
    "self_conditioning": "it reads its own last prediction, as DiffusionGemma does",
    "text_config": "a text model within another one",
    "vision_config": "a text model within another one",
    "audio_config": "a text model within another one",
}
# What else is said of a key that is refused by its pattern.
HINTS: Mapping[str, str] = {
    "block_size": "attention in blocks",
    "bd_size": "attention in blocks",
    "sliding_window": "a place sees only its neighbours",
    "layer_types": "layers of several kinds",
}
_SCALED = ("factor", "original_max_position_embeddings", "attention_factor")
# Kind of rotary positions → its keys in rope_parameters (rope_scaling of older files).
ROPE: Mapping[str, tuple[str, ...]] = {
    "default": (),
    "linear": ("factor",),
    "dynamic": ("factor", "original_max_position_embeddings"),
    "yarn": (*_SCALED, "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate"),
    "longrope": (*_SCALED, "short_factor", "long_factor"),
    "llama3": (
        "factor",
        "original_max_position_embeddings",
        "low_freq_factor",
        "high_freq_factor",
    ),
}
_ROPE_ALWAYS = ("rope_type", "type", "rope_theta")


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """What the keys of a file mean. `reads`: they are honoured; `only`: they are read, and known
    with these values alone; `ignores` (patterns): they change no answer; `changes` (patterns): any
    other key like these could. `meanings` says what a key of another model means. Of a file that is
    known from excerpts (`in_part`), keys like `changes` may change nothing.
    """

    reads: frozenset[str] = frozenset()
    only: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    ignores: tuple[str, ...] = ()
    changes: tuple[str, ...] = ("*",)
    meanings: Mapping[str, str] = field(default_factory=dict)
    in_part: bool = False


# adapter_config.json: any other key that is neither null, false nor empty makes it another kind.
ADAPTER = Keys(
    reads=frozenset(
        ("r", "lora_alpha", "rank_pattern", "alpha_pattern", "use_rslora", "init_lora_weights")
    ),
    only={
        "peft_type": ("LORA",),
        "bias": ("none", None),
        **dict.fromkeys(("use_dora", "fan_in_fan_out", "lora_bias"), (False, None)),
    },
    ignores=(
        # What the tensors' names and shapes show.
        "target_modules",
        "exclude_modules",
        "layers_to_transform",
        "layers_pattern",
        "ensure_weight_tying",
        # Training, and initialisations that `init_lora_weights` names.
        "*dropout*",
        "inference_mode",
        "task_type",
        "runtime_config",
        "eva_config",
        "loftq_config",
        "corda_config",
        "lora_ga_config",
        # Who wrote it for what.
        "auto_mapping",
        "base_model_name_or_path",
        "peft_version",
        "revision",
        # Defaults of switches that are refused themselves.
        "megatron_core",
        "qalora_group_size",
    ),
    meanings={
        "alora_invocation_tokens": "aLoRA: it acts from these tokens on",
        "layer_replication": "layers are used several times",
        "use_qalora": "QA-LoRA: its input is pooled",
        "use_bdlora": "BD-LoRA: its matrices are blocks",
        "arrow_config": "Arrow: it chooses among several adapters",
        "kasa_config": "KaSA: a part of the weights is taken away first",
        "modules_to_save": "whole modules are replaced",
        "trainable_token_indices": "embeddings of single tokens are replaced",
        "target_parameters": "parameters without a module, such as stacked experts",
    },
)
# quantization_config, beside what transformers' class of its method takes.
QUANTIZATION = Keys(
    reads=frozenset(("quant_method",)),
    ignores=("_*", "version", "fmt", "model_file_base_name", "model_name_or_path", "meta"),
    changes=(),
)
# model.safetensors.index.json
INDEX = Keys(reads=frozenset(("weight_map",)), ignores=("metadata",), changes=())


@dataclass(frozen=True, slots=True)
class JudgedKeys:
    """What is to say of a file's keys, each with its value: those of a known key with an unknown
    value, those that are refused, and those that are named because nobody knows them.
    """

    problems: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    named: tuple[str, ...] = ()

    def __add__(self, other: "JudgedKeys") -> "JudgedKeys":
        return JudgedKeys(
            self.problems + other.problems,
            self.refused + other.refused,
            self.named + other.named,
        )


def judge(
    values: Mapping[str, Any],
    keys: Keys,
    honours: Callable[[str, Any], bool | None] = lambda key, value: None,
    within: str = "",
) -> JudgedKeys:
    """Judges a file. A key that is null or empty says nothing.

    Args:
        values: the file's keys and values.
        keys: what they mean.
        honours: whether the network is known to be what a key's value says; None: nobody knows.
        within: the key that holds `values` in its file.
    """
    problems = []
    refused = []
    named = []
    for key, value in values.items():
        name = f"{within}.{printable(key)}" if within else printable(key)
        said = f"{name} {shown(value)}"
        if key in keys.only:
            if not any(_same(value, known) for known in keys.only[key]):
                allowed = ", ".join(shown(known) for known in keys.only[key])
                problems.append(f"{said} (known: {allowed})")
            continue
        if key in keys.reads or value is None or value in ({}, [], ""):
            continue
        if _like(key, keys.ignores):
            continue
        honoured = honours(key, value)
        if honoured:
            continue
        if key in keys.meanings:
            refused.append(f"{said} ({keys.meanings[key]})")
        elif honoured is False or (_like(key, keys.changes) and not keys.in_part):
            refused.append(f"{said} ({HINTS[key]})" if key in HINTS else said)
        else:
            named.append(said)
    return JudgedKeys(tuple(problems), tuple(refused), tuple(named))


def judge_rope(values: Mapping[str, Any], within: str, more: tuple[str, ...] = ()) -> JudgedKeys:
    """Judges rope_scaling or rope_parameters: by the kind that it names.

    Args:
        values: its keys.
        within: which of the two it is.
        more: keys that the family reads there, too.
    """
    kind = values.get("rope_type") or values.get("type") or "default"
    if kind not in ROPE:
        known = ", ".join(ROPE)
        return JudgedKeys(refused=(f"{within}.rope_type {shown(kind)} (known: {known})",))
    every = {key for keys in ROPE.values() for key in keys}
    reads = frozenset((*_ROPE_ALWAYS, *ROPE[kind], *more))
    only = {} if "partial_rotary_factor" in more else {"partial_rotary_factor": (1, 1.0, None)}
    others = JudgedKeys(
        named=tuple(
            f"{within}.{key} {shown(value)} (not a key of {kind})"
            for key, value in values.items()
            if key in every - reads and value is not None
        )
    )
    rest = {key: value for key, value in values.items() if key not in every - reads}
    return others + judge(rest, Keys(reads=reads, only=only), within=within)


def _same(value: Any, known: Any) -> bool:
    """Whether values are equal, a flag never equal to a number."""
    return bool(value == known) and isinstance(value, bool) == isinstance(known, bool)


def _like(key: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(key, pattern) for pattern in patterns)
