"""Checkpoints store a projection per tensor; transformers' classes stack experts, and LLaDA2 fuses q, k and v.

E experts, I expert width, H model width.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

_FUSED = "query_key_value.weight"
_EXPERT = re.compile(r"(.*\.experts)\.(gate_up_proj|down_proj)")


@dataclass(frozen=True, slots=True)
class Slot:
    """Where one of a checkpoint's tensors goes: a whole tensor of the model, or `part` of one."""

    name: str
    shape: tuple[int, ...]
    part: tuple[Any, ...] | None = None
    buffer: bool = False


def slots(model: nn.Module) -> dict[str, Slot]:
    """The tensors that a checkpoint must have, by key, after renaming and splitting: a key per expert and projection.

    Buffers count if the model saves them (the router's bias).
    """
    saved = set(model.state_dict())
    result: dict[str, Slot] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        match = _EXPERT.fullmatch(name)
        if match is None:
            result[name] = Slot(name, tuple(parameter.shape))
        else:
            result |= _experts(match[1], match[2], name, tuple(parameter.shape))
    for name, buffer in model.named_buffers():
        if name in saved:
            result[name] = Slot(name, tuple(buffer.shape), buffer=True)
    return result


def _experts(prefix: str, kind: str, name: str, shape: tuple[int, ...]) -> dict[str, Slot]:
    """The slots of stacked experts: (E, 2I, H) holds gate then up, (E, H, I) down."""
    count, rows, columns = shape
    if kind == "down_proj":
        return {f"{prefix}.{e}.down_proj.weight": Slot(name, (rows, columns), (e,)) for e in range(count)}
    half = rows // 2
    halves = {"gate_proj": slice(0, half), "up_proj": slice(half, rows)}
    return {
        f"{prefix}.{e}.{projection}.weight": Slot(name, (half, columns), (e, part))
        for e in range(count)
        for projection, part in halves.items()
    }


def split(key: str, config: Any) -> Iterator[tuple[str, slice]]:
    """The keys that a renamed checkpoint key holds, and their rows: three for fused q, k and v, else itself."""
    if not key.endswith(_FUSED):
        yield key, slice(None)
        return
    heads, start = (
        {"q": config.num_attention_heads, "k": config.num_key_value_heads, "v": config.num_key_value_heads},
        0,
    )
    for letter, count in heads.items():
        stop = start + count * config.head_dim
        # The last one takes what is left, so that a tensor with too many rows has a wrong shape.
        yield key.removesuffix(_FUSED) + f"{letter}_proj.weight", slice(start, None if letter == "v" else stop)
        start = stop


def place(model: nn.Module, slot: Slot, tensor: Tensor) -> None:
    """Puts a tensor where it goes: as the parameter or buffer itself, or into its part of a stack."""
    parent, _, leaf = slot.name.rpartition(".")
    module = model.get_submodule(parent)
    if slot.part is None:
        setattr(module, leaf, tensor if slot.buffer else nn.Parameter(tensor, requires_grad=False))
        return
    stack: Tensor = getattr(module, leaf)
    if stack.is_meta:
        stack = nn.Parameter(torch.empty(stack.shape, dtype=tensor.dtype, device=tensor.device), requires_grad=False)
        setattr(module, leaf, stack)
    stack[slot.part] = tensor


def spread(shapes: Mapping[str, tuple[int, ...]], config: Any) -> dict[str, tuple[int, ...]]:
    """Shapes by key after `split`."""
    return {
        key: (len(range(shape[0])[rows]), *shape[1:]) if shape and rows != slice(None) else shape
        for fused, shape in shapes.items()
        for key, rows in split(fused, config)
    }
