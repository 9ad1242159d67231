"""The decoding loop: one batch of canvases, one policy, blocks left to right, one forward a step, until no mask is left.

R rows, L canvas positions, A asked positions (masks at the start), C slots of the active block, M candidates, V tokens. Rows are
independent: each has its own block, step count and draws, and leaves the batch when it is done, so a result never depends on the batch.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pbcore.decoding.draws import categorical, uniform
from pbcore.decoding.policies import Policy
from pbcore.decoding.schedule import quota
from pbcore.decoding.step import Move, Step, pieces_of
from pbcore.models.base import Context, Denoiser, Generation, Query, Request
from pbcore.names import SamplerName


class DecodingError(RuntimeError):
    """A decoding that can't go on: logits that are no numbers, or a policy that breaks its protocol."""


@dataclass(slots=True)
class _Rows:
    """The rows still decoding. Every tensor has the row first, so that dropping rows is one selection."""

    origin: Tensor  # (R,) row in the batch
    key: Tensor  # (R,)
    canvas: Tensor  # (R, L)
    slots: Tensor  # (R, A) canvas position of each asked position, in order
    asked: Tensor  # (R,) number of asked positions
    block: Tensor  # (R,) active block
    index: Tensor  # (R,) steps had in this block
    nfe: Tensor  # (R,)
    kept: dict[str, Tensor]  # what the policy remembers

    def select(self, rows: Tensor) -> _Rows:
        tensors = {name: getattr(self, name)[rows] for name in _TENSORS}
        return _Rows(**tensors, kept={name: value[rows] for name, value in self.kept.items()})


_TENSORS = ("origin", "key", "canvas", "slots", "asked", "block", "index", "nfe")


@dataclass(slots=True)
class _Log:
    """What becomes of each row of the batch, by its origin."""

    canvas: Tensor  # (R, L)
    steps: Tensor  # (R, L) step of the last reveal, -1 for given tokens
    confidences: Tensor  # (R, L)
    nfe: Tensor  # (R,)
    trajectories: list[list[tuple[int, ...]]] | None


@torch.inference_mode()
def denoise(
    model: Denoiser,
    requests: Sequence[Request],
    policy: Policy,
    name: SamplerName,
    *,
    seed: int = 0,
    record: bool = False,
) -> list[Generation]:
    """Decodes a batch; one Generation per request, in order.

    Raises DecodingError (naming row, step and model) for logits that are NaN or +inf and for a policy that reveals nothing where it must,
    ValueError for a block length that doesn't divide the number of asked positions or a cache that the model lacks.
    """
    if name.cache and name.cache not in model.caches:
        raise ValueError(
            f"sampler {name}: {model.name} has no {name.cache} cache; it has {sorted(model.caches) or 'none'}"
        )
    rows, log = _start(model, requests, record)
    size = _block_length(name, rows.asked, requests)
    context = model.prepare(requests, cache=name.cache, seed=seed)
    rows = _drop_finished(model, rows, context, log, size)
    while len(rows.origin):
        if name.cache:
            rows = _cached_block(model, context, rows, policy, name, size, seed, log)
        else:
            _step(model, context, rows, policy, name, size, seed, log)
        rows = _drop_finished(model, rows, context, log, size)
    return [_generation(model, request, i, log) for i, request in enumerate(requests)]


def _step(
    model: Denoiser,
    context: Context,
    rows: _Rows,
    policy: Policy,
    name: SamplerName,
    size: int,
    seed: int,
    log: _Log,
    window: tuple[int, int] | None = None,
    refresh: bool = False,
) -> None:
    """One forward and one move for every row."""
    if log.trajectories is not None:
        for origin, canvas in zip(rows.origin.tolist(), rows.canvas.tolist(), strict=True):
            log.trajectories[origin].append(tuple(canvas))
    place = rows.block[:, None] * size + torch.arange(
        size, device=rows.block.device
    )  # (R, C) among the asked positions
    inside = place < rows.asked[:, None]
    place = place.clamp(max=rows.slots.shape[1] - 1)
    where = rows.slots.gather(1, place)  # (R, C) canvas positions
    present = rows.canvas.gather(1, where)
    masked = inside & (present == model.mask_id)
    want = torch.zeros_like(rows.canvas, dtype=torch.bool)
    want[torch.arange(len(want), device=want.device)[:, None].expand_as(where)[masked], where[masked]] = True
    logits = context.logits(Query(rows.canvas, want, rows.nfe, window, refresh))  # (M, V)
    logits[:, model.mask_id] = -torch.inf
    draws = uniform(seed, rows.key, rows.nfe, place)[masked] if name.temperature else None
    token, confidence = _predict(logits, name.temperature, draws)
    _check(model, confidence, masked, rows)
    total, left = inside.sum(-1), masked.sum(-1)
    step = Step(
        masked=masked,
        token=present.masked_scatter(masked, token),
        confidence=_scatter(masked, confidence),
        position=place,
        index=rows.index,
        nfe=rows.nfe,
        logits=logits,
        quota=quota(name, total, rows.index, left),
        canvas_length=rows.slots.shape[1],
        seed=seed,
        key=rows.key,
        kept=rows.kept,
    )
    if name.no_early_eos:
        early = (step.token == model.eos_id) & (masked.cumsum(-1) > 1)
        step.masked = masked & ~early
        step.logits = logits[~early[masked]]
    move = policy.select(step)
    _apply(model, move if isinstance(move, Move) else Move(move), step, where, rows, log, name)


def _apply(model: Denoiser, move: Move, step: Step, where: Tensor, rows: _Rows, log: _Log, name: SamplerName) -> None:
    """Writes a move to the canvas and the log."""
    reveal = move.reveal & step.masked
    if move.remask is None and step.quota is None and not reveal.any(-1).all():
        idle = int((~reveal.any(-1)).nonzero()[0])
        raise DecodingError(
            f"{name.policy} revealed nothing for row {int(rows.origin[idle])} at step {int(rows.nfe[idle])}; use step.at_least_best(...)"
        )
    token = step.token if move.token is None else move.token
    row, slot = reveal.nonzero(as_tuple=True)
    at = where[row, slot]
    rows.canvas[row, at] = token[row, slot]
    log.steps[rows.origin[row], at] = rows.nfe[row]
    log.confidences[rows.origin[row], at] = step.confidence[row, slot].to(log.confidences.dtype)
    if move.remask is not None:
        row, slot = move.remask.nonzero(as_tuple=True)
        rows.canvas[row, where[row, slot]] = model.mask_id
    rows.nfe = rows.nfe + 1
    rows.index = rows.index + 1
    if name.eos_stop:
        _stop_at_eos(model, rows)


def _cached_block(
    model: Denoiser, context: Context, rows: _Rows, policy: Policy, name: SamplerName, size: int, seed: int, log: _Log
) -> _Rows:
    """One block with a cache, all rows in step: rows that finish it early wait for the others, without forwards of their own."""
    block = int(rows.block[0])
    window = (int(rows.slots[0, block * size]) if block else 0, _block_end(rows, block, size))
    inner, part, finished, refresh = copy.copy(context), rows, [], True
    while len(part.origin):
        _step(model, inner, part, policy, name, size, seed, log, window, refresh)
        refresh = False
        going = _block_of_first_mask(model, part, size) == block
        if not bool(going.all()):
            finished.append(part.select((~going).nonzero().squeeze(-1)))
            part = part.select(going.nonzero().squeeze(-1))
            if len(part.origin):
                inner.keep(going.nonzero().squeeze(-1))
    return _join(finished, name)


def _join(parts: Sequence[_Rows], name: SamplerName) -> _Rows:
    """The parts of a batch together again, in the batch's order."""
    if any(part.kept.keys() != parts[0].kept.keys() for part in parts):
        raise DecodingError(f"{name.policy} must ask for all of its memory at its first step")
    order = torch.cat([part.origin for part in parts]).argsort()
    tensors = {field: torch.cat([getattr(part, field) for part in parts])[order] for field in _TENSORS}
    kept = {key: torch.cat([part.kept[key] for part in parts])[order] for key in parts[0].kept}
    return _Rows(**tensors, kept=kept)


def _block_end(rows: _Rows, block: int, size: int) -> int:
    """Where the block's window ends in the canvas: the next block's first asked position, or the canvas' end."""
    after = (block + 1) * size
    return int(rows.slots[0, after]) if after < rows.slots.shape[1] else rows.canvas.shape[1]


def _start(model: Denoiser, requests: Sequence[Request], record: bool) -> tuple[_Rows, _Log]:
    """Canvases side by side; shorter ones are padded on the right with EOS, which is never asked for."""
    length = max(len(request.canvas) for request in requests)
    padded = [[*request.canvas, *[model.eos_id] * (length - len(request.canvas))] for request in requests]
    canvas = torch.tensor(padded, dtype=torch.long, device=model.device)  # (R, L)
    mask = canvas == model.mask_id
    asked = mask.sum(-1)  # (R,)
    widest = max(1, int(asked.max()))
    slots = mask.int().argsort(dim=-1, descending=True, stable=True)[
        :, :widest
    ]  # (R, A): asked positions first, in order
    zeros = torch.zeros_like(asked)
    key = torch.tensor([request.key for request in requests], device=model.device)
    rows = _Rows(
        torch.arange(len(requests), device=model.device),
        key,
        canvas,
        slots,
        asked,
        zeros,
        zeros.clone(),
        zeros.clone(),
        {},
    )
    log = _Log(
        canvas.clone(),
        torch.full_like(canvas, -1),
        torch.zeros(canvas.shape, device=model.device),
        zeros.clone(),
        [[] for _ in requests] if record else None,
    )
    return rows, log


def _block_length(name: SamplerName, asked: Tensor, requests: Sequence[Request]) -> int:
    """Slots in a block: the sampler's block length, or everything."""
    if name.block is None:
        return max(1, int(asked.max()))
    for request, count in zip(requests, asked.tolist(), strict=True):
        if count % name.block:
            raise ValueError(
                f"sampler {name}: block length {name.block} doesn't divide the {count} tokens asked for (row key {request.key})"
            )
    return name.block


def _predict(logits: Tensor, temperature: float, draws: Tensor | None) -> tuple[Tensor, Tensor]:
    """Token (M,) and its probability under the un-noised softmax (M,), in pieces that bound memory."""
    tokens, confidences, start = [], [], 0
    for piece in pieces_of(logits):
        probs = torch.softmax(piece, dim=-1)  # (m, V)
        if draws is None:
            confidence, token = probs.max(-1)
        else:
            token = categorical(piece / temperature, draws[start : start + len(piece)])
            confidence = probs.gather(-1, token[:, None]).squeeze(-1)
        tokens.append(token)
        confidences.append(confidence)
        start += len(piece)
    return torch.cat(tokens), torch.cat(confidences)


def _scatter(masked: Tensor, values: Tensor) -> Tensor:
    out = values.new_zeros(masked.shape)
    out[masked] = values
    return out


def _check(model: Denoiser, confidence: Tensor, masked: Tensor, rows: _Rows) -> None:
    """A softmax over NaN or +inf is NaN, and so is one over −inf alone."""
    if bool(confidence.isnan().any()):
        row = int(masked.nonzero()[confidence.isnan().nonzero()[0, 0], 0])
        raise DecodingError(
            f"{model.name} gave logits that are NaN, +inf or all -inf for row {int(rows.origin[row])} (key {int(rows.key[row])}) at step "
            f"{int(rows.nfe[row])}; try --dtype float32, and check the checkpoint"
        )


def _block_of_first_mask(model: Denoiser, rows: _Rows, size: int) -> Tensor:
    """The block (R,) of each row's first mask; one past the last for a row without any."""
    open_ = rows.canvas.gather(1, rows.slots) == model.mask_id  # (R, A)
    open_ &= torch.arange(open_.shape[1], device=open_.device) < rows.asked[:, None]
    first = torch.where(open_.any(-1), open_.int().argmax(-1), open_.shape[1])
    return first // size


def _drop_finished(model: Denoiser, rows: _Rows, context: Context, log: _Log, size: int) -> _Rows:
    """Moves rows on to their next block, writes down those that are done and goes on with the others."""
    block = _block_of_first_mask(model, rows, size)
    rows.index = torch.where(block == rows.block, rows.index, 0)
    rows.block = block
    done = ~(rows.canvas == model.mask_id).any(-1)
    if bool(done.any()):
        origin = rows.origin[done]
        log.canvas[origin], log.nfe[origin] = rows.canvas[done], rows.nfe[done]
        going = (~done).nonzero().squeeze(-1)
        rows = rows.select(going)
        if len(going):
            context.keep(going)
    return rows


def _stop_at_eos(model: Denoiser, rows: _Rows) -> None:
    """Fills a row with EOS once everything before its first EOS is revealed."""
    eos, mask = rows.canvas == model.eos_id, rows.canvas == model.mask_id
    before = eos.int().cumsum(-1) == 0  # (R, L) positions before the first EOS
    stop = eos.any(-1) & ~(mask & before).any(-1)
    rows.canvas[stop[:, None] & mask] = model.eos_id


def _generation(model: Denoiser, request: Request, row: int, log: _Log) -> Generation:
    length = len(request.canvas)
    ids = tuple(log.canvas[row, :length].tolist())
    trajectory = None
    if log.trajectories is not None:
        trajectory = (*(canvas[:length] for canvas in log.trajectories[row]), ids)
    return Generation(
        text=model.text(ids),
        token_ids=ids,
        nfe=int(log.nfe[row]),
        answer_tokens=ids.index(model.eos_id) if model.eos_id in ids else length,
        steps=tuple(log.steps[row, :length].tolist()),
        confidences=tuple(log.confidences[row, :length].tolist()),
        trajectory=trajectory,
    )
