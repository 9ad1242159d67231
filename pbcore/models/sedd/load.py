"""Loads SEDD checkpoints in their authors' layout, or a published shape with random weights."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from pbcore.models.checkpoints import shards
from pbcore.models.device import find_device
from pbcore.models.entry import LoadOptions, ModelEntry
from pbcore.models.errors import ModelError
from pbcore.models.families import read_config
from pbcore.models.hub import locate
from pbcore.models.loading import find_dtype
from pbcore.models.network import count_parameters
from pbcore.models.sedd.config import SeddConfig, read, to_json
from pbcore.models.sedd.model import Sedd
from pbcore.models.sedd.network import SeddNetwork
from pbcore.models.tokenizer import HashTokenizer, NoTokenizer, Tokenizer, read_tokenizer

TOKENIZER = "openai-community/gpt2"  # of the published checkpoints, which have no tokenizer files
ENDING = "\n\n"  # behind a prompt without a chat template, as the paper's code asks SEDD


def load_sedd(entry: ModelEntry, device: str, dtype: str | None, options: LoadOptions) -> Sedd:
    """The SEDD model of a registry entry; float32 unless a dtype is given. Raises ModelError that says what to do."""
    given = [f"{name}={value}" for name in _UNUSED if (value := getattr(options, name)) is not None]
    if given:
        raise ModelError(f"{entry.name}: SEDD has no use for {', '.join(given)}; leave it out")
    place = find_device(device)
    kind = find_dtype(dtype or "float32", place)
    if entry.dummy:
        config = read(entry.shape or {}, entry.name)
        network = _random(config, entry.layers)
        tokenizer: Tokenizer = HashTokenizer(config.tokens)
        eos_id: int | None = entry.eos_id if entry.eos_id is not None else config.tokens - 1
    else:
        folder = locate(entry, options)
        config = read(read_config(folder), str(folder))
        network, tokenizer, eos_id = _filled(config, folder), *_words(entry, options, folder)
    eos_id = options.eos_id if options.eos_id is not None else entry.eos_id if entry.eos_id is not None else eos_id
    if eos_id is None:
        raise ModelError(f"{entry.name}: it has no tokenizer that names its EOS; pass eos_id=…")
    network = network.to(device=place, dtype=kind).eval().requires_grad_(False)
    return Sedd(entry.name, network, tokenizer, eos_id, _info(entry, options, network, kind))


_UNUSED = ("quantization", "attn_implementation", "device_map", "mask_id", "shift")


def save(network: SeddNetwork, folder: Path, dtype: torch.dtype | None = None) -> None:
    """Writes weights, as they are or in another dtype, and config.json in the authors' layout."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(to_json(network.config), indent=2) + "\n", encoding="utf-8")
    weights = {key: value.detach().to("cpu", dtype).contiguous() for key, value in network.state_dict().items()}
    save_file(weights, folder / "model.safetensors")


def _filled(config: SeddConfig, folder: Path) -> SeddNetwork:
    """The network with a checkpoint's weights.

    Raises ModelError naming missing keys, unexpected keys and wrong shapes.
    """
    network = SeddNetwork(config)
    tensors: dict[str, Any] = {}
    for file in shards(folder):
        try:
            tensors |= load_file(file)
        except (SafetensorError, OSError) as error:
            raise ModelError(f"{file} can't be read ({error}); download it again") from error
    tensors.setdefault("rotary_emb.inv_freq", network.rotary_emb.inv_freq)
    try:
        network.load_state_dict(tensors)
    except RuntimeError as error:
        why = re.sub(r"\s+", " ", str(error).partition(":")[2]).strip()
        raise ModelError(f"{folder} doesn't match its config.json: {why}") from error
    return network


def _random(config: SeddConfig, layers: int | None) -> SeddNetwork:
    """Random weights of a shape, with no layer left at 0."""
    torch.manual_seed(0)
    network = SeddNetwork(config if layers is None else replace(config, blocks=layers))
    for parameter in network.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.02)
    return network


def _words(entry: ModelEntry, options: LoadOptions, folder: Path) -> tuple[Tokenizer, int | None]:
    """The tokenizer and its EOS: of the checkpoint's folder, else GPT-2's for a checkpoint of the hub."""
    tokenizer = read_tokenizer(folder, entry.name, options.chat or entry.chat, ENDING)
    if isinstance(tokenizer, NoTokenizer) and entry.source is not None:
        words = locate(ModelEntry(TOKENIZER, family="tokenizer", source=TOKENIZER, revision="main"), LoadOptions())
        tokenizer = read_tokenizer(words, entry.name, options.chat or entry.chat, ENDING)
    return tokenizer, tokenizer.eos_id


def _info(entry: ModelEntry, options: LoadOptions, network: SeddNetwork, dtype: torch.dtype) -> dict[str, Any]:
    config = network.config
    return {
        "source": entry.source or (entry.name if entry.dummy or entry.embedded else str(entry.folder)),
        "revision": options.revision or entry.revision,
        "family": "sedd",
        "graph": config.graph,
        "noise": config.noise,
        "parameters": count_parameters(network),
        "dtype": str(dtype).removeprefix("torch."),
        "attention": "sdpa",
        "quantization": None,
        "embedded": entry.embedded,
        "dummy": entry.dummy,
        "layers": config.blocks,
        "remote_code": False,
    }
