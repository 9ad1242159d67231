"""Copies to a device and selections on it that don't make the host wait for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pbcore.base.lazy_torch import Tensor, torch


def on_device(values: Tensor | Sequence[Any], device: torch.device) -> Tensor:
    """A tensor of the CPU, or of whole numbers or truths. On a GPU it is copied from pinned memory
    while the host goes on.
    """
    made = values if isinstance(values, Tensor) else torch.tensor(values)
    if made is not values and made.is_floating_point():  # of no number at all
        made = made.long()
    if device.type != "cuda":
        return made.to(device)
    return made.pin_memory().to(device, non_blocking=True)


def places(marked: Tensor, count: int | None) -> Tensor:
    """The marked entries' places (N,) in the flattened tensor. Their `count`, where the host knows
    it, spares a wait.
    """
    flat = marked.flatten()
    if count is None:
        return flat.nonzero().squeeze(-1)
    return torch.nonzero_static(flat, size=count).squeeze(-1)


def gather_entries(values: Tensor, at: Tensor) -> Tensor:
    """The entries (N, …) of values (R, B, …) at these places of the flattened first two axes."""
    return values.flatten(0, 1)[at]


def narrow_context(context: Any, rows: Tensor, numbers: Sequence[int]) -> None:
    """Narrows a context to some rows.

    Args:
        context: of a batch. One that `knows_rows` also gets `numbers`, and needn't wait for them.
        rows: (R',) indices.
        numbers: the same on the host.
    """
    if getattr(context, "knows_rows", False):
        context.keep(rows, numbers)
    else:
        context.keep(rows)
