"""What tells the families that share a body with transformers' own classes from each other.

LLaDA-MoE calls itself `llada` and Stable-DiffCoder `llama`, so `architectures` decides, and `model_type` only where no
other family has it. Doesn't import torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Marks:
    """A family's classes in `architectures` and `auto_map`, a `model_type` of its own, and config keys that only it
    has.

    A family of `blocks` has block-causal attention; `block_key` names its block length in config.json, and `block` is
    that of its authors' code where there is none. Other families have full attention.
    """

    architectures: tuple[str, ...]
    model_type: str | None = None
    own: tuple[str, ...] = ()
    blocks: bool = True
    block_key: str | None = None
    block: int | None = None

    def block_of(self, raw: Mapping[str, Any]) -> Any:
        """The block length that a config.json says, else that of the authors' code; None for neither."""
        return raw.get(self.block_key, self.block) if self.block_key else self.block


MARKS: Mapping[str, Marks] = {
    "sdar": Marks(("SDARForCausalLM",), "sdar", block_key="block_size"),
    "sdar_moe": Marks(("SDARMoeForCausalLM",), "sdar_moe", block_key="block_size"),
    "fast_dllm_v2": Marks(("Fast_dLLM_QwenForCausalLM",), "fast_dllm_qwen", ("bd_size",), block_key="bd_size"),
    "stable_diffcoder": Marks(("StableDiffcoderForCausalLM",), block=4),
    "llada_moe": Marks(
        ("LLaDAMoEModelLM", "LLaDAMoEModel"),
        own=("expert_intermediate_size", "num_experts", "num_experts_per_tok"),
        blocks=False,
    ),
    "llada2": Marks(("LLaDA2MoeModelLM",), "llada2_moe", block=32),
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


def block_length(raw: Mapping[str, Any]) -> int | None:
    """The block length of a checkpoint by its config.json; None for full attention or where nothing says it."""
    family = recognised(raw)
    block = MARKS[family].block_of(raw) if family else None
    return block if type(block) is int else None
