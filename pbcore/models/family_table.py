"""What is known of each family, for `pbcore models --long` and docs/models.md. Doesn't import torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from tabulate import tabulate

from pbcore.models.entry import ModelEntry
from pbcore.models.family_detection import recognised


@dataclass(frozen=True, slots=True)
class Facts:
    """A family: how it is loaded and decoded, and where that is known from."""

    loaded_as: str
    mask_id: str
    block_length: str
    logits: str
    cache: str
    threshold: str
    samplers: str
    known_from: str


_ANY = "all, with any blocks"
_BLOCKS = "all but `+rcr` and `wino`"
_CODE = "authors' code, run on small checkpoints"

FACTS: Mapping[str, Facts] = {
    "llada": Facts("Llama", "126336", "full attention", "as is", "changes answers", "≥", _ANY, "authors' code"),
    "dream": Facts("Qwen2", "151666", "full attention", "shifted", "changes answers", "≥", _ANY, "authors' code"),
    "sdar": Facts(
        "Qwen3", "151669", "4 (config.json)", "as is", "exact", ">", f"`sdar_*`; {_BLOCKS}", f"config.json; {_CODE}"
    ),
    "sdar_moe": Facts(
        "Qwen3-MoE", "151669", "4 (config.json)", "as is", "exact", ">", f"`sdar_*`; {_BLOCKS}", "SDAR's code"
    ),
    "fast_dllm_v2": Facts(
        "Qwen2",
        "151665",
        "32 (config.json)",
        "shifted within the block",
        "exact; `+dual` within a block changes answers",
        ">",
        "`fast_dllm_v2`; all but `+rcr`, `wino`, `joint`",
        _CODE,
    ),
    "stable_diffcoder": Facts(
        "Llama", "5", "4", "as is", "exact", "≥", f"`stable_diffcoder*`; {_BLOCKS}", f"published pages; {_CODE}"
    ),
    "llada_moe": Facts("Qwen3-MoE", "156895", "full attention", "as is", "changes answers", "≥", _ANY, _CODE),
    "llada2": Facts("Glm4-MoE", "156895", "32", "as is", "exact", ">", f"`llada2`, `joint`; {_BLOCKS}", _CODE),
    "sedd": Facts(
        "its own network",
        "behind the tokens; none with uniform noise",
        "full attention",
        "log-scores",
        "none",
        "–",
        "`analytic-s…`, `euler-s…`",
        _CODE,
    ),
}


def facts_of(entry: ModelEntry) -> Facts | None:
    """The facts of an entry's family, as far as its shape tells it; None for others."""
    if entry.family == "sedd":
        return FACTS["sedd"]
    if entry.shape is None:
        return FACTS["sdar"] if entry.block == 4 and entry.mask_id == 151669 else None
    return FACTS.get(recognised(entry.shape) or str(entry.shape.get("model_type", "")).lower())


def table() -> str:
    """The table in docs/models.md."""
    headers = ["family", *(field.name.replace("_", " ") for field in fields(Facts))]
    rows = [[f"`{name}`", *(getattr(facts, field.name) for field in fields(Facts))] for name, facts in FACTS.items()]
    return tabulate(rows, headers=headers, tablefmt="pipe", disable_numparse=True)
