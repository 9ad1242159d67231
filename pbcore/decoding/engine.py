"""The decoding loop: one batch, one policy, blocks from left to right, one forward per step, until no mask is left.

R rows, L canvas positions, A target positions (masked at the start), C slots of the active block, M candidates, V tokens. Rows are
independent: each has its own block, step count and random draws, and leaves the batch when it is done. So a result never depends on the
batch.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pbcore.decoding.draws import uniform
from pbcore.decoding.policies import Policy, reaches_back
from pbcore.decoding.prediction import predict
from pbcore.decoding.review import check_review, marked, review_of, reviewed, split
from pbcore.decoding.rows import Log, Rows, join, start
from pbcore.decoding.schedule import quota
from pbcore.decoding.step import Move, Step
from pbcore.errors import PbcoreError
from pbcore.models.base import Context, Denoiser, Generation, Query, Request
from pbcore.names import SamplerName


class DecodingError(PbcoreError, RuntimeError):
    """Decoding failed: the model returned unusable logits, or the policy broke its protocol."""


@dataclass(frozen=True, slots=True)
class _Job:
    """What stays constant while a batch is decoded. `size` is the number of slots in a block."""

    model: Denoiser
    policy: Policy
    name: SamplerName
    size: int
    seed: int
    log: Log


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

    Raises DecodingError (naming row, step and model) for logits that are NaN or +inf and for a policy that reveals nothing though it
    declares no `cap`; ValueError for a block length that doesn't divide a row's number of target positions, and for a cache or a review
    that the model doesn't support.
    """
    if name.cache and name.cache not in model.caches:
        raise ValueError(
            f"sampler {name}: {model.name} has no {name.cache} cache; it has {sorted(model.caches) or 'none'}"
        )
    check_review(model, policy, name)
    rows, log = start(model, requests, record)
    job = _Job(model, policy, name, _block_length(name, rows.n_targets, requests), seed, log)
    context = model.prepare(requests, cache=name.cache, seed=seed)
    rows = _advance(job, rows, context)
    while len(rows.origin):
        if name.cache:
            rows = _cached_block(job, rows, context)
        else:
            _step(job, rows, context)
        rows = _advance(job, rows, context)
    return [log.generation(model, request, i) for i, request in enumerate(requests)]


def _step(
    job: _Job, rows: Rows, context: Context, window: tuple[int, int] | None = None, refresh: bool = False
) -> None:
    """One forward and one move of the policy, for every row."""
    job.log.record(rows)
    step, where = _forward(job, rows, context, window, refresh)
    masked = step.masked
    if job.name.no_early_eos:
        early = (step.token == job.model.eos_id) & (masked.cumsum(-1) > 1)
        step.masked = masked & ~early
        step.logits = step.logits[~early[masked]]
    answer = job.policy.select(step)
    move = answer if isinstance(answer, Move) else Move(answer)
    _apply(job, _bounded(job, move, step, masked, rows), step, where, rows)
    if job.name.eos_stop:
        _stop_at_eos(job.model, rows)


def _forward(
    job: _Job, rows: Rows, context: Context, window: tuple[int, int] | None, refresh: bool
) -> tuple[Step, Tensor]:
    """One forward: the policy's Step, and the canvas index (R, C) of each slot."""
    place, where, inside = rows.active(job.size, reaches_back(job.policy))  # (R, C) each
    present = rows.canvas.gather(1, where)
    masked = inside & (present == job.model.mask_id)
    review = review_of(job.policy)
    want = marked(rows.canvas, where, inside if review == "seen" else masked)
    verify = marked(rows.canvas, where, inside) if review == "hidden" else None
    logits = context.logits(Query(rows.canvas, want, rows.nfe, window, refresh, verify))
    logits[:, job.model.mask_id] = -torch.inf
    logits, again = split(logits, masked, inside, review)  # (M, V), (N, V)
    draws = uniform(job.seed, rows.key, rows.nfe, place) if job.name.temperature else None  # (R, C)
    token, confidence = predict(logits, job.name.temperature, None if draws is None else draws[masked])
    _check(job.model, confidence, masked.nonzero()[:, 0], rows)
    slots = rows.in_block(job.size)  # (R,)
    step = Step(
        masked=masked,
        inside=inside,
        token=present.masked_scatter(masked, token),
        confidence=torch.zeros(masked.shape, dtype=confidence.dtype, device=masked.device).masked_scatter(
            masked, confidence
        ),
        position=place,
        index=rows.index,
        nfe=rows.nfe,
        logits=logits,
        quota=quota(job.name, slots, rows.index, masked.sum(-1)),
        slots=slots,
        asked=rows.targets.shape[1],
        seed=job.seed,
        key=rows.key,
        column=where,
        kept=rows.kept,
        temperature=job.name.temperature,
        frequencies=getattr(job.model, "frequencies", None),
    )
    if review:
        step.review = reviewed(again, inside & ~masked, present, job.name.temperature, draws)
        _check(job.model, step.review.confidence[inside & ~masked], (inside & ~masked).nonzero()[:, 0], rows)
    return step, where


def _bounded(job: _Job, move: Move, step: Step, masked: Tensor, rows: Rows) -> Move:
    """The move within the loop's limits: an unmasker reveals something at each step, any other policy ends at its cap."""
    caps = _caps(job.policy, move, step.slots)
    if caps is None:
        idle = ~(move.reveal & step.masked).any(-1)
        if step.quota is None and bool(idle.any()):
            row = int(idle.nonzero()[0])
            raise DecodingError(
                f"{job.name.policy} revealed nothing for row {int(rows.origin[row])} at step {int(rows.nfe[row])}; "
                "return step.at_least_best(...), or declare cap(slots), the most steps a block may take, if it may wait"
            )
        return Move(move.reveal & step.masked, None, move.token, move.confidence)
    last = (rows.index + 1 >= caps)[:, None]
    return Move(
        torch.where(last, masked, move.reveal & step.masked),
        None if move.remask is None else move.remask & step.inside & ~last,
        move.token,
        move.confidence,
        None if move.revise is None else move.revise & step.inside & ~masked,
        None if move.hold is None else move.hold & ~last[:, 0],
    )


def _caps(policy: Policy, move: Move, slots: Tensor) -> Tensor | None:
    """The most steps (R,) that a policy may take in a block of `slots` (R,); None for an unmasker, which needs no limit."""
    declared = getattr(policy, "cap", None)
    if callable(declared):
        return torch.tensor([int(declared(count)) for count in slots.tolist()], device=slots.device)
    if move.remask is None and move.hold is None:
        return None
    warnings.warn(
        f"{type(policy).__name__} remasks tokens or holds rows but declares no cap(slots); the loop ends a block after 4 steps per slot",
        stacklevel=2,
    )
    return 4 * slots


def _apply(job: _Job, move: Move, step: Step, where: Tensor, rows: Rows) -> None:
    """Applies a move to the canvas and the log."""
    token = step.token if move.token is None else move.token
    confidence = step.confidence if move.confidence is None else move.confidence
    row, slot = (move.reveal if move.revise is None else move.reveal | move.revise).nonzero(as_tuple=True)
    at = where[row, slot]
    rows.canvas[row, at] = token[row, slot]
    job.log.steps[rows.origin[row], at] = rows.nfe[row]
    job.log.confidences[rows.origin[row], at] = confidence[row, slot].to(job.log.confidences.dtype)
    if move.remask is not None:
        row, slot = move.remask.nonzero(as_tuple=True)
        rows.canvas[row, where[row, slot]] = job.model.mask_id
    rows.hold = torch.zeros_like(rows.hold) if move.hold is None else move.hold
    rows.nfe = rows.nfe + 1
    rows.index = rows.index + 1


def _cached_block(job: _Job, rows: Rows, context: Context) -> Rows:
    """One block with a cache. Rows that finish it early wait for the others, without further forwards."""
    block, window = int(rows.block[0]), rows.window(job.size)
    inner, part, finished, refresh = copy.copy(context), rows, [], True
    while len(part.origin):
        _step(job, part, inner, window, refresh)
        refresh = False
        going = part.hold | (part.block_of_first_mask(job.model.mask_id, job.size) == block)
        if not bool(going.all()):
            finished.append(part.select((~going).nonzero().squeeze(-1)))
            part = part.select(going.nonzero().squeeze(-1))
            if len(part.origin):
                inner.keep(going.nonzero().squeeze(-1))
    try:
        return join(finished)
    except KeyError as error:
        raise DecodingError(f"{job.name.policy} must call step.memory({error}, …) at its first step") from error


def _advance(job: _Job, rows: Rows, context: Context) -> Rows:
    """Moves rows to their next block, logs the finished ones and returns the others."""
    first = rows.block_of_first_mask(job.model.mask_id, job.size)
    # A policy that reaches back may mask earlier blocks again, so the block never falls.
    block = torch.where(rows.hold, rows.block, first.maximum(rows.block))
    rows.index = torch.where(block == rows.block, rows.index, 0)
    rows.block = block
    done = ~(rows.canvas == job.model.mask_id).any(-1) & ~rows.hold
    if bool(done.any()):
        job.log.finish(rows.select(done.nonzero().squeeze(-1)))
        going = (~done).nonzero().squeeze(-1)
        rows = rows.select(going)
        if len(going):
            context.keep(going)
    return rows


def _block_length(name: SamplerName, n_targets: Tensor, requests: Sequence[Request]) -> int:
    """Slots in a block: the sampler's block length, else all target positions."""
    if name.block is None:
        return max(1, int(n_targets.max()))
    for request, count in zip(requests, n_targets.tolist(), strict=True):
        if count % name.block:
            raise ValueError(
                f"sampler {name}: block length {name.block} doesn't divide the {count} tokens to decode (row key {request.key})"
            )
    return name.block


def _check(model: Denoiser, confidence: Tensor, row: Tensor, rows: Rows) -> None:
    """Raises DecodingError if a confidence is NaN, as the softmax is for logits with NaN or +inf, or of −inf alone."""
    bad = confidence.isnan()
    if bool(bad.any()):
        at = row[bad.nonzero()[0, 0]]
        raise DecodingError(
            f"{model.name} gave logits that are NaN, +inf or all -inf for row {int(rows.origin[at])} (key {int(rows.key[at])}) "
            f"at step {int(rows.nfe[at])}; try --dtype float32, and check the checkpoint"
        )


def _stop_at_eos(model: Denoiser, rows: Rows) -> None:
    """Fills a row with EOS once everything before its first EOS is revealed."""
    eos, mask = rows.canvas == model.eos_id, rows.canvas == model.mask_id
    before = eos.int().cumsum(-1) == 0  # (R, L) positions before the first EOS
    stop = eos.any(-1) & ~(mask & before).any(-1)
    rows.canvas[stop[:, None] & mask] = model.eos_id
