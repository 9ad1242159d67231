"""Compares our loading of a checkpoint with the code that its authors published with it: logits on
three prompts.

T tokens, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from pbcore.base.errors import InputError
from pbcore.models.entry import LoadOptions
from pbcore.models.errors import ModelError
from pbcore.models.families import read_config, resembled
from pbcore.models.hub import locate
from pbcore.models.loading import load_masked, own_code
from pbcore.models.masked import MaskedModel
from pbcore.models.network import Columns
from pbcore.models.registry import resolve_model
from pbcore.models.tokenizer import NoTokenizer

PROMPTS = (
    "List three colours of the rainbow.",
    "def first_even(numbers):\n    for number in numbers:\n",
    "Translate into French: the waiting line is long, and the bus is late again.",
)
MASKED = 8  # the last tokens of each prompt are masks, as in decoding


@dataclass(frozen=True, slots=True)
class ComparedPrompt:
    """One prompt: its tokens, the largest difference of a logit, how many positions have the same
    likeliest token.
    """

    tokens: int
    difference: float
    same: int


def compare_with_remote(
    name: str, *, trust_remote_code: bool, device: str = "cpu", options: LoadOptions
) -> list[ComparedPrompt]:
    """Loads a checkpoint as pbcore does and through its authors' code, both in float32, and
    compares
    their logits.

    Args:
        name: the model's name.
        trust_remote_code: must be True, as the folder's code runs.
        device: where both compute.
        options: how it is loaded.

    Raises:
        InputError: without `trust_remote_code`, for models without a checkpoint and for one without
            code of its own.
        ModelError: if either can't be loaded or run.
    """
    entry = resolve_model(name)
    if entry.loaded_as != "masked" or entry.dummy:
        raise InputError(
            f"{name}: the check is for masked diffusion models with a checkpoint of their own"
        )
    folder = locate(entry, LoadOptions(revision=options.revision, trust_remote_code=True))
    raw = entry.config or read_config(folder)
    if not raw.get("auto_map"):
        raise InputError(
            f"{folder}: it brings no code (config.json has no auto_map), nothing to compare"
        )
    if not trust_remote_code:
        raise InputError(
            f"{name}: the check runs the code that comes with the checkpoint; look at it, then add"
            " --trust-remote-code"
        )
    # Whether it is what it resembles is what the check finds out.
    given = options.architecture or resembled(raw)
    ours = load_masked(entry, device, "float32", replace(options, architecture=given))
    theirs = own_code(folder, raw, torch.float32).to(device)
    return [_compared(ours, theirs, ids) for ids in _prompts(ours)]


def _prompts(model: MaskedModel) -> list[list[int]]:
    """The prompts' ids, from the tokenizer or, without one, drawn by their place; each ends with
    masks.
    """
    if isinstance(model.tokenizer, NoTokenizer):
        generator = torch.Generator().manual_seed(0)
        plain = [
            torch.randint(model.vocab_size, (n,), generator=generator).tolist() for n in (9, 16, 23)
        ]
    else:
        plain = [model.tokenizer.text(text) for text in PROMPTS]
    return [[*ids, *[model.mask_id] * MASKED] for ids in plain]


@torch.inference_mode()
def _compared(ours: MaskedModel, theirs: Any, ids: Sequence[int]) -> ComparedPrompt:
    row = torch.tensor([list(ids)], device=ours.device)  # (1, T)
    grid = torch.arange(row.shape[1], device=ours.device)
    sees = (
        None if ours.block is None else (grid // ours.block <= (grid // ours.block)[:, None])[None]
    )  # (1, T, T)
    mine = ours.network.project(ours.network.hidden(Columns(row, grid[None], sees)))[
        0
    ].float()  # (T, V)
    given: dict[str, Any] = {}
    if sees is not None and ours.info["family"] != "fast_dllm_v2":  # whose code makes its own mask
        lowest = torch.finfo(torch.float32).min
        given["attention_mask"] = torch.zeros(sees.shape, device=row.device).masked_fill_(
            ~sees, lowest
        )[:, None]
    try:
        other: Tensor = theirs(row, **given).logits[0].float()
    except Exception as error:  # whatever a stranger's code raises
        raise ModelError(
            f"its own code failed in a forward ({type(error).__name__}: {error})"
        ) from error
    if mine.shape != other.shape:
        raise ModelError(
            f"{ours.name}: our logits are {tuple(mine.shape)}, its own code's {tuple(other.shape)}"
        )
    same = int((mine.argmax(-1) == other.argmax(-1)).sum())
    return ComparedPrompt(row.shape[1], float((mine - other).abs().max()), same)
