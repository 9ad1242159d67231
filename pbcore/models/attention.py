"""Attention weights for the decoding loop: what a policy asks for, and how they are read while a
forward runs.

The network's own kernel computes the layer's output, so reading changes no answer; the weights of
the asked layers are computed beside it, from queries and keys after RoPE, for the asked columns
alone.

R rows, C slots, T columns (prompt and canvas), h heads, D width of a head.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from pbcore.models.base import Attending, Attention

NAME = "pbcore_reads_attention"
_READER: "ContextVar[AttentionReader | None]" = ContextVar("reader", default=None)
QUERIES = 256  # query columns at once where all of them count


@dataclass(slots=True)
class AttentionReader:
    """Adds up the asked layers' weights. `slots` (R, C) are columns of the T; padding is False in
    `seen` (R, T).
    """

    asked: Attending
    slots: Tensor
    seen: Tensor
    layers: range = range(0)
    _sum: Tensor | None = None  # (R, C, C), or (R, C, T)
    _sinks: Tensor | None = None  # (R, T)

    def add(
        self, layer: int, query: Tensor, key: Tensor, mask: Tensor | None, scaling: float
    ) -> None:
        """Reads the attention of a layer.

        Args:
            layer: its number.
            query: (R, h, T, D).
            key: (R, g, T, D).
            mask: (R, 1, 1 or T, T) as SDPA takes it.
            scaling: of the products.
        """
        if layer not in self.layers:
            return
        self.slots, self.seen = self.slots.to(query.device), self.seen.to(query.device)
        key = key.repeat_interleave(query.shape[1] // key.shape[1], dim=1).float()
        weights = self._weights(query, key, mask, scaling, self.slots)  # (R, C, T)
        if not self.asked.prompt:
            weights = weights.gather(-1, self.slots[:, None, :].expand(-1, self.slots.shape[1], -1))
        self._sum = weights if self._sum is None else self._sum + weights
        if self.asked.sinks:
            received = torch.zeros_like(self.seen, dtype=torch.float)
            for start in range(0, query.shape[2], QUERIES):
                part = torch.arange(
                    start, min(start + QUERIES, query.shape[2]), device=query.device
                )
                columns = part.expand(len(query), -1)
                real = self.seen.gather(-1, columns)[..., None]
                received += (self._weights(query, key, mask, scaling, columns) * real).sum(1)
            received /= self.seen.sum(-1, keepdim=True)
            self._sinks = received if self._sinks is None else self._sinks + received

    def _weights(
        self, query: Tensor, key: Tensor, mask: Tensor | None, scaling: float, columns: Tensor
    ) -> Tensor:
        """Softmax in float32 (R, Q, T) of the query columns (R, Q), mean over heads."""
        index = columns[:, None, :, None].expand(-1, query.shape[1], -1, query.shape[-1])
        scores = query.gather(2, index).float() @ key.transpose(-1, -2) * scaling  # (R, h, Q, T)
        if mask is not None:
            rows = mask.expand(len(query), -1, query.shape[2], -1)
            mask = rows.gather(
                2, columns[:, None, :, None].expand(-1, rows.shape[1], -1, rows.shape[-1])
            )
            scores = (
                scores.masked_fill(~mask, -torch.inf)
                if mask.dtype == torch.bool
                else scores + mask.float()
            )
        return scores.softmax(-1).mean(1)

    def attention(self, visible: Tensor, prompt: int) -> Attention:
        """The mean over the layers that were read; `visible` (R, T) and `prompt` are those of
        `Attention`.
        """
        assert self._sum is not None, "no layer was read"
        count = len(self.layers)
        sinks = None if self._sinks is None else (self._sinks / count).to(visible.device)
        return Attention((self._sum / count).to(visible.device), visible, prompt, sinks)


@contextmanager
def reading(module: nn.Module, reader: AttentionReader | None) -> Iterator[None]:
    """Forwards of a transformers model in this context are read by the reader, if there is one."""
    if reader is None:
        yield
        return
    whole: Any = module
    config = whole.config
    before = config._attn_implementation
    token = _READER.set(reader)
    reader.layers = reader.asked.layers(len(whole.model.layers))
    try:
        _register()
        config._attn_implementation = NAME
        yield
    finally:
        config._attn_implementation = before
        _READER.reset(token)


def _register() -> None:
    """Makes the reading kernel known to transformers: its SDPA kernel and masks, with a look at
    queries and keys.
    """
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    from transformers.masking_utils import sdpa_mask

    if NAME in AttentionInterface._global_mapping:
        return

    def read(
        module: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None,
        **settings: Any,
    ) -> Any:
        reader = _READER.get()
        if reader is not None:
            scaling = settings.get("scaling") or query.shape[-1] ** -0.5
            reader.add(module.layer_idx, query, key, attention_mask, scaling)
        return sdpa_attention_forward(module, query, key, value, attention_mask, **settings)

    AttentionInterface.register(NAME, read)
    AttentionMaskInterface.register(NAME, sdpa_mask)
