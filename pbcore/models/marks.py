"""What tells the families that share a body with transformers' own classes from each other.

LLaDA-MoE calls itself `llada` and Stable-DiffCoder `llama`, so `architectures` decides, and `model_type` alone only
where no other family has it. Doesn't import torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Marks:
    """A family's classes in `architectures` and `auto_map`, a `model_type` of its own, and config keys that only it
    has.
    """

    architectures: tuple[str, ...]
    model_type: str | None = None
    own: tuple[str, ...] = ()


MARKS: Mapping[str, Marks] = {
    "sdar": Marks(("SDARForCausalLM",), "sdar"),
    "sdar_moe": Marks(("SDARMoeForCausalLM",), "sdar_moe"),
    "fast_dllm_v2": Marks(("Fast_dLLM_QwenForCausalLM",), "fast_dllm_qwen", ("bd_size",)),
    "stable_diffcoder": Marks(("StableDiffcoderForCausalLM",)),
    "llada_moe": Marks(
        ("LLaDAMoEModelLM", "LLaDAMoEModel"), own=("expert_intermediate_size", "num_experts", "num_experts_per_tok")
    ),
    "llada2": Marks(("LLaDA2MoeModelLM",), "llada2_moe"),
}


def recognised(raw: Mapping[str, Any]) -> str | None:
    """The family that a config.json names by its classes, else by its model_type or own keys; None for others."""
    named = _classes(raw)
    for name, marks in MARKS.items():
        if named & {known.casefold() for known in marks.architectures}:
            return name
    kind = str(raw.get("model_type", "")).casefold()
    for name, marks in MARKS.items():
        if kind == marks.model_type or (marks.own and all(key in raw for key in marks.own)):
            return name
    return None


def _classes(raw: Mapping[str, Any]) -> set[str]:
    """The classes of `architectures` and `auto_map`, in lower case."""
    auto, listed = raw.get("auto_map"), raw.get("architectures")
    classes = [str(value).rpartition(".")[2] for value in auto.values()] if isinstance(auto, Mapping) else []
    return {str(name).casefold() for name in [*(listed if isinstance(listed, list) else []), *classes]}
