"""Blocks: how far a row goes, what is stored when one ends, when a row stops. R rows, L canvas
positions, V tokens.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from pbcore.base.errors import InputError
from pbcore.base.lazy_torch import Tensor, torch
from pbcore.decoding.job import Job
from pbcore.decoding.outlook import written
from pbcore.decoding.prediction import predict
from pbcore.decoding.protocol import Course
from pbcore.decoding.rows import NOWHERE, Rows
from pbcore.models.base import BlockContext, Denoiser, Request, SizedBlockContext
from pbcore.models.counter_rng import uniform
from pbcore.models.transfer import places
from pbcore.names import SamplerName


def lengthened(model: Denoiser, request: Request, size: int, course: Course) -> Request:
    """The request with the canvas that a block model's course fills; an infilling canvas keeps its
    length.

    Args:
        model: says which token is the mask, and how its blocks lie.
        request: the row.
        size: tokens of a block.
        course: its `fill` says how far.

    Raises:
        InputError: for fewer requested tokens than `course` needs.
    """
    length = len(request.canvas)
    lead = model.grid.lead(len(request.prompt_ids), size)
    mask_id = model.mask_id
    if course.fill == "length" or any(token != mask_id for token in request.canvas):
        return request
    if course.fill == "grid":
        total = -(-(lead + length) // size) * size - lead
    elif length < size:
        raise InputError(
            f"this sampler decodes whole blocks of {size} tokens, so it can't decode {length}"
            f" ({request.label}); ask for more tokens or choose another sampler"
        )
    else:
        total = length // size * size - lead + 1
    start = request.start
    if start is not None:
        start = (*start[:total], *[mask_id] * (total - len(start)))
    return replace(request, canvas=(mask_id,) * total, start=start)


def begin(job: Job, rows: Rows, context: BlockContext) -> None:
    """Stores the whole blocks of every prompt, where that takes a forward of its own.

    Args:
        job: of a block model.
        rows: at the start.
        context: of the batch.
    """
    if job.traits.course.cut:
        rows.answer = rows.requested
    before = rows.canvas.clone()
    every = torch.ones_like(rows.hold)
    if job.model.grid.along:
        rows.store = rows.store + (rows.prompt > 0)
        return
    rows.prefill = rows.prefill + _store(job, rows, context, rows.block, every, prefill=True)
    stop_early(job, rows, before)


def settle(job: Job, rows: Rows, context: BlockContext) -> None:
    """Ends every block without masks: stops rows, stores what follows need, moves rows to their
    next block. Rows that were begun go through their full blocks one by one, since each may hold
    the token that stops them.

    Args:
        job: of a block model.
        context: of the batch.
    """
    place = rows.first_mask(job.model.mask_id)
    first = place // job.size
    entered = (place >= rows.stop) & ~rows.hold
    before = rows.canvas.clone()
    stopped = _stop_at_block(job, rows, entered)
    done = ~(rows.canvas == job.model.mask_id).any(-1)
    needed = {"needed": ~done, "unstopped": ~stopped, "all": torch.ones_like(done)}[
        job.traits.course.store
    ]
    block = rows.block + 1
    if not job.started:
        block = torch.where(done, block, first)
    if job.model.grid.along:
        rows.store = rows.store + (entered & ~done)
    else:
        ran = _store(job, rows, context, block, entered & needed)
        rows.count(ran.long())
        rows.store = rows.store + ran
    rows.enter(entered, block, block * job.size, (block + 1) * job.size)
    rows.forget(entered)
    stop_early(job, rows, before)
    rows.stop = torch.where(entered & done, NOWHERE + 1, rows.stop)  # nothing follows


def stop_early(job: Job, rows: Rows, before: Tensor, stepped: bool = False) -> None:
    """Ends rows whose first stop token has no mask before it, if the course stops there.

    Args:
        job: of a block model.
        rows: after a step, or a storing forward.
        before: (R, L) the canvas before it, to see whether a stop token was just revealed.
        stepped: whether the policy moved.
    """
    when = job.traits.course.stop
    if when not in ("token", "revealed") and not (when == "step" and stepped):
        return
    stop = _stops(job, rows)  # (R, L)
    fresh = stop & (rows.canvas != before) if when == "revealed" else stop
    masked = rows.canvas == job.model.mask_id  # (R, L)
    before_stop = stop.int().cumsum(-1) == 0  # (R, L)
    ends = fresh.any(-1) & ~(masked & before_stop).any(-1) & ~rows.given
    rows.canvas[masked & ends[:, None]] = job.model.eos_id


def _stop_at_block(job: Job, rows: Rows, entered: Tensor) -> Tensor:
    """Ends the rows (R,), of those whose block is finished, that have a stop token up to its end;
    returns them.
    """
    if job.traits.course.stop == "never":
        return torch.zeros_like(entered)
    end = (rows.block + 1) * job.size - rows.lead  # (R,) canvas index after the block
    index = torch.arange(rows.canvas.shape[1], device=end.device)
    stop = _stops(job, rows) & (index < end[:, None])  # (R, L)
    ends = entered & stop.any(-1) & ~rows.given
    rows.answer = torch.where(ends, rows.answer.minimum(end), rows.answer)
    if job.traits.course.pads:
        after = (stop.int().cumsum(-1) > 0) & ends[:, None]
        rows.canvas[after] = job.model.eos_id
    # Past the answer's end.
    rows.canvas[(rows.canvas == job.model.mask_id) & ends[:, None]] = job.model.eos_id
    return ends


def _stops(job: Job, rows: Rows) -> Tensor:
    """Where a row has a stop token (R, L)."""
    index = torch.arange(rows.canvas.shape[1], device=rows.canvas.device)
    return job.stops(rows.canvas) & (index < rows.length[:, None])


def _store(
    job: Job,
    rows: Rows,
    context: BlockContext,
    block: Tensor,
    among: Tensor,
    prefill: bool = False,
) -> Tensor:
    """One storing forward for the rows `among` (R,), up to their `block` (R,), and the block's
    first token where the model reads it there; returns the rows that ran (R,).
    """
    ran, stored = context.store(rows.canvas, block, among)
    tally = job.log.tally
    if tally is not None and tally.counted:
        tally.count(rows.numbers, cast(SizedBlockContext, context).stored, prefill)
    if stored is None:
        return ran
    column = block * job.size - rows.lead  # (R,) canvas index of the block's first token
    inside = (column >= 0) & (column < rows.length)
    place = column.clamp(0, rows.canvas.shape[1] - 1)
    now = rows.canvas.gather(1, place[:, None]).squeeze(1)
    free = (ran & inside & (now == job.model.mask_id))[:, None]  # (R, 1)
    stored[:, job.model.mask_id] = -torch.inf
    stored = job.decoding.law.ranked(stored)
    at = places(ran, len(stored))  # (R',)
    draws = None
    if job.name.temperature:
        draws = uniform(job.decoding.seed, rows.key, rows.nfe, place[:, None]).squeeze(1)[at]
    token, confidence = predict(stored, job.decoding.law, draws)  # (R',) each
    by = (rows.steps - 1).clamp(min=0)[:, None]  # the last step
    column = place[:, None]
    tokens = torch.zeros_like(rows.block).index_copy(0, at, token)[:, None]
    kind = rows.confidences.dtype
    chances = torch.zeros_like(rows.block, dtype=kind).index_copy(0, at, confidence.to(kind))
    rows.canvas = written(rows.canvas, column, free, tokens)
    rows.revealed = written(rows.revealed, column, free, by)
    rows.confidences = written(rows.confidences, column, free, chances[:, None])
    return ran


def most_slots(name: SamplerName, mask_id: int, requests: Sequence[Request]) -> int:
    """The most slots in a block: the length of equal blocks, else all target positions.

    Args:
        name: the sampler.
        mask_id: the mask token.
        requests: the rows.

    Raises:
        InputError: for a block length that doesn't divide a row's number of target positions.
    """
    counts = [request.canvas.count(mask_id) for request in requests]
    if name.block is None or name.adaptive:
        return max(1, max(counts))
    for request, count in zip(requests, counts, strict=True):
        if count % name.block:
            raise InputError(
                f"sampler {name}: block length {name.block} doesn't divide the {count} tokens to"
                f" decode ({request.label})"
            )
    return name.block
