"""Models for the checks: on the device and on the CPU, each loaded once a step; prompts of random
ids; the golden checkpoints.
"""

import gc
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from pbcore.base.errors import InputError
from pbcore.extras.check.gpu.steps import Setup
from pbcore.models import load_model, resolve_model
from pbcore.models.catalog import availability
from pbcore.models.masked import MaskedModel

CPU = torch.device("cpu")
GOLDEN = "llada-tiny"  # by which a folder of golden checkpoints is known


def on_hand(name: str) -> str:
    """The name of a model that is on this machine. Raises InputError for one that would be
    downloaded, ModelError for an unknown name.
    """
    entry = resolve_model(name)
    if availability(entry) == "download" and not entry.dummy:
        dummy = entry.dummy_name
        instead = f" or check {dummy}, its shape with random weights" if dummy else ""
        raise InputError(
            f"{name} isn't on this machine, and pbcore check gpu downloads nothing; run `hf"
            f" download {entry.source}` first{instead}"
        )
    return name


def timed_model(setup: Setup) -> MaskedModel | None:
    """The model of the timed steps on the device; None if it isn't a masked model, which alone are
    timed.
    """
    loaded = load_model(setup.model, str(setup.device), setup.dtype)
    return loaded if isinstance(loaded, MaskedModel) else None


def release(device: torch.device) -> None:
    """Gives the memory of models that nothing refers to any longer back to the device."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def random_prompts(model: Any, rows: int, length: int) -> list[list[int]]:
    """Prompts of random ids of the vocabulary, without the mask and the EOS; the same for every
    device.

    Args:
        model: has the vocabulary; the first 1,000 ids are used.
        rows: how many prompts.
        length: ids of each.
    """
    draw = random.Random(0)
    special = {model.mask_id, model.eos_id}
    ids = [token for token in range(2, min(model.vocab_size, 1000)) if token not in special]
    return [draw.choices(ids, k=length) for _ in range(rows)]


def golden_folders() -> Iterator[Path]:
    """Folders that may hold golden checkpoints: tests/reference of a clone, $PBCORE_REFERENCE."""
    yield Path(__file__).resolve().parents[4] / "tests" / "reference"
    yield Path("tests") / "reference"
    named = os.environ.get("PBCORE_REFERENCE")
    if named:
        yield Path(named)


def golden_folder() -> Path | None:
    """The first folder with golden checkpoints and decodings; None without any."""
    for folder in golden_folders():
        if (folder / GOLDEN / "config.json").is_file() and list(folder.glob("decode_llada.json*")):
            return folder
    return None
