"""The rows of a batch while they decode, and the log of what became of them.

R rows, L canvas positions, A asked positions (masks at the start), C slots of the active block.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pbcore.models.base import Denoiser, Generation, Request


@dataclass(slots=True)
class Rows:
    """The rows still decoding. Every tensor has the row first, so that dropping rows is one selection."""

    origin: Tensor  # (R,) row in the batch
    key: Tensor  # (R,)
    canvas: Tensor  # (R, L)
    slots: Tensor  # (R, A) canvas position of each asked position, in order
    asked: Tensor  # (R,) number of asked positions
    block: Tensor  # (R,) active block
    index: Tensor  # (R,) steps had in this block
    nfe: Tensor  # (R,)
    hold: Tensor  # (R,) bool: stays in its block though it has no mask left there
    kept: dict[str, Tensor]  # what the policy remembers

    def select(self, rows: Tensor) -> Rows:
        """These rows only; `rows` (R',) are indices."""
        tensors = {name: getattr(self, name)[rows] for name in _TENSORS}
        return Rows(**tensors, kept={name: value[rows] for name, value in self.kept.items()})

    def active(self, size: int, prefix: bool = False) -> tuple[Tensor, Tensor, Tensor]:
        """The slots of each row's active block: place among the asked positions, canvas position, and whether the row has it (R, C).

        With `prefix` those of the blocks before it too.
        """
        start = torch.zeros_like(self.block) if prefix else self.block * size  # (R,)
        stop = torch.minimum((self.block + 1) * size, self.asked)  # (R,)
        width = int(self.block.max() + 1) * size if prefix else size
        place = start[:, None] + torch.arange(width, device=start.device)  # (R, C)
        inside = place < stop[:, None]
        place = place.clamp(max=self.slots.shape[1] - 1)
        return place, self.slots.gather(1, place), inside

    def in_block(self, size: int) -> Tensor:
        """How many slots (R,) each row's active block has."""
        return (self.asked - self.block * size).clamp(max=size)

    def block_of_first_mask(self, mask_id: int, size: int) -> Tensor:
        """The block (R,) of each row's first mask; one past the last for a row without any."""
        masks = self.canvas.gather(1, self.slots) == mask_id  # (R, A)
        masks &= torch.arange(masks.shape[1], device=masks.device) < self.asked[:, None]
        first = torch.where(masks.any(-1), masks.int().argmax(-1), masks.shape[1])
        return first // size

    def window(self, size: int) -> tuple[int, int]:
        """Where the active block lies in the canvas (start, stop), the same for all rows: up to the next block's first asked position."""
        block = int(self.block[0])
        start = int(self.slots[0, block * size]) if block else 0
        after = (block + 1) * size
        return start, int(self.slots[0, after]) if after < self.slots.shape[1] else self.canvas.shape[1]


_TENSORS = ("origin", "key", "canvas", "slots", "asked", "block", "index", "nfe", "hold")


@dataclass(slots=True)
class Log:
    """What becomes of each row of the batch, by its origin."""

    canvas: Tensor  # (R, L)
    steps: Tensor  # (R, L) step of the last reveal, -1 for given tokens
    confidences: Tensor  # (R, L)
    nfe: Tensor  # (R,)
    trajectories: list[list[tuple[int, ...]]] | None

    def record(self, rows: Rows) -> None:
        """Notes the canvases before a step, where trajectories are wanted."""
        if self.trajectories is not None:
            for origin, canvas in zip(rows.origin.tolist(), rows.canvas.tolist(), strict=True):
                self.trajectories[origin].append(tuple(canvas))

    def finish(self, rows: Rows) -> None:
        """Takes the final state of rows that are done."""
        self.canvas[rows.origin], self.nfe[rows.origin] = rows.canvas, rows.nfe

    def generation(self, model: Denoiser, request: Request, row: int) -> Generation:
        """One row's outcome, its padding cut off."""
        length = len(request.canvas)
        ids = tuple(self.canvas[row, :length].tolist())
        stops = getattr(model, "stop_ids", None) or {model.eos_id}
        trajectory = None
        if self.trajectories is not None:
            trajectory = (*(canvas[:length] for canvas in self.trajectories[row]), ids)
        text = model.text(ids)
        return Generation(
            text=text,
            token_ids=ids,
            nfe=int(self.nfe[row]),
            answer_tokens=next((i for i, token in enumerate(ids) if token in stops), length),
            steps=tuple(self.steps[row, :length].tolist()),
            confidences=tuple(self.confidences[row, :length].tolist()),
            trajectory=trajectory,
            official_text=_text_past_eos(model, ids, stops, text),
        )


def _text_past_eos(model: Denoiser, ids: Sequence[int], stops: Collection[int], text: str) -> str | None:
    """The whole canvas as text where some of it follows the first EOS; None where nothing does, or the model can't say."""
    whole = getattr(model, "whole_text", None)
    first = next((i for i, token in enumerate(ids) if token in stops), len(ids))
    if whole is None or all(token in stops for token in ids[first:]):
        return None
    official = str(whole(ids))
    return None if official == text else official


def start(model: Denoiser, requests: Sequence[Request], record: bool) -> tuple[Rows, Log]:
    """Canvases side by side; shorter ones are padded on the right with EOS, which is never asked for."""
    length = max(len(request.canvas) for request in requests)
    padded = [[*request.canvas, *[model.eos_id] * (length - len(request.canvas))] for request in requests]
    canvas = torch.tensor(padded, dtype=torch.long, device=model.device)  # (R, L)
    mask = canvas == model.mask_id
    asked = mask.sum(-1)  # (R,)
    widest = max(1, int(asked.max()))
    slots = mask.int().argsort(dim=-1, descending=True, stable=True)[:, :widest]  # (R, A): asked positions first
    zeros = torch.zeros_like(asked)
    key = torch.tensor([request.key for request in requests], device=model.device)
    origin = torch.arange(len(requests), device=model.device)
    rows = Rows(origin, key, canvas, slots, asked, zeros, zeros.clone(), zeros.clone(), zeros.bool(), {})
    confidences = torch.zeros(canvas.shape, device=model.device)
    trajectories: list[list[tuple[int, ...]]] | None = [[] for _ in requests] if record else None
    return rows, Log(canvas.clone(), torch.full_like(canvas, -1), confidences, zeros.clone(), trajectories)


def join(parts: Sequence[Rows]) -> Rows:
    """The parts of a batch together again, in the batch's order. Raises KeyError where they don't remember the same things."""
    order = torch.cat([part.origin for part in parts]).argsort()
    tensors = {name: torch.cat([getattr(part, name) for part in parts])[order] for name in _TENSORS}
    names = sorted(set().union(*(part.kept for part in parts)))
    return Rows(**tensors, kept={name: torch.cat([part.kept[name] for part in parts])[order] for name in names})
