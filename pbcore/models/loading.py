"""Loads masked models: a checkpoint folder or hub id natively, a published shape with random weights, or a checkpoint's
own code.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from pbcore.models.adapter import Adapter, merge, read_adapter
from pbcore.models.architecture import Architecture, architecture
from pbcore.models.checkpoints import load_weights, load_with_transformers, random_weights
from pbcore.models.device import decoding_device, network_device
from pbcore.models.entry import LoadOptions, ModelEntry
from pbcore.models.errors import ModelError
from pbcore.models.families import read_config
from pbcore.models.frequencies import digest
from pbcore.models.frequencies import find as find_frequencies
from pbcore.models.hub import locate
from pbcore.models.masked import MaskedModel
from pbcore.models.memory import keep_freed_memory
from pbcore.models.network import NativeNetwork, Network, RemoteNetwork, count_parameters, default_dtype
from pbcore.models.onednn import with_onednn
from pbcore.models.tokenizer import FileTokenizer, HashTokenizer, Tokenizer, read_tokenizer

_DTYPES = ("float32", "bfloat16", "float16", "float64")


def load_masked(entry: ModelEntry, device: str, dtype: str | None, options: LoadOptions) -> MaskedModel:
    """The masked model of a registry entry. Raises ModelError that says what to do."""
    place = network_device(device)
    kind = find_dtype(dtype, place)
    if place.type == "cpu":
        keep_freed_memory()
    adapter = None if options.adapter is None else read_adapter(Path(options.adapter).expanduser())
    if entry.dummy:
        arch = _settled(architecture(entry.shape or {}, entry.name, entry.layers), entry, options)
        module = random_weights(arch, place, kind, options.attn_implementation)
        module = with_onednn(_merged(adapter, module, arch))
        top = min(
            _needed("mask_id", entry.mask_id, None, entry.name), _needed("eos_id", entry.eos_id, None, entry.name)
        )
        return _assemble(
            entry,
            options,
            arch,
            NativeNetwork(module),
            module,
            HashTokenizer(top),
            place,
            kind,
            entry.name,
            None,
            adapter,
        )
    folder = locate(entry, options)
    raw = read_config(folder)
    mode = options.chat or entry.chat
    try:
        arch = _settled(architecture(raw, str(folder)), entry, options)
    except ModelError:
        if options.trust_remote_code and "auto_map" in raw and adapter is None:
            return _load_remote(entry, options, folder, raw, place, kind)
        raise
    if options.quantization or options.device_map or "quantization_config" in raw:
        if adapter is not None and (options.quantization or "quantization_config" in raw):
            raise ModelError(f"{folder}: an adapter can't be merged into quantized weights; load them in full")
        module = load_with_transformers(arch, folder, place, kind, options)
        module, place = _merged(adapter, module, arch), next(module.parameters()).device
    else:
        module = load_weights(arch, folder, place, kind, options.attn_implementation)
        module = with_onednn(_merged(adapter, module, arch))
    words, top_k = read_tokenizer(folder, entry.name, mode), read_top_k(arch.kind, folder)
    return _assemble(
        entry, options, arch, NativeNetwork(module), module, words, place, kind, str(folder), top_k, adapter
    )


def _merged(adapter: Adapter | None, module: nn.Module, arch: Architecture) -> nn.Module:
    if adapter is not None:
        merge(adapter, module, arch)
    return module


def find_dtype(name: str | None, device: torch.device) -> torch.dtype:
    """A dtype by name; the default is bfloat16 on a GPU and float32 on the CPU.

    Raises ModelError for an unknown name.
    """
    if name is None:
        return default_dtype(device)
    if name not in _DTYPES:
        raise ModelError(f"dtype {name!r} is not known; choose from {', '.join(_DTYPES)}")
    if name == "float64" and device.type == "mps":
        raise ModelError("dtype 'float64': MPS has none; use float32, or --device cpu")
    kind: torch.dtype = getattr(torch, name)
    return kind


def read_top_k(kind: str, folder: Path) -> int | None:
    """The top-k filter that Dream's own decoder applies to its logits, even in greedy decoding; other families have
    none.

    It is read from generation_config.json (published ones set none); without that file Dream's code uses transformers'
    default of 50.
    """
    if kind != "dream":
        return None
    path = folder / "generation_config.json"
    if not path.is_file():
        return 50
    try:
        top_k = json.loads(path.read_text(encoding="utf-8")).get("top_k")
        return int(top_k) if top_k else None
    except (ValueError, TypeError, AttributeError) as error:
        raise ModelError(f"{path} can't be read ({error}); download the checkpoint again") from error


def _assemble(
    entry: ModelEntry,
    options: LoadOptions,
    arch: Architecture,
    network: Network,
    module: nn.Module,
    tokenizer: Tokenizer,
    device: torch.device,
    dtype: torch.dtype,
    where: str,
    top_k: int | None,
    adapter: Adapter | None = None,
) -> MaskedModel:
    config: Any = arch.config
    eos_id = _needed("eos_id", _given(options.eos_id, entry.eos_id), arch.eos_id, where)
    shift = _given(options.shift, entry.shift)
    frequencies = find_frequencies(None if entry.dummy else Path(where), config.vocab_size)
    return MaskedModel(
        name=entry.name if adapter is None else f"{entry.name}+{adapter.folder.name}",
        network=network,
        tokenizer=tokenizer,
        mask_id=_needed("mask_id", _given(options.mask_id, entry.mask_id), arch.mask_id, where),
        eos_id=eos_id,
        vocab_size=config.vocab_size,
        shift=arch.shift if shift is None else shift,
        stop_ids=frozenset({eos_id, *entry.stop_ids}),
        limit=config.max_position_embeddings,
        top_k=top_k,
        device=decoding_device(device),
        info=plain_info(entry, options, arch.kind, module, dtype, config._attn_implementation)
        | {"top_k": top_k, "remote_code": isinstance(network, RemoteNetwork), "frequencies": digest(frequencies)}
        | ({"computes_on": "mps"} if device.type == "mps" else {})
        | ({} if arch.block is None else {"block": arch.block})
        | ({} if adapter is None else adapter.info),
        frequencies=frequencies,
        block=arch.block,
    )


def _settled(arch: Architecture, entry: ModelEntry, options: LoadOptions) -> Architecture:
    """The architecture with its block length: given, the entry's or config.json's; one that doesn't fit is a problem
    of the checkpoint.
    """
    block = _given(options.block, entry.block, arch.block)
    limit = getattr(arch.config, "max_position_embeddings", 0)
    problem = None
    if not arch.blocks:
        if options.block is not None:
            problem = f"block={options.block} for a model with full attention"
        block = None
    elif block is None:
        problem = "no block length (pass block=…, the length it was trained with)"
    elif type(block) is not int or not 1 <= block <= limit:
        problem, block = f"block length {block!r} (known: whole numbers from 1 to its {limit} positions)", None
    if arch.blocks and options.attn_implementation not in (None, "sdpa", "eager"):
        problem = f"attention {options.attn_implementation} has no block-causal mask (known: sdpa, eager)"
    return replace(arch, block=block, problems=(*arch.problems, *([problem] if problem else [])))


def _load_remote(
    entry: ModelEntry,
    options: LoadOptions,
    folder: Path,
    raw: Mapping[str, Any],
    device: torch.device,
    dtype: torch.dtype,
) -> MaskedModel:
    """Loads a model through the checkpoint's own code; only called with trust_remote_code."""
    from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer

    auto = AutoModelForCausalLM if "AutoModelForCausalLM" in raw["auto_map"] else AutoModel
    try:
        module: Any = auto.from_pretrained(folder, trust_remote_code=True, dtype=dtype)
        module = module.to(device).eval().requires_grad_(False)
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
    except (ImportError, OSError, ValueError, AttributeError, TypeError, RuntimeError) as error:
        why = f"{type(error).__name__}: {error}"
        raise ModelError(
            f"{folder}: the checkpoint's own code failed ({why}); drop trust_remote_code to load natively"
        ) from error
    config = module.config
    kind = str(raw.get("model_type"))
    arch = Architecture(
        kind,
        type(module),
        config,
        {},
        raw.get("mask_token_id"),
        raw.get("eos_token_id", raw.get("pad_token_id")),
        bool(raw.get("shift_logits", kind.lower() == "dream")),
    )
    if not hasattr(config, "max_position_embeddings"):
        config.max_position_embeddings = raw.get("max_sequence_length", 4096)
    words = FileTokenizer(tokenizer, entry.name, options.chat or entry.chat)
    top_k = read_top_k(kind.lower(), folder)
    return _assemble(entry, options, arch, RemoteNetwork(module), module, words, device, dtype, str(folder), top_k)


def plain_info(
    entry: ModelEntry, options: LoadOptions, kind: str, module: Any, dtype: torch.dtype, attention: str
) -> dict[str, Any]:
    """The model's description for the record; plain values only."""
    return {
        "source": entry.source or (entry.name if entry.dummy or entry.embedded else str(entry.folder)),
        "revision": options.revision or entry.revision,
        "family": kind,
        "parameters": count_parameters(module),
        "dtype": str(dtype).removeprefix("torch."),
        "attention": attention,
        "quantization": options.quantization,
        "embedded": entry.embedded,
        "dummy": entry.dummy,
        "layers": int(getattr(module.config.get_text_config(), "num_hidden_layers", 0)),
        "remote_code": False,
    }


def _given(*values: Any) -> Any:
    """The first that is not None."""
    return next((value for value in values if value is not None), None)


def _needed(what: str, first: int | None, second: int | None, where: str) -> int:
    value = _given(first, second)
    if value is None:
        key = "mask_token_id" if what == "mask_id" else "eos_token_id"
        raise ModelError(
            f"{where}: config.json has no {key}; pass {what}=… if this is a masked diffusion "
            "model; an autoregressive one is recognised by its architectures (…ForCausalLM), which are missing too"
        )
    return int(value)
