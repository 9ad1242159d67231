"""Loads masked models: checkpoints natively or by their own code, published shapes with random
weights.
"""

import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from pbcore.models.adapter import Adapter, merge_adapter, read_adapter
from pbcore.models.architecture import Architecture, architecture, refusal
from pbcore.models.checkpoints import (
    load_weights,
    load_with_transformers,
    quantized_as,
    random_weights,
    refuse_odd_numbers,
)
from pbcore.models.device import find_dtype, network_device
from pbcore.models.entry import LoadOptions, ModelEntry
from pbcore.models.errors import UNREADABLE, ModelError
from pbcore.models.families import FAMILIES, Family, read_config
from pbcore.models.frequencies import find_table as find_frequencies
from pbcore.models.frequencies import table_digest
from pbcore.models.hub import locate
from pbcore.models.identity import ModelFiles, model_files
from pbcore.models.info import ModelInfo
from pbcore.models.masked import MaskedModel
from pbcore.models.memory import keep_freed_memory
from pbcore.models.network import NativeNetwork, RemoteNetwork, count_parameters
from pbcore.models.onednn import with_onednn
from pbcore.models.token_ids import GENERATION_CONFIG, TokenIds, read_generation_config
from pbcore.models.tokenizer import HashTokenizer, Tokenizer, read_tokenizer
from pbcore.models.windows import window_problems

_NONE = Family(body="")  # of a checkpoint that is of no family's


def load_masked(
    entry: ModelEntry, device: str, dtype: str | None, options: LoadOptions
) -> MaskedModel:
    """The masked model of a registry entry.

    Args:
        device: such as `cpu` or `cuda:0`.
        dtype: None: bfloat16 on a GPU, float32 on the CPU.
        options: how it is loaded.

    Raises:
        ModelError: says what to do.
    """
    place = network_device(device)
    kind = find_dtype(dtype, place)
    if place.type == "cpu":
        keep_freed_memory()
    adapter = None if options.adapter is None else read_adapter(Path(options.adapter).expanduser())
    folder = None if entry.dummy else locate(entry, options)
    files = None if folder is None else model_files(entry, folder, options)
    where = entry.name if folder is None else str(folder)
    raw = entry.shape or {} if folder is None else entry.config or read_config(folder)
    own: RemoteNetwork | None = None
    own_runs = folder is not None and options.trust_remote_code and bool(raw.get("auto_map"))
    try:
        arch = _described(raw, where, entry, options, own_runs)
    except ModelError:
        if folder is None or not own_runs:
            raise
        own = _with_own_code(folder, raw, options, kind, place)
        arch = _own_architecture(own.module, raw)
    config: Any = arch.config
    family = FAMILIES.get(arch.kind.lower(), _NONE)
    ids = TokenIds(entry, options, raw, arch.kind, config.vocab_size, where, folder)
    words = _words(ids, family, own is not None)
    network = own or NativeNetwork(_native(arch, folder, raw, place, kind, options, adapter))
    if own is None and (
        options.quantization or options.device_map or raw.get("quantization_config")
    ):
        place = next(network.module.parameters()).device
    top_k = None if folder is None else read_top_k(arch.kind.lower(), folder)
    frequencies = find_frequencies(folder, config.vocab_size)
    delimiters = ids.delimiter_ids(words.tokenizer.line_breaks())
    shifts = (options.shift, entry.shift, arch.shift)
    info: ModelInfo = {
        **plain_info(entry, options, arch.kind, network.module, kind, files),
        "stop_ids": list(words.stops),
        "top_k": top_k,
        "remote_code": own is not None,
        "frequencies": table_digest(frequencies),
        **_where_it_matters(entry, options, delimiters, place, arch.block),
        **({} if adapter is None else adapter.info),
    }
    return MaskedModel(
        name=entry.name if adapter is None else f"{entry.name}+{adapter.folder.name}",
        network=network,
        tokenizer=words.tokenizer,
        mask_id=words.mask_id,
        eos_id=words.stops[0],
        vocab_size=config.vocab_size,
        shift=next(shift for shift in shifts if shift is not None),
        stop_ids=frozenset(words.stops),
        limit=config.max_position_embeddings,
        top_k=top_k,
        device=torch.device("cpu") if place.type == "mps" else place,
        info=info,
        frequencies=frequencies,
        block=arch.block,
        files=files,
        ranks=family.ranks,
        delimiter_ids=delimiters,
        grid=family.grid,
        counts_mask=family.counts_mask,
    )


def _with_own_code(
    folder: Path,
    raw: Mapping[str, Any],
    options: LoadOptions,
    kind: torch.dtype,
    place: torch.device,
) -> RemoteNetwork:
    """The network of a folder by its own code, which a warning says. Raises ModelError."""
    _check_own_code(folder, options)
    warnings.warn(
        f"{folder}: its own code runs (trust_remote_code), and reads its config.json itself",
        stacklevel=3,
    )
    module = own_code(folder, raw, kind)
    refuse_odd_numbers(module, folder)
    return RemoteNetwork(module.to(place))


def _described(
    raw: Mapping[str, Any], where: str, entry: ModelEntry, options: LoadOptions, strict: bool
) -> Architecture:
    """The architecture that a config.json describes; what is to be said of it is a warning.

    Args:
        raw: the content of config.json.
        where: names the file in errors.
        entry: the registry entry.
        options: what the user gave.
        strict: refuses also what would be named together with problems of the weights.

    Raises:
        ModelError: for a model that pbcore doesn't know.
    """
    given = options.architecture or entry.architecture  # by the user or the table of models
    arch = with_block(architecture(raw, where, entry.layers, given), entry, options)
    if arch.refused or (strict and arch.problems):
        raise ModelError(refusal(arch, where))
    for note in () if entry.dummy else arch.notes:  # sizes alone are asked for before
        warnings.warn(f"{where}: {note}", stacklevel=2)
    return arch


def _where_it_matters(
    entry: ModelEntry,
    options: LoadOptions,
    delimiters: Collection[int],
    place: torch.device,
    block: int | None,
) -> ModelInfo:
    """Facts for records that most models don't have."""
    info: ModelInfo = {}
    if (options.delimiter_ids, entry.delimiter_ids) != (None, None):
        info["delimiter_ids"] = sorted(delimiters)
    if place.type == "mps":
        info["computes_on"] = "mps"
    if block is not None:
        info["block"] = block
    return info


class _Words(NamedTuple):
    """A tokenizer, the mask token and those that end an answer, the EOS first."""

    tokenizer: Tokenizer
    mask_id: int
    stops: Sequence[int]


def _words(ids: TokenIds, family: Family, own_code: bool) -> _Words:
    """The tokens of a checkpoint, or made ones for random weights.

    Args:
        ids: what names them.
        family: the checkpoint's, which may say by what text its tokenizer knows the mask.
        own_code: whether a checkpoint's own code runs, that of its tokenizer, too.

    Raises:
        ModelError: for a tokenizer that can't be read, and tokens that nothing names.
    """
    if ids.folder is None:
        mask_id = ids.mask_id()
        stops = ids.stop_ids(mask_id, None)
        return _Words(HashTokenizer(min(mask_id, stops[0])), mask_id, stops)
    name = ids.entry.name
    chat = ids.options.chat or ids.entry.chat
    tokenizer = read_tokenizer(ids.folder, name, chat, auto=own_code, trust_remote_code=own_code)
    named = None
    if family.mask_token is not None:
        named = tokenizer.mask_id
        if named is None:
            named = tokenizer.words().get(family.mask_token)
    mask_id = ids.mask_id(named)
    return _Words(tokenizer, mask_id, ids.stop_ids(mask_id, tokenizer.eos_id))


def _native(
    arch: Architecture,
    folder: Path | None,
    raw: Mapping[str, Any],
    place: torch.device,
    kind: torch.dtype,
    options: LoadOptions,
    adapter: Adapter | None,
) -> nn.Module:
    """transformers' module with a folder's weights, or random ones, and the adapter merged into
    them.
    """
    quantized = folder is not None and bool(options.quantization or quantized_as(raw, folder))
    if adapter is not None and quantized:
        raise ModelError(
            f"{folder}: an adapter can't be merged into quantized weights; load them in full"
        )
    by_transformers = folder is not None and (quantized or options.device_map is not None)
    if folder is None:
        module = random_weights(arch, place, kind, options.attn_implementation)
    elif by_transformers:
        module = load_with_transformers(arch, folder, place, kind, options)
    else:
        module = load_weights(arch, folder, place, kind, options.attn_implementation)
    if adapter is not None:
        merge_adapter(adapter, module, arch)
    return module if by_transformers else with_onednn(module)


def read_top_k(kind: str, folder: Path) -> int | None:
    """The top-k filter that Dream's own decoder applies to its logits, even in greedy decoding;
    other families have none. It is in generation_config.json (published ones set none), else
    transformers' default of 50.
    """
    if kind != "dream":
        return None
    path = folder / GENERATION_CONFIG
    if not path.is_file():
        return 50
    top_k = read_generation_config(folder).get("top_k")
    try:
        return int(top_k) if top_k else None
    except (ValueError, TypeError) as error:
        raise ModelError(
            f"{path} can't be read ({error}); download the checkpoint again"
        ) from error


def with_block(arch: Architecture, entry: ModelEntry, options: LoadOptions) -> Architecture:
    """The architecture with its block length: the one given, the entry's or config.json's.

    Args:
        arch: the architecture.
        entry: the registry entry.
        options: what the user gave.

    Returns:
        The architecture; a block length or layer types that don't fit are among its `problems`.
    """
    block = next(
        (size for size in (options.block, entry.block, arch.block) if size is not None), None
    )
    limit = getattr(arch.config, "max_position_embeddings", 0)
    problem = None
    blocks = arch.blocks or (arch.may_have_blocks and block is not None)
    if not blocks:
        if options.block is not None:
            problem = f"block={options.block} for a model with full attention"
        block = None
    elif block is None:
        problem = "no block length (pass block=…, the length it was trained with)"
    elif type(block) is not int or not 1 <= block <= limit:
        problem = f"block length {block!r} (known: whole numbers from 1 to its {limit} positions)"
        block = None
    if blocks and options.attn_implementation not in (None, "sdpa", "eager"):
        problem = (
            f"attention {options.attn_implementation} has no block-causal mask (known: sdpa, eager)"
        )
    problems = [*arch.problems, *window_problems(arch.config, options.attn_implementation)]
    if problem is not None:
        problems.append(problem)
    return replace(arch, blocks=blocks, block=block, problems=tuple(problems))


def _check_own_code(folder: Path, options: LoadOptions) -> None:
    """Raises ModelError for options that a checkpoint's own code would silently ignore."""
    ignored = {
        "adapter": "merge it into the weights first, with peft's merge_and_unload, and load those",
        "quantization": "leave it out",
        "device_map": "leave it out and give device",
        "attn_implementation": "leave it out; config.json may name one",
        "block": "leave it out; its code has its own mask",
    }
    for name, remedy in ignored.items():
        value = getattr(options, name)
        if value is not None:
            raise ModelError(
                f"{folder}: {name} {value!r} can't be applied to a checkpoint's own code"
                f" (trust_remote_code); {remedy}"
            )


def own_code(folder: Path, raw: Mapping[str, Any], dtype: torch.dtype) -> Any:
    """The module that the code in a checkpoint's folder makes; only called with trust_remote_code.

    Args:
        folder: the checkpoint.
        raw: the content of config.json.
        dtype: of the weights.
    """
    from transformers import AutoModel, AutoModelForCausalLM

    auto: Any = AutoModelForCausalLM if "AutoModelForCausalLM" in raw["auto_map"] else AutoModel
    try:
        return (
            auto.from_pretrained(folder, trust_remote_code=True, dtype=dtype)
            .eval()
            .requires_grad_(False)
        )
    except UNREADABLE as error:
        raise ModelError(
            f"{folder}: its own code can't be loaded ({type(error).__name__}: {error})"
        ) from error


def _own_architecture(module: Any, raw: Mapping[str, Any]) -> Architecture:
    """What decoding needs to know of a module of a checkpoint's own code."""
    kind = str(raw.get("model_type"))
    config = module.config
    if not hasattr(config, "max_position_embeddings"):
        config.max_position_embeddings = raw.get("max_sequence_length", 4096)
    shift = bool(raw.get("shift_logits", kind.lower() == "dream"))
    return Architecture(kind, type(module), config, {}, shift)


def plain_info(
    entry: ModelEntry,
    options: LoadOptions,
    kind: str,
    module: Any,
    dtype: torch.dtype,
    files: ModelFiles | None = None,
) -> ModelInfo:
    """A model's description for the record, plain values only.

    Args:
        entry: the registry entry.
        options: how it was loaded.
        kind: how it answers.
        module: its network.
        dtype: of its weights.
        files: what it was loaded from; None: random weights.
    """
    config = module.config
    sizes = config.get_text_config() if hasattr(config, "get_text_config") else config
    source = entry.source
    if not source:
        source = entry.name if entry.dummy or entry.embedded else str(entry.folder)
    revision = None if files is None else files.revision
    declared: ModelInfo = {}
    if options.architecture is not None:
        declared["architecture"] = options.architecture
    return {
        **declared,
        "source": source,
        "revision": revision or options.revision or entry.revision,
        "family": kind,
        "parameters": count_parameters(module),
        "dtype": str(dtype).removeprefix("torch."),
        "attention": getattr(config, "_attn_implementation", "sdpa"),
        "quantization": options.quantization,
        "embedded": entry.embedded,
        "dummy": entry.dummy,
        "layers": int(getattr(sizes, "num_hidden_layers", 0)),
        "remote_code": False,
    }
