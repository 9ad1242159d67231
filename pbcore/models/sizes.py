"""A model without its weights: its network on torch's meta device, made from the config.json or the
published shape that is at hand, and whether the weights are on this machine. The shape of a model
as it is held, with its weights or without.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import torch
from torch import nn

from pbcore.base.extensions import named
from pbcore.base.printable import shown
from pbcore.costs.shape import ModelShape, of_config
from pbcore.models.causal import CausalModel, answer_length
from pbcore.models.entry import LoadOptions, ModelEntry
from pbcore.models.errors import ModelError
from pbcore.models.families import KINDS, cached_config, config_at_hand, loaded_as
from pbcore.models.hub import fetch_config
from pbcore.models.identity import ModelFiles
from pbcore.models.loading import load_masked
from pbcore.models.masked import MaskedModel
from pbcore.models.network import NativeNetwork, count_parameters
from pbcore.models.registry import UNKNOWN, sources
from pbcore.models.tokenizer import HashTokenizer

META = "meta"
_SMALL = {"4bit": 0.5, "int4": 0.5, "8bit": 1.0, "int8": 1.0}  # bytes of a quantized weight
_INDEX = "model.safetensors.index.json"


@dataclass(frozen=True, slots=True)
class SizedModel:
    """A model without weights. `network` is its module, `published` the bytes of a number in its
    checkpoint, `quantization` as `LoadOptions` has it.
    """

    model: Any
    network: nn.Module
    published: int
    quantization: str | None = None

    @property
    def shape(self) -> ModelShape | None:
        """What its memory and its seconds depend on; None if its config lacks a size."""
        return held_shape(self.model)

    @property
    def parameters(self) -> int:
        """How many; shared ones count once."""
        return count_parameters(self.network)

    @property
    def download(self) -> int:
        """Bytes of the checkpoint's weights."""
        return self.parameters * self.published

    @property
    def weights(self) -> int:
        """Bytes that the weights take in memory. Quantized ones are those of linear layers, the
        output projection left out.
        """
        number = number_bytes(self.network)
        whole = self.parameters * number
        if self.quantization is None:
            return whole
        small = _SMALL[self.quantization.rpartition("-")[2]]
        linear = 0
        for name, module in self.network.named_modules():
            if isinstance(module, nn.Linear) and name != "lm_head":
                linear += module.weight.numel()
        return round(whole - linear * (number - small))


def number_bytes(network: nn.Module) -> int:
    """Bytes of a number that a network computes with."""
    return next(network.parameters()).dtype.itemsize


def held_shape(model: object) -> ModelShape | None:
    """The shape of a model of this package with how it is held, loaded or without its weights; None
    for others, and where its config lacks a size.
    """
    shape = getattr(model, "shape", None)
    if isinstance(shape, ModelShape):
        return shape
    own_code = False
    if isinstance(model, MaskedModel):
        module = model.network.module
        own_code = not isinstance(model.network, NativeNetwork)
    elif isinstance(model, CausalModel):
        module = model.module
    else:
        return None
    config = module.config.get_text_config()
    needed = ("hidden_size", "num_attention_heads", "num_hidden_layers")
    if not all(getattr(config, name, None) for name in needed):
        return None
    return replace(
        of_config(config),
        vocabulary=model.vocab_size,
        number=module.dtype.itemsize,
        eager=getattr(config, "_attn_implementation", "sdpa") == "eager",
        own_code=own_code,
    )


def _published(raw: Mapping[str, Any], name: str) -> torch.dtype:
    """The dtype of the checkpoint's numbers. Raises ModelError for one that torch doesn't have."""
    given = str(raw.get("torch_dtype") or raw.get("dtype") or "bfloat16")
    found = getattr(torch, given.removeprefix("torch."), None)
    if not isinstance(found, torch.dtype):
        raise ModelError(f"{name}: its config.json has the dtype {shown(given)}, which torch lacks")
    return found


def sized_model(
    entry: ModelEntry, dtype: str | None = None, options: LoadOptions | None = None
) -> SizedModel:
    """The model of an entry without weights. A hub's model that is neither in the table nor in the
    cache costs one request, for its config.json.

    Args:
        entry: a model with a network: masked, autoregressive or of a neighbour's kind.
        dtype: None: bfloat16, as on a GPU; a neighbour's kind has its own.
        options: how it will be loaded.

    Raises:
        ModelError: for a model whose config.json can't be had, or can't be used.
    """
    given = options or LoadOptions()
    raw = config_at_hand(entry)
    if raw is None and entry.source is not None:
        raw = _fetched(entry, given)
    if not raw:
        raise ModelError(f"{entry.name}: there is no config.json that says its sizes")
    kind = loaded_as(raw) if entry.loaded_as == UNKNOWN else entry.loaded_as
    shaped = replace(
        entry, loaded_as=kind, shape=raw, dummy=True, folder=None, source=None, adapter=None
    )
    published = _published(raw, entry.name)
    if kind in KINDS:
        with torch.device(META):
            added = named(KINDS[kind].loader)(shaped, META, dtype, LoadOptions())
        return SizedModel(added, added.network, KINDS[kind].number)
    if kind == "causal":
        causal = _causal(shaped, raw, dtype or "bfloat16")
        return SizedModel(causal, causal.module, published.itemsize, given.quantization)
    if kind != "masked":
        raise ModelError(
            f"{entry.name}: sizes are known of"
            f" {', '.join(['masked', 'autoregressive', *KINDS.all()])} models, and this one is"
            f" {kind}"
        )
    # Which ids mask and end doesn't matter here, and shapes of the table lack some of them.
    tokens = raw.get("embedding_size") or raw.get("vocab_size")
    if not isinstance(tokens, int) or tokens < 3:
        raise ModelError(f"{entry.name}: its config.json says no vocab_size, or too small a one")
    last = tokens - 1
    plain = LoadOptions(
        attn_implementation=given.attn_implementation,
        block=given.block,
        architecture=given.architecture,
        mask_id=last,
        eos_id=last - 1,
    )
    masked = load_masked(replace(shaped, stop_ids=()), META, dtype or "bfloat16", plain)
    return SizedModel(masked, masked.network.module, published.itemsize, given.quantization)


def _fetched(entry: ModelEntry, options: LoadOptions) -> Mapping[str, Any]:
    """The config.json of a hub's model. Raises ModelError, with hub ids of the table like this
    one.
    """
    try:
        return fetch_config(entry, options)
    except ModelError as error:
        near = get_close_matches(str(entry.source), sources().values(), n=3)
        other = f"; did you mean {', '.join(near)}?" if near else ""
        raise ModelError(f"{error}{other}") from error


def _causal(entry: ModelEntry, raw: Mapping[str, Any], dtype: str) -> CausalModel:
    """An autoregressive model without weights."""
    from transformers import AutoConfig, AutoModelForCausalLM

    make: Any = AutoModelForCausalLM.from_config
    module: Any
    sizes = {key: value for key, value in raw.items() if key not in ("model_type", "dtype")}
    try:
        config = AutoConfig.for_model(str(raw.get("model_type")), **sizes)
        with torch.device(META):
            module = make(config)
    except (KeyError, ValueError, TypeError, ImportError) as error:
        raise ModelError(f"{entry.name}: its config.json can't be used: {error}") from error
    module.tie_weights()
    text = config.get_text_config()
    return CausalModel(
        name=entry.name,
        module=module.to(getattr(torch, dtype)),
        tokenizer=HashTokenizer(text.vocab_size),
        stop_ids=(),
        limit=getattr(text, "max_position_embeddings", None),
        length=answer_length(entry),
        vocab_size=text.vocab_size,
        device=torch.device(META),
        info={},
        files=ModelFiles(),
    )


def weights_here(entry: ModelEntry, options: LoadOptions | None = None) -> bool:
    """Whether nothing of a model's weights has to be downloaded: it has none, makes them itself, or
    all files of its checkpoint are on this machine.
    """
    if entry.dummy or entry.embedded or (entry.source is None and entry.folder is None):
        return True
    if entry.folder is not None:
        return _whole(entry.folder)
    revision = options.revision if options and options.revision else entry.revision
    config = cached_config(str(entry.source), revision)
    return config is not None and _whole(config.parent)


def _whole(folder: Path) -> bool:
    """Whether a folder has weights, and all of them that its index names."""
    index = folder / _INDEX
    if not index.is_file():
        return any(folder.glob("*.safetensors"))
    try:
        files = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
    except (OSError, ValueError, KeyError, AttributeError):
        return True  # loading it says what is wrong
    return all((folder / str(name)).is_file() for name in files)
