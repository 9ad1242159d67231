"""What a checkpoint is by its config.json: a masked diffusion model, SEDD or an autoregressive one.

Doesn't import torch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pbcore.models.entry import ModelEntry
from pbcore.models.family_detection import block_length, recognised
from pbcore.models.sedd.config import is_sedd

CAUSAL, MASKED, SEDD = "causal", "masked", "sedd"
_DIFFUSION = ("llada", "dream", "sdar", "fast_dllm", "wedlm")  # a model_type of these families begins so
_CAUSAL_CLASSES = ("ForCausalLM", "LMHeadModel")


def family_of(config: Mapping[str, Any]) -> str:
    """`sedd` if config.json has the layout of SEDD's authors; `masked` if it is of a family that `marks` knows, names a
    mask token, switches causal attention off or has the type of a diffusion family; else `causal` if its architecture
    is one of transformers' for next tokens. Anything else is `masked`, whose loader says what is missing.
    """
    if is_sedd(config):
        return SEDD
    kind = str(config.get("model_type", "")).lower()
    if recognised(config) is not None:
        return MASKED
    if config.get("mask_token_id") is not None or config.get("is_causal") is False or kind.startswith(_DIFFUSION):
        return MASKED
    classes = config.get("architectures") or []
    return CAUSAL if any(str(name).endswith(_CAUSAL_CLASSES) for name in classes) else MASKED


def family_of_folder(folder: Path) -> str:
    """The family of a checkpoint folder; `masked` for a folder without a readable config.json."""
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return MASKED
    return family_of(config) if isinstance(config, dict) else MASKED


def block_of(entry: ModelEntry) -> int | None:
    """The block length of a block model, as far as it is known before it is loaded; None for other models."""
    if entry.block is not None:
        return entry.block
    if entry.shape is not None:
        return block_length(entry.shape)
    if entry.folder is None:
        return None
    try:
        config = json.loads((entry.folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return block_length(config) if isinstance(config, dict) else None


def family_of_hub(source: str, revision: str) -> str | None:
    """The family of a hub model whose config.json is in this machine's cache; None if it isn't."""
    from huggingface_hub import try_to_load_from_cache

    cached = try_to_load_from_cache(source, "config.json", revision=revision)
    return family_of_folder(Path(cached).parent) if isinstance(cached, str) else None
