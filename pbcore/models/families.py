"""Families of masked checkpoints, a row each: how config.json names them, their token ids and
blocks, how they are loaded and decoded, and where that is known from. Doesn't import torch.

LLaDA-MoE calls itself `llada` and Stable-DiffCoder `llama`, so `architectures` decides, and
`model_type` only where no other family has it.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pbcore.base.printable import shown
from pbcore.base.registry import Registry
from pbcore.base.tabular import Code, MarkdownText, Table
from pbcore.models.entry import ModelEntry
from pbcore.models.errors import ModelError
from pbcore.models.file_keys import (
    ADAPTER,
    CHANGES,
    IGNORED,
    INDEX,
    MEANINGS,
    QUANTIZATION,
    READ,
    Keys,
)
from pbcore.models.grid import DEFAULT_GRID, Grid

# A model_type of these families begins so.
_DIFFUSION = ("llada", "dream", "sdar", "fast_dllm", "wedlm")
_ANY = "all, with any blocks"
_BLOCKS = "all but `+rcr` and `wino`"
NO_CONFIG = (
    "is not a checkpoint: it has no config.json. Give the folder that holds config.json and"
    " *.safetensors"
)
_CODE = "authors' code, run on small checkpoints"


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A family. `body` is transformers' class; `keys` rename a checkpoint's tensors, as regular
    expressions over whole keys; `mask_id` and `eos_id` are those of its authors' code, used where
    config.json has none; with `one_stop` that code ends an answer at one token alone.

    `architectures` (also in `auto_map`), a `model_type` or config keys that only it has (`own`)
    tell it from others. A checkpoint is of the family only if it names no class but these and
    `classes`, and no module of its own code but `modules`. Its attention is full unless `block` is
    given: the block length, unless config.json has it under `block_key`. With `may_have_blocks` its
    config.json doesn't say whether it has any; `load_model(…, block=…)` does. `grid` says how they
    lie and are stored. With `counts_mask` its authors' decoder takes confidences over the whole
    vocabulary, mask token included. `mask_token` is its mask token's text, where the tokenizer
    alone has it. `since` is the first version of transformers that has the body as it is needed.

    The keys of its config.json beside those of every family (`file_keys`): `reads` (None: all that
    transformers' class of the body has), `only`, `ignores`, and `rope` in rope_parameters.
    `in_part` says that its config.json is known from excerpts.

    The rest is for the table in docs/models.md: `threshold` is the authors' comparison, `texts`
    replaces columns.

    `ranks` says by which distribution the authors' decoder ranks places: the `raw` softmax of the
    logits, the one that tokens are `drawn` from, or that one `cut` by top-p and top-k at
    temperature 0, too; `ranks_from` is where that is known from. `presets` are their settings for
    `--preset`.
    """

    body: str
    mask_id: int | None = None
    eos_id: int | None = None
    one_stop: bool = False
    shift: bool = False
    keys: Mapping[str, str] = field(default_factory=dict)
    architectures: tuple[str, ...] = ()
    model_type: str | None = None
    own: tuple[str, ...] = ()
    block: int | None = None
    block_key: str | None = None
    classes: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    reads: tuple[str, ...] | None = None
    only: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    ignores: tuple[str, ...] = ()
    rope: tuple[str, ...] = ()
    in_part: bool = False
    may_have_blocks: bool = False
    grid: Grid = DEFAULT_GRID
    counts_mask: bool = False
    mask_token: str | None = None
    since: str | None = None
    cache: str = "changes answers"
    threshold: str = "≥"
    samplers: str = _ANY
    known_from: str = _CODE
    ranks: Literal["raw", "drawn", "cut"] = "raw"
    ranks_from: str = "not known, so raw"
    presets: tuple[str, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict)

    def block_of(self, raw: Mapping[str, Any]) -> Any:
        """The block length that a config.json says, or that of the authors' code; None for
        neither.
        """
        return raw.get(self.block_key) if self.block_key else self.block

    def config_keys(self, declared: Collection[str] = ()) -> Keys:
        """What the keys of its config.json mean.

        Args:
            declared: the keys that transformers' class of the body has.
        """
        reads = {*READ, *ROPES, "head_dim", *(declared if self.reads is None else self.reads)}
        if self.block_key is not None:
            reads.add(self.block_key)
        only = {**({} if self.rope else _WHOLE_ROTARY), **self.only}
        ignored = [pattern for patterns in IGNORED.values() for pattern in patterns]
        return Keys(
            reads=frozenset(reads - only.keys()),
            only=only,
            ignores=(*ignored, *self.ignores),
            changes=CHANGES,
            meanings={key: text for key, text in MEANINGS.items() if key not in reads},
            in_part=self.in_part,
        )

    def strangers(self, raw: Mapping[str, Any]) -> list[str]:
        """The entries of a config.json's `architectures` and `auto_map` that are not this family's:
        another class, or another module of code.
        """
        known = {name.casefold() for name in (*self.architectures, *self.classes)}
        listed = raw.get("architectures")
        odd = [
            f"architectures {shown(name)}"
            for name in (listed if isinstance(listed, list) else [] if listed is None else [listed])
            if str(name).casefold() not in known
        ]
        for auto, reference in code_of(raw).items():
            module, _, name = reference.rpartition(".")
            if module not in self.modules:
                odd.append(f"auto_map {auto} {shown(reference)} (its own code)")
            elif auto != "AutoConfig" and name.casefold() not in known:
                odd.append(f"auto_map {auto} {shown(reference)} (another class)")
        return odd

    def columns(self) -> dict[str, str]:
        """Its row of the table in docs/models.md."""
        length = (
            "full attention, or `block=…`"
            if self.may_have_blocks
            else "full attention"
            if self.block is None
            else f"{self.block}{' (config.json)' if self.block_key else ''}"
        )
        logits = (
            "as is"
            if not self.shift
            else "shifted"
            if self.block is None
            else "shifted within the block"
        )
        return {
            "loaded as": self.body.removesuffix("ForCausalLM").replace("Moe", "-MoE"),
            "mask id": str(self.mask_id),
            "block length": length,
            "logits": logits,
            "cache": self.cache,
            "threshold": self.threshold,
            "samplers": self.samplers,
            "known from": self.known_from,
        } | dict(self.texts)


_LLADA_KEYS = {
    r"(?:model\.)?transformer\.wte\.weight": "model.embed_tokens.weight",
    r"(?:model\.)?transformer\.ln_f\.weight": "model.norm.weight",
    r"(?:model\.)?transformer\.ff_out\.weight": "lm_head.weight",
    **{
        rf"(?:model\.)?transformer\.blocks\.(\d+)\.{theirs}\.weight": (
            rf"model.layers.\1.{ours}.weight"
        )
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
_LLADA2_KEYS = {
    r"model\.word_embeddings\.weight": "model.embed_tokens.weight",
    r"model\.layers\.(\d+)\.attention\.dense\.weight": r"model.layers.\1.self_attn.o_proj.weight",
    r"model\.layers\.(\d+)\.attention\.query_layernorm\.weight": (
        r"model.layers.\1.self_attn.q_norm.weight"
    ),
    r"model\.layers\.(\d+)\.attention\.key_layernorm\.weight": (
        r"model.layers.\1.self_attn.k_norm.weight"
    ),
    r"model\.layers\.(\d+)\.attention\.query_key_value\.weight": (
        r"model.layers.\1.self_attn.query_key_value.weight"
    ),
    r"model\.layers\.(\d+)\.mlp\.gate\.expert_bias": (
        r"model.layers.\1.mlp.gate.e_score_correction_bias"
    ),
}
ROPES = ("rope_theta", "rope_scaling", "rope_parameters")
# Of a family that turns the whole of a head.
_WHOLE_ROTARY: Mapping[str, tuple[Any, ...]] = {"partial_rotary_factor": (1, 1.0, None)}
_NO: tuple[Any, ...] = (False, None)
_NO_WINDOW: Mapping[str, tuple[Any, ...]] = {"use_sliding_window": _NO, "use_mrope": _NO}
_WITHOUT_WINDOW = ("sliding_window", "max_window_layers")  # they say nothing then
# What every body of transformers is built with.
_SIZES = (
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "max_position_embeddings",
    "rms_norm_eps",
    "tie_word_embeddings",
    "attention_bias",
    "mlp_bias",
)
_DENSE = (*_SIZES, "intermediate_size")
_BLOCK_LENGTHS = ("block_size", "block_length")
_SILU: Mapping[str, tuple[Any, ...]] = {"hidden_act": ("silu",)}
# The values with which a LLaDA config describes Llama's architecture.
_LLADA_ONLY: Mapping[str, tuple[Any, ...]] = {
    **dict.fromkeys(
        (
            "alibi",
            "attention_layer_norm",
            "include_bias",
            "include_qkv_bias",
            "input_emb_norm",
            "scale_logits",
        ),
        (False,),
    ),
    **dict.fromkeys(("bias_for_layer_norm", "embedding_layer_norm", "norm_after"), _NO),
    "layer_norm_with_affine": (True, None),
    "clip_qkv": (None,),
    "block_type": ("llama",),
    "activation_type": ("silu",),
    "layer_norm_type": ("rms",),
    "block_group_size": (1,),
    "rope": (True,),
}
_SDAR = Family(
    body="Qwen3ForCausalLM",
    mask_id=151669,
    architectures=("SDARForCausalLM",),
    model_type="sdar",
    block=4,
    block_key="block_size",
    classes=("SDARModel",),
    modules=("configuration_sdar", "modeling_sdar"),
    reads=_DENSE,
    only={**_SILU, **_NO_WINDOW},
    ignores=(
        *_WITHOUT_WINDOW,
        "debug",
        "ep_size",
        "fuse_cross_entropy",
        "micro_forward",
        "skip_checkpoint",
        "use_deepep",
    ),
    cache="exact",
    threshold=">",
    samplers=f"`sdar_*`; {_BLOCKS}",
    known_from=f"config.json; {_CODE}",
    ranks="drawn",
    ranks_from="`generate.py`, `sample_with_temperature_topk_topp`",
)
_A2D = Family(
    body="Qwen3ForCausalLM",
    architectures=("A2DQwen3LMHeadModel",),
    classes=("A2DQwen3Model",),
    modules=("modeling_qwen3",),
    model_type="a2d-qwen3",
    only={"use_mrope": _NO},
    in_part=True,
    may_have_blocks=True,
    grid=Grid(start="prompt", along=True, course={"fill": "length"}),
    counts_mask=True,
    cache="changes answers; in blocks exact",
    samplers=f"{_ANY}; in blocks {_BLOCKS}",
    known_from="dllm's code, run on small checkpoints",
    ranks_from="dllm, `core/samplers/mdlm.py` and `bd3lm.py`",
    mask_token="<|MASK|>",
    texts={"mask id": "the tokenizer's"},
)
_ROWS: Mapping[str, Family] = {
    "llada": Family(
        body="LlamaForCausalLM",
        mask_id=126336,
        keys=_LLADA_KEYS,
        architectures=("LLaDAModelLM",),
        classes=("LLaDAModel",),
        modules=("configuration_llada", "modeling_llada"),
        model_type="llada",
        reads=(
            "vocab_size",
            "embedding_size",
            "d_model",
            "n_layers",
            "n_heads",
            "n_kv_heads",
            "multi_query_attention",
            "mlp_hidden_size",
            "mlp_ratio",
            "max_sequence_length",
            "rms_norm_eps",
            "weight_tying",
        ),
        only=_LLADA_ONLY,
        ignores=("attention_layer_norm_with_affine", "rope_full_precision", "alibi_bias_max"),
        known_from="authors' code",
        ranks_from="`generate.py`: noise chooses the token, the softmax its confidence",
    ),
    "dream": Family(
        body="Qwen2ForCausalLM",
        mask_id=151666,
        shift=True,
        architectures=("DreamModel",),
        classes=("DreamBaseModel",),
        modules=("configuration_dream", "modeling_dream"),
        model_type="dream",
        only={"use_mrope": _NO},
        known_from="authors' code",
        ranks="cut",
        ranks_from="`generation_utils.py`, `sample_tokens`; DiffuCoder has the same code",
        presets=("dream", "dream-base"),
    ),
    "sdar": _SDAR,
    "sdar_moe": replace(
        _SDAR,
        body="Qwen3MoeForCausalLM",
        architectures=("SDARMoeForCausalLM",),
        classes=("SDARMoeModel",),
        modules=(*_SDAR.modules, "configuration_sdar_moe", "modeling_sdar_moe"),
        model_type="sdar_moe",
        reads=(
            *_DENSE,
            "moe_intermediate_size",
            "num_experts",
            "num_experts_per_tok",
            "norm_topk_prob",
            "decoder_sparse_step",
            "mlp_only_layers",
        ),
        in_part=True,
        known_from="SDAR's code",
    ),
    "fast_dllm_v2": Family(
        body="Qwen2ForCausalLM",
        mask_id=151665,
        eos_id=151645,
        one_stop=True,
        shift=True,
        architectures=("Fast_dLLM_QwenForCausalLM",),
        model_type="fast_dllm_qwen",
        own=("bd_size",),
        block=32,
        block_key="bd_size",
        classes=("Fast_dLLM_QwenModel",),
        modules=("configuration", "modeling"),
        reads=_DENSE,
        only={**_SILU, **_NO_WINDOW},
        ignores=_WITHOUT_WINDOW,
        in_part=True,
        cache="exact; `+dual` within a block changes answers",
        threshold=">",
        samplers="`fast_dllm_v2`; all but `+rcr`, `wino`, `joint`",
        ranks="drawn",
        ranks_from="`modeling.py`, `sample_with_top_p`",
    ),
    "stable_diffcoder": Family(
        body="LlamaForCausalLM",
        mask_id=5,
        architectures=("StableDiffcoderForCausalLM",),
        modules=("configuration_stable_diffcoder", "modeling_stable_diffcoder"),
        block=4,
        reads=_DENSE,
        only={**_SILU, **_NO_WINDOW, **dict.fromkeys(_BLOCK_LENGTHS, (4, None))},
        in_part=True,
        cache="exact",
        samplers=f"`stable_diffcoder*`; {_BLOCKS}",
        known_from=f"published pages; {_CODE}",
        ranks_from="LLaDA's way, by a copy of its code",
    ),
    "llada_moe": Family(
        body="Qwen3MoeForCausalLM",
        mask_id=156895,
        architectures=("LLaDAMoEModelLM", "LLaDAMoEModel"),
        model_type="lladamoe",
        own=("expert_intermediate_size", "num_experts", "num_experts_per_tok"),
        modules=(
            "configuration_lladamoe",
            "modeling_lladamoe",
            "configuration_llada_moe",
            "modeling_llada_moe",
        ),
        reads=(
            *_SIZES,
            "num_experts",
            "num_experts_per_tok",
            "dense_intermediate_size",
            "expert_intermediate_size",
            "moe_layer_freq",
        ),
        only={
            **_SILU,
            **_NO_WINDOW,
            "moe_router_enable_expert_bias": _NO,
            "shared_expert_intermediate_size": (None, 0),
            "qk_layernorm": (True,),
            "clip_qkv": (None,),
        },
        # Its code doesn't read them.
        ignores=(
            *_WITHOUT_WINDOW,
            "intermediate_size",
            "norm_topk_prob",
            "moe_router_score_function",
            "routed_scaling_factor",
            "router_num_group",
            "router_topk_group",
        ),
        in_part=True,
        ranks_from="LLaDA's loop decodes it",
    ),
    "llada2": Family(
        body="Glm4MoeForCausalLM",
        mask_id=156895,
        eos_id=156892,
        keys=_LLADA2_KEYS,
        architectures=("LLaDA2MoeModelLM",),
        model_type="llada2_moe",
        block=32,
        classes=("LLaDA2MoeModel",),
        modules=("configuration_llada2_moe", "modeling_llada2_moe"),
        reads=(
            *_DENSE,
            "rotary_dim",
            "partial_rotary_factor",
            "moe_intermediate_size",
            "num_experts",
            "num_experts_per_tok",
            "num_shared_experts",
            "n_group",
            "topk_group",
            "routed_scaling_factor",
            "first_k_dense_replace",
        ),
        only={
            **_SILU,
            **_NO_WINDOW,
            **dict.fromkeys(
                ("use_qkv_bias", "use_bias", "norm_head", "using_split_qkv_in_self_attention"),
                (False,),
            ),
            **dict.fromkeys(
                ("use_qk_norm", "use_rmsnorm", "moe_router_enable_expert_bias", "norm_topk_prob"),
                (True,),
            ),
            **dict.fromkeys(_BLOCK_LENGTHS, (32, None)),
            "score_function": ("sigmoid",),
            "num_nextn_predict_layers": (0, None),
        },
        ignores=(
            *_WITHOUT_WINDOW,
            "router_dtype",  # always float32
            "norm_softmax",
            "mtp_loss_scaling_factor",
            "moe_shared_expert_intermediate_size",  # the tensors' shapes show it
        ),
        rope=("partial_rotary_factor",),
        in_part=True,
        cache="exact",
        threshold=">",
        samplers=f"`llada2`, `joint`; {_BLOCKS}",
        ranks="drawn",
        ranks_from="`modeling_llada2_moe.py`, `_sample_with_temperature_topk_topp`",
    ),
    "a2d-qwen3": _A2D,
    "a2d-qwen2": replace(
        _A2D,
        body="Qwen2ForCausalLM",
        architectures=("A2DQwen2LMHeadModel",),
        classes=("A2DQwen2Model",),
        modules=("modeling_qwen2",),
        model_type="a2d-qwen2",
    ),
    "a2d-llama": replace(
        _A2D,
        body="LlamaForCausalLM",
        architectures=("A2DLlamaLMHeadModel",),
        classes=("A2DLlamaModel",),
        modules=("modeling_llama",),
        model_type="a2d-llama",
    ),
    "nemotron": Family(
        body="Ministral3ForCausalLM",
        since="5.4",
        mask_id=100,
        keys={
            r"encoder\.(.+)": r"model.\1",
            r"diffusion_head\.weight": "lm_head.weight",
        },
        architectures=("NemotronLabsDiffusionModel",),
        modules=("configuration_nemotron_labs_diffusion", "modeling_nemotron_labs_diffusion"),
        model_type="nemotron_labs_diffusion",
        reads=_DENSE,
        only={**_SILU, "sliding_window": (None,)},
        ignores=("dlm_paradigm", "attn_implementation"),
        rope=("llama_4_scaling_beta", "max_position_embeddings"),
        in_part=True,
        block=32,
        block_key="block_size",
        grid=Grid(
            start="prompt",
            causal=True,
            leads=True,
            course={"fill": "length", "stop": "step", "ends_at_stop": True, "store": "all"},
        ),
        counts_mask=True,
        cache="exact",
        samplers=_BLOCKS,
        known_from="dllm's sampler, run on a small checkpoint",
        ranks_from="dllm, its sampler for Nemotron-Labs-Diffusion",
    ),
}


# Networks of transformers that a mask token's id makes masked models.
PLAIN: Mapping[str, Family] = {
    kind.lower(): Family(
        body=f"{kind}ForCausalLM",
        architectures=(f"{kind}ForCausalLM",),
        model_type=kind.lower(),
        only={"is_causal": (False, None), "use_mrope": _NO},
    )
    for kind in ("Llama", "Qwen2", "Qwen3")
}


# The rows that are loaded into a body of transformers.
BODIES: Mapping[str, Family] = {**_ROWS, **PLAIN}


class OwnDecoding(NamedTuple):
    """A kind of model that decodes by itself: policies whose names it reads, an example, whether it
    keeps given tokens, and the samplers that it runs in place of a profile's.
    """

    policies: tuple[str, ...]
    example: str
    infills: bool = False
    samplers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedKind:
    """A kind of checkpoint that a neighbour brings, with a network and a loop of its own (group
    `pbcore.model_kinds`, by the name that `ModelEntry.loaded_as` has).

    - `family`: its row;
    - `package`: where `data/models.yaml` is, with its models, and the folders of embedded ones;
    - `loader`: `module:function` of an entry, a device, a dtype and `LoadOptions`;
    - `shape`: the `ModelShape` of a config.json and the model's name; a loaded model has `shape`;
    - `number`: bytes of a number in its checkpoints;
    - `decoding`: how it decodes;
    - `words`: what its models are, for readers of a report.
    """

    family: Family
    package: str
    loader: str
    shape: Callable[[Mapping[str, Any], str], Any]
    number: int
    decoding: OwnDecoding
    words: Mapping[str, str]


KINDS: Registry[AddedKind] = Registry("kind of checkpoint", "pbcore.model_kinds")


class _Families(Mapping[str, Family]):
    """The package's rows, then those that neighbours bring."""

    @cached_property
    def _rows(self) -> Mapping[str, Family]:
        return {**_ROWS, **{name: kind.family for name, kind in KINDS.all().items()}}

    def __getitem__(self, name: str) -> Family:
        return self._rows[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


FAMILIES: Mapping[str, Family] = _Families()


def architectures() -> tuple[str, ...]:
    """What a user may say that a checkpoint is."""
    return (*FAMILIES, *PLAIN, "causal")


def code_of(raw: Mapping[str, Any]) -> dict[str, str]:
    """What a config.json says of its own code: transformers' name of a kind → `module.Class`,
    without the repository that it may name. Tokenizers and processors are not the network's.
    """
    auto = raw.get("auto_map")
    named = auto if isinstance(auto, Mapping) else {}
    return {
        str(kind): str(reference).rpartition("--")[2]
        for kind, reference in named.items()
        if reference is not None and str(kind).startswith(("AutoConfig", "AutoModel"))
    }


def recognised(raw: Mapping[str, Any]) -> str | None:
    """The family that a config.json names by its classes, else by its model_type or own keys; None
    for others.
    """
    listed = raw.get("architectures")
    classes = listed if isinstance(listed, list) else []
    classes = [*classes, *(reference.rpartition(".")[2] for reference in code_of(raw).values())]
    named = {str(name).casefold() for name in classes}
    for name, family in FAMILIES.items():
        if named & {architecture.casefold() for architecture in family.architectures}:
            return name
    for name, family in FAMILIES.items():
        if family.own and raw.keys() >= {*family.own}:
            return name
    kind = str(raw.get("model_type", "")).casefold()
    return next((name for name, family in FAMILIES.items() if kind == family.model_type), None)


def resembled(raw: Mapping[str, Any]) -> str | None:
    """The row, also of `PLAIN`, that a config.json is loaded by unless something in it speaks
    against that; None for others.
    """
    name = recognised(raw) or str(raw.get("model_type", "")).lower()
    return name if name in BODIES else None


def loaded_as(config: Mapping[str, Any]) -> str:
    """What a checkpoint is by its config.json, which decides its loader. A neighbour's kind
    if it is of its family; `masked` if it is of a family above, names a mask token, switches causal
    attention off or has the type of a diffusion family; else `causal` if its architecture is one of
    transformers' for next tokens. Anything else is `masked`, whose loader says what is missing.
    """
    family = recognised(config)
    kind = str(config.get("model_type", "")).lower()
    if family in KINDS:
        return str(family)
    bidirectional = config.get("mask_token_id") is not None or config.get("is_causal") is False
    if family is not None or kind.startswith(_DIFFUSION) or bidirectional:
        return "masked"
    classes = map(str, config.get("architectures") or [])
    return (
        "causal"
        if any(name.endswith(("ForCausalLM", "LMHeadModel")) for name in classes)
        else "masked"
    )


def block_of(entry: ModelEntry) -> int | None:
    """The block length of a block model, as far as it is known before it is loaded; None for other
    models.
    """
    if entry.block is not None:
        return entry.block
    raw = entry.config if entry.shape is None else entry.shape
    block = FAMILIES[family].block_of(raw) if (family := recognised(raw)) else None
    return block if type(block) is int else None


def families_table() -> Table:
    """The table in docs/models.md."""
    heads = ["family"]
    rows: list[list[str]] = []
    for name, family in FAMILIES.items():
        columns = family.columns()
        heads = ["family", *columns]
        rows.append([Code(name), *map(MarkdownText, columns.values())])
    return Table(heads, rows)


def keys_table() -> Table:
    """The table of keys in docs/models.md."""
    every = "`config.json` of every family"
    rows = [
        [every, "read", _listed((*READ, *ROPES))],
        [every, "known with these values alone", _allowed(_WHOLE_ROTARY)],
        *([every, f"change no answer: {why}", _listed(keys)] for why, keys in IGNORED.items()),
        [every, "refused, as they mean another model", _listed(MEANINGS)],
        [every, "refused, unless listed for the family", _listed(CHANGES)],
    ]
    for name, family in {**FAMILIES, **PLAIN}.items():
        body = f"what `{family.body.replace('ForCausalLM', 'Config')}` of transformers has"
        reads = body if family.reads is None else _listed(family.reads)
        if family.block_key is not None:
            reads = f"{reads}, `{family.block_key}`"
        rows.append([f"`{name}`", "read", reads])
        if family.only:
            rows.append([f"`{name}`", "known with these values alone", _allowed(family.only)])
        if family.ignores:
            rows.append([f"`{name}`", "change no answer", _listed(family.ignores)])
        if family.in_part:
            rows.append([f"`{name}`", "named", "others: its file is known from excerpts"])
    adapter = "`adapter_config.json`"
    rows += [
        [adapter, "read", _listed(sorted(ADAPTER.reads))],
        [adapter, "known with these values alone", _allowed(ADAPTER.only)],
        [adapter, "change no answer", _listed(ADAPTER.ignores)],
        [adapter, "refused", f"{_listed(ADAPTER.meanings)}, and others"],
    ]
    for file, keys, more in (
        ("`quantization_config`", QUANTIZATION, ", what transformers' class of the method takes"),
        ("`model.safetensors.index.json`", INDEX, ""),
    ):
        rows.append([file, "read", _listed(sorted(keys.reads)) + more])
        rows.append([file, "change no answer", _listed(keys.ignores)])
        rows.append([file, "named", "others"])
    return Table(["of", "keys that are", "which"], [[MarkdownText(t) for t in row] for row in rows])


def _listed(keys: Iterable[str]) -> str:
    return ", ".join(f"`{key}`" for key in keys)


def _allowed(only: Mapping[str, tuple[Any, ...]]) -> str:
    """Keys with their values as JSON has them; null, which says nothing, is left out."""
    parts = []
    for key, values in only.items():
        written = [json.dumps(value) for value in values if value is not None]
        parts.append(f"`{key}` {' or '.join(dict.fromkeys(written)) or 'null'}")
    return ", ".join(parts)


RANKS = {
    "raw": "the softmax of the logits",
    "drawn": "what tokens are drawn from",
    "cut": "what tokens are drawn from; top-p and top-k cut at temperature 0, too",
}


def ranks_table() -> Table:
    """The table in docs/samplers.md: which distribution ranks places."""
    rows = [
        [Code(name), RANKS[family.ranks], MarkdownText(family.ranks_from)]
        for name, family in FAMILIES.items()
    ]
    return Table(["family", "places are ranked by", "known from"], rows)


def cached_config(source: str, revision: str | None) -> Path | None:
    """The config.json of a hub model in this machine's cache; None if it isn't there."""
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(source, "config.json", revision=revision)
    return Path(found) if isinstance(found, str) else None


def config_at_hand(entry: ModelEntry) -> Mapping[str, Any] | None:
    """The config that says a model's sizes, without the hub: the checkpoint's own, else the
    published shape of the table; None where none is here.
    """
    if entry.dummy or (entry.folder is None and entry.source is None):
        return entry.shape
    if entry.config:
        return entry.config
    if entry.folder is not None:
        return readable_config(entry.folder) or None
    path = cached_config(str(entry.source), entry.revision)
    cached = None if path is None else readable_config(path.parent)
    return cached or entry.shape


def readable_config(folder: Path) -> Mapping[str, Any]:
    """A folder's config.json; empty if it can't be read, which loading the checkpoint reports."""
    try:
        return read_config(folder)
    except (OSError, ModelError):
        return {}


def read_config(folder: Path) -> Mapping[str, Any]:
    """A checkpoint's config.json. Raises ModelError if it is missing, not valid JSON or no
    mapping.
    """
    path = folder / "config.json"
    try:
        config: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ModelError(f"{folder} {NO_CONFIG}") from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ModelError(
            f"{path} is not valid JSON ({error}); download the checkpoint again"
        ) from error
    if not isinstance(config, dict):
        raise ModelError(
            f"{path} holds {shown(config)}; it should be a mapping. Download the checkpoint again"
        )
    return config
