"""Maps a published checkpoint's config.json to one of transformers' own architectures."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from transformers import PretrainedConfig

from pbcore.models.bodies import INVALID, body
from pbcore.models.errors import ModelError
from pbcore.models.families import FAMILIES, Family, recognised
from pbcore.printable import printable

_BODIES = {
    **{name: family for name, family in FAMILIES.items() if name != "sedd"},
    **{kind.lower(): Family(body=f"{kind}ForCausalLM") for kind in ("Llama", "Qwen2", "Qwen3")},
}


@dataclass(frozen=True, slots=True)
class Architecture:
    """How to build and fill a checkpoint: transformers' class and config, the key map, and the ids that config.json
    names. `blocks` says whether attention is block-causal, `block` its block length if known; `problems` what is wrong
    with config.json, to be named together with what is wrong with the weights.
    """

    kind: str  # llada, dream, llama, qwen2, qwen3, or another row of `families`
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
    implementation; the other families are in `families`. Ids that config.json lacks are those of the authors' code,
    where the vocabulary has them. Raises ModelError for other architectures, for LLaDA options that Llama lacks, and
    for keys that are missing or have values that no model can be built with.
    """
    try:
        return _architecture(raw, where, layers)
    except INVALID as error:
        said = printable(" ".join(str(error).split()), 300)
        raise ModelError(f"{where}: config.json can't be used ({said}); mend the named value") from error


def _architecture(raw: Mapping[str, Any], where: str, layers: int | None) -> Architecture:
    name = recognised(raw) or str(raw.get("model_type", "")).lower()
    family = _BODIES.get(name)
    if family is None:
        named = ", ".join(known for known in _BODIES if known in FAMILIES and FAMILIES[known].architectures)
        raise ModelError(
            f"{where}: model_type {raw.get('model_type')!r} can't be loaded natively; llada, Dream, {named}, and "
            "llama, qwen2 or qwen3 with full attention can. With trust_remote_code the checkpoint's own code runs "
            "instead"
        )
    model_class: Any = getattr(transformers, family.body)
    config, problems = body(name, model_class.config_class, raw, where)
    _shorten(config, layers)
    size: int = config.vocab_size
    mask_id = raw.get("mask_token_id")
    eos_id = _first(raw.get("eos_token_id", raw.get("pad_token_id")))
    return Architecture(
        name,
        model_class,
        config,
        family.keys,
        mask_id=_within(size, family.mask_id) if mask_id is None else mask_id,
        eos_id=_within(size, family.eos_id) if eos_id is None else eos_id,
        shift=bool(raw.get("shift_logits", family.shift)),
        blocks=family.block is not None,
        block=family.block_of(raw),
        problems=problems,
    )


def weights_of(shape: Mapping[str, Any], name: str) -> int:
    """The number of parameters of a published shape, counted on the meta device: no memory is taken."""
    arch = architecture(shape, name)
    with torch.device("meta"):
        model = arch.model_class._from_config(arch.config)
    tied = bool(arch.config.tie_word_embeddings)
    return sum(p.numel() for name, p in model.named_parameters() if not (tied and name == "lm_head.weight"))


def _shorten(config: PretrainedConfig, layers: int | None) -> None:
    """Sets the number of layers, if given, and full attention within whatever mask a forward gets."""
    if layers is not None:
        config.num_hidden_layers = layers
        if getattr(config, "layer_types", None):
            config.layer_types = config.layer_types[:layers]
    config.is_causal = False
    config.use_cache = False


def _within(size: int, token_id: int | None) -> int | None:
    """An id, unless the vocabulary is too small for it."""
    return token_id if token_id is not None and token_id < size else None


def _first(value: Any) -> int | None:
    """An id, or the first of several."""
    first = value[0] if isinstance(value, list) else value
    return None if first is None else int(first)
