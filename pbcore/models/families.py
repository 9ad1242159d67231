"""Families of masked checkpoints, a row each: how config.json names them, their token ids and
blocks, how they are loaded and decoded, and where that is known from. Doesn't import torch.

LLaDA-MoE calls itself `llada` and Stable-DiffCoder `llama`, so `architectures` decides, and
`model_type` only where no other family has it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from pbcore.base.printable import shown
from pbcore.base.tabular import Code, MarkdownText, Table
from pbcore.models.entry import ModelEntry
from pbcore.models.errors import ModelError

# A model_type of these families begins so.
_DIFFUSION = ("llada", "dream", "sdar", "fast_dllm", "wedlm")
SEDD_GRAPHS = ("absorb", "uniform")  # what its noise turns tokens into: masks, or any tokens
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
    tell it from others. Its attention is full unless `block` is given: the block length, unless
    config.json has it under `block_key`. The rest is for the table in docs/models.md: `threshold`
    is the authors' comparison, `texts` replaces columns.

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

    def columns(self) -> dict[str, str]:
        """Its row of the table in docs/models.md."""
        length = (
            "full attention"
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
_SDAR = Family(
    body="Qwen3ForCausalLM",
    mask_id=151669,
    architectures=("SDARForCausalLM",),
    model_type="sdar",
    block=4,
    block_key="block_size",
    cache="exact",
    threshold=">",
    samplers=f"`sdar_*`; {_BLOCKS}",
    known_from=f"config.json; {_CODE}",
    ranks="drawn",
    ranks_from="`generate.py`, `sample_with_temperature_topk_topp`",
)
FAMILIES: Mapping[str, Family] = {
    "llada": Family(
        body="LlamaForCausalLM",
        mask_id=126336,
        keys=_LLADA_KEYS,
        known_from="authors' code",
        ranks_from="`generate.py`: noise chooses the token, the softmax its confidence",
    ),
    "dream": Family(
        body="Qwen2ForCausalLM",
        mask_id=151666,
        shift=True,
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
        model_type="sdar_moe",
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
        block=4,
        cache="exact",
        samplers=f"`stable_diffcoder*`; {_BLOCKS}",
        known_from=f"published pages; {_CODE}",
        ranks_from="LLaDA's way, by a copy of its code",
    ),
    "llada_moe": Family(
        body="Qwen3MoeForCausalLM",
        mask_id=156895,
        architectures=("LLaDAMoEModelLM", "LLaDAMoEModel"),
        own=("expert_intermediate_size", "num_experts", "num_experts_per_tok"),
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
        cache="exact",
        threshold=">",
        samplers=f"`llada2`, `joint`; {_BLOCKS}",
        ranks="drawn",
        ranks_from="`modeling_llada2_moe.py`, `_sample_with_temperature_topk_topp`",
    ),
    "sedd": Family(
        body="its own network",
        own=("tokens", "graph", "noise", "model"),
        cache="none",
        threshold="–",
        samplers="`analytic-s…`, `euler-s…`",
        ranks_from="it ranks no places",
        texts={"mask id": "behind the tokens; none with uniform noise", "logits": "log-scores"},
    ),
}


def recognised(raw: Mapping[str, Any]) -> str | None:
    """The family that a config.json names by its classes, else by its model_type or own keys; None
    for others.
    """
    auto = raw.get("auto_map")
    listed = raw.get("architectures")
    classes = listed if isinstance(listed, list) else []
    if isinstance(auto, Mapping):
        classes = [*classes, *(str(value).rpartition(".")[2] for value in auto.values())]
    named = {str(name).casefold() for name in classes}
    for name, family in FAMILIES.items():
        if named & {architecture.casefold() for architecture in family.architectures}:
            return name
    kind = str(raw.get("model_type", "")).casefold()
    for name, family in FAMILIES.items():
        if kind == family.model_type or (family.own and raw.keys() >= {*family.own}):
            return name
    return None


def family_of(config: Mapping[str, Any]) -> str:
    """What a checkpoint is by its config.json, which decides its loader. `sedd` if it has the
    layout of SEDD's authors; `masked` if it is of a family above, names a mask token, switches
    causal attention off or has the type of a diffusion family; else `causal` if its architecture is
    one of transformers' for next tokens. Anything else is `masked`, whose loader says what is
    missing.
    """
    family = recognised(config)
    kind = str(config.get("model_type", "")).lower()
    if family == "sedd":
        return family
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
