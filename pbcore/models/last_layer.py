"""A transformer's last layer for the columns that are read: queries, attention and MLP skip the prompt.

Only the canvas columns' hidden states reach the output projection, so the last layer needs keys and values of all
columns but queries and an MLP of the canvas alone. With prompts three times as long as answers that is half of the
layer's work or more. R rows, T columns, A skipped columns, H width, D width of a head.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn


class LastLayer:
    """Wraps the last layer of a transformers model without replacing it: the layer's own code runs on the columns that
    aren't skipped, and sees the keys and values of the columns before them through a cache of this one call."""

    def __init__(self, layer: Any) -> None:
        self._skip = 0
        layer.register_forward_pre_hook(self._narrow, with_kwargs=True)

    @contextmanager
    def skipping(self, columns: int) -> Iterator[None]:
        """Forwards run in this context leave out the first `columns` columns."""
        self._skip = columns
        try:
            yield
        finally:
            self._skip = 0

    def _narrow(self, layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any] | None:
        if not (skip := self._skip):
            return None
        (states,) = args  # (R, T, H)
        cos, sin = kwargs["position_embeddings"]  # (R, T, D)
        mask = kwargs["attention_mask"]  # (R, 1, T, T), (R, 1, 1, T) if the same for all queries, or None
        rest = _Rest(layer, states[:, :skip], cos[:, :skip], sin[:, :skip])
        narrow = {
            "position_embeddings": (cos[:, skip:], sin[:, skip:]),
            "attention_mask": mask if mask is None or mask.shape[2] == 1 else mask[:, :, skip:],
            "position_ids": kwargs["position_ids"][:, skip:],
            "past_key_values": rest,
        }
        return (states[:, skip:],), {**kwargs, **narrow}


class _Rest:
    """Keys and values of the skipped columns, in the place of a KV cache."""

    def __init__(self, layer: Any, states: Tensor, cos: Tensor, sin: Tensor) -> None:
        attention = layer.self_attn
        states = layer.input_layernorm(states)  # (R, A, H)
        shape = (*states.shape[:-1], -1, attention.head_dim)
        keys = attention.k_proj(states).view(shape)
        if hasattr(attention, "k_norm"):
            keys = attention.k_norm(keys)
        keys = keys.transpose(1, 2)  # (R, heads, A, D)
        self._keys = _rotate(attention)(keys, keys, cos, sin)[1]
        self._values = attention.v_proj(states).view(shape).transpose(1, 2)

    def update(self, keys: Tensor, values: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """All columns' keys and values (R, heads, T, D)."""
        return torch.cat([self._keys, keys], dim=2), torch.cat([self._values, values], dim=2)


def _rotate(attention: Any) -> Any:
    """The rotary function that this attention's own module uses; None for an attention of another build."""
    return getattr(sys.modules[type(attention).__module__], "apply_rotary_pos_emb", None)


def last_layer(module: nn.Module) -> LastLayer | None:
    """The model's last layer, able to skip columns, or None where the attention is of another build, its kernel takes
    other masks, or layers lie on several devices."""
    whole: Any = module
    if whole.config._attn_implementation not in ("sdpa", "eager") or getattr(whole, "hf_device_map", None):
        return None
    layer = whole.model.layers[-1]
    attention = getattr(layer, "self_attn", None)
    known = all(hasattr(attention, name) for name in ("q_proj", "k_proj", "v_proj", "head_dim"))
    return LastLayer(layer) if known and _rotate(attention) is not None else None
