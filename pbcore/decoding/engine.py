"""The decoding loop: one batch, one policy, blocks from left to right, one forward per step, until
no mask is left.

A policy may ask for further forwards, of what-if rows, before it moves. Rows are independent: each
has its own block, step count and random draws, and leaves the batch when it is done. So a result
never depends on the batch.

R rows, L canvas positions, A target positions (masked at the start), C slots of the active block, M
candidates, V tokens.
"""

import copy
import warnings
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import FrozenInstanceError, replace
from typing import Any

from pbcore.base.lazy_torch import Tensor, inference, torch
from pbcore.base.torch_states import own_states
from pbcore.decoding.block_rules import Equal, rule_of
from pbcore.decoding.blocks import begin, lengthened, most_slots, settle, stop_early
from pbcore.decoding.checks import (
    DecodingError,
    as_move,
    check_candidates,
    check_cap,
    check_needs,
    check_starts,
    check_taken,
    check_written,
)
from pbcore.decoding.forward import Source, forward, hold_back, look, reach_of, what_if
from pbcore.decoding.job import Job, decoding_of, unfiltered
from pbcore.decoding.outlook import marked, written
from pbcore.decoding.promise import check_count, counted
from pbcore.decoding.protocol import Policy, on_course, traits
from pbcore.decoding.rows import Log, Rows, initial_rows, join
from pbcore.decoding.sharing import ForwardStore, of_rows, shareable
from pbcore.decoding.step import Move, Step
from pbcore.decoding.tally import Tally, knows_sizes
from pbcore.decoding.what_if import Probe
from pbcore.models.base import Denoiser, Generation, Request, complete
from pbcore.models.transfer import narrow_context, on_device
from pbcore.names import SamplerName


@own_states()
@inference
def denoise(
    model: Denoiser,
    requests: Sequence[Request],
    policy: Policy,
    name: SamplerName,
    *,
    seed: int = 0,
    record: bool = False,
    store: ForwardStore | None = None,
    at_once: int | None = None,
) -> list[Generation]:
    """Decodes a batch.

    Args:
        model: predicts the masked tokens.
        requests: the rows.
        policy: chooses what to reveal.
        name: the sampler that the policy belongs to, with its blocks, schedule, temperature and
            modifiers.
        seed: of all random draws; a row's also depend on its key, and not on the batch.
        record: True keeps the canvas before each step (`trajectory`).
        store: answers for the canvases that it knows, if it can serve the sampler; None: the model
            answers for all.
        at_once: the most rows that share a forward where a store is given; None: all.

    Returns:
        One Generation per request, in order.

    Raises:
        DecodingError: for unusable logits (another shape, dtype or device, NaN, +inf), and for a
            policy that breaks its protocol or reveals nothing though it declares no `cap`.
        ValueError: for a block length that doesn't divide a row's number of target positions, and
            for a cache, review or frequency table that the model lacks; for a `start` that isn't
            its request's canvas with more tokens, and for a cache beside one.
    """
    model = complete(model)
    declared = traits(policy)
    decoding = decoding_of(model, declared, name, seed)
    model = unfiltered(model, name)
    check_needs(model, declared, name)
    declared = on_course(declared, model)
    requested = [len(request.canvas) for request in requests]
    if model.block:
        requests = [
            lengthened(model, request, model.block, declared.course) for request in requests
        ]
    started = check_starts(model, requests, name)
    rows = initial_rows(model, requests, requested)
    log = Log([[] for _ in requests] if record else None)
    log.begun = [request.revealed(model.mask_id) for request in requests]
    size = model.block or most_slots(name, model.mask_id, requests)
    blocks = Equal(model.block) if model.block else rule_of(model, name, size)
    if declared.gaps is not None:  # a step begins with all places that are left
        size = rows.targets.shape[1]
    labels = [request.label for request in requests]
    watched = counted(policy, name.policy)
    job = Job(model, watched, declared, name, size, blocks, decoding, log, labels, started)
    context: Any
    if store is not None and shareable(model, policy, name):
        context = store.prepare(requests, seed, at_once or len(requests))
    else:
        context = model.prepare(requests, cache=name.cache, seed=seed)
    log.tally = Tally(requests, knows_sizes(model, context, name.cache))
    if model.block:
        begin(job, rows, context)
    try:
        rows = _advance(job, rows, context)
        while len(rows.origin):
            if name.cache and not model.block:
                rows = _cached_block(job, rows, context)
            else:
                _step(job, rows, context)
            rows = _advance(job, rows, context)
    except torch.OutOfMemoryError:
        raise
    except Exception:
        job.alarms.check()  # what went wrong earlier in the step comes first
        raise
    return list(
        log.generations(model, ends_at_stop=bool(model.block) and declared.course.ends_at_stop)
    )


def _step(
    job: Job,
    rows: Rows,
    context: Source,
    window: tuple[int, int] | None = None,
    refresh: bool = False,
) -> None:
    """One forward and one move of the policy, for every row; between them the what-if rows that it
    asks about.
    """
    job.log.record(rows)
    if rows.outlook is None:
        look(job, rows)
    step = forward(job, rows, context, window, refresh)
    masked = step.masked
    hold_back(job, step)
    candidates = step.masked.clone()
    answer = _select(job, step)
    for _ in range(step.masked.shape[1] + 1):
        if not isinstance(answer, Probe):
            break
        step.answers = what_if(job, rows, context, step, answer)
        answer = _select(job, step)
    check_candidates(job, step, candidates)
    check_count(job, rows, step)
    move = as_move(job.name.policy, answer, step)
    if job.counts_mask:
        move = _without_masks(move, step)
    before = rows.canvas
    _apply(job, _bounded(job, move, step, masked, rows), step, rows)
    rows.outlook = None
    if job.model.block:
        stop_early(job, rows, before, stepped=True)
    if job.name.eos_stop:
        rows.fill_after_eos(job.model)


def _without_masks(move: Move, step: Step) -> Move:
    """The move without slots whose likeliest token is the mask, which stays there. A row that has
    chosen no others gets their likeliest other tokens, so that it goes on.
    """
    blank = step.masked & (step.confidence == step.mask)  # (R, C)
    others = move.reveal & ~blank
    return replace(move, reveal=torch.where(others.any(-1, keepdim=True), others, move.reveal))


def _select(job: Job, step: Step) -> object:
    try:
        return job.policy.select(step)
    except FrozenInstanceError as error:
        raise DecodingError(
            f"policy {job.name.policy} changes itself ({error}); one object decodes all answers"
            " together: keep what it remembers in step.state(name, fill), and change that in place"
        ) from error


def _bounded(job: Job, move: Move, step: Step, masked: Tensor, rows: Rows) -> Move:
    """The move within the loop's limits: an unmasker reveals something each step, other policies
    end at their cap.
    """
    caps = _caps(job, move, step, rows)
    if caps is None:
        if step.quota is None:
            idle = ~move.reveal.any(-1)
            origin = rows.origin

            def error() -> DecodingError:
                row = int(idle.nonzero()[0])
                return DecodingError(
                    f"{job.name.policy} revealed nothing for row {int(origin[row])} at step"
                    f" {int(step.nfe[row])}; return step.at_least_best(...), or declare cap(slots),"
                    " the most steps a block may take, if it may wait"
                )

            job.alarms.ring(idle, error)
        return move
    last = (rows.index + 1 >= caps)[:, None]
    return replace(
        move,
        reveal=torch.where(last, masked, move.reveal),
        remask=None if move.remask is None else move.remask & step.inside & ~last,
        revise=None if move.revise is None else move.revise & step.inside & ~masked,
        hold=None if move.hold is None else move.hold & ~last[:, 0],
        take=None if move.take is None else move.take.masked_fill(last[:, 0], -1),
    )


def _caps(job: Job, move: Move, step: Step, rows: Rows) -> Tensor | None:
    """The most steps (R,) that a policy may take in a block of its number of slots; None for an
    unmasker, which needs none.
    """
    if job.traits.cap is not None:
        assert rows.outlook is not None
        caps = [
            check_cap(job.name.policy, job.traits.cap(count), count) for count in rows.outlook.count
        ]
        return on_device(caps, step.slots.device)
    if move.remask is None and move.hold is None and move.revise is None:
        return None
    warnings.warn(
        f"{type(job.policy).__name__} remasks or revises tokens or holds rows, but declares no"
        " cap(slots); the loop ends a block after 4 steps per slot",
        stacklevel=2,
    )
    return 4 * step.slots


def _apply(job: Job, move: Move, step: Step, rows: Rows) -> None:
    """Applies a move to the canvas and the log."""
    where = step.column  # (R, C)
    token = step.token if move.token is None else move.token
    confidence = step.confidence if move.confidence is None else move.confidence
    slots = move.reveal if move.revise is None else move.reveal | move.revise  # (R, C)
    check_written(job, move, step, slots)
    going = [part for part in (move.remask, move.revise) if part is not None]
    if going:
        stands = rows.canvas.gather(1, where) != job.model.mask_id  # (R, C)
        job.log.keep_former(rows, where, torch.stack(going).any(0) & stands)
    rows.canvas = written(rows.canvas, where, slots, token)
    rows.revealed = written(rows.revealed, where, slots, rows.steps[:, None].expand_as(where))
    kind = rows.confidences.dtype
    rows.confidences = written(rows.confidences, where, slots, confidence.to(kind))
    if move.remask is not None:
        blank = marked(rows.canvas, where, move.remask)
        rows.canvas = rows.canvas.masked_fill(blank, job.model.mask_id)
    if move.finish is not None:
        _finish(job, move.finish, step, rows)
    rows.hold = torch.zeros_like(rows.hold) if move.hold is None else move.hold
    if move.take is not None:
        answers, take = check_taken(job, move.take, step, rows.canvas)
        rows.kept = answers.taken(take, rows.canvas, job.model.mask_id)
    rows.steps = rows.steps + 1
    rows.index = rows.index + 1


def _finish(job: Job, finish: Tensor, step: Step, rows: Rows) -> None:
    """Fills all masks of the rows `finish` (R,) with their likeliest tokens."""
    if step._ends is None:
        raise DecodingError(
            f"policy {job.name.policy}: Move.finish is for policies that declare gaps, for which a"
            " forward predicts the whole answer"
        )
    where, masked, token, confidence = step._ends
    slots = masked & finish[:, None]  # (R, A)
    rows.canvas = written(rows.canvas, where, slots, token)
    rows.revealed = written(rows.revealed, where, slots, rows.steps[:, None].expand_as(where))
    kind = rows.confidences.dtype
    rows.confidences = written(rows.confidences, where, slots, confidence.to(kind))


def _cached_block(job: Job, rows: Rows, context: Source) -> Rows:
    """One block of each row with a cache. Its first forward, of the whole canvas, fills the cache
    for all. Then rows whose blocks lie at the same places go on together. Rows that finish early
    wait for the others, without further forwards.
    """
    assert rows.outlook is not None
    inner = copy.copy(context)
    finished: list[Rows] = []
    window = rows.window(min(rows.outlook.start), max(rows.outlook.stop))
    _step(job, rows, inner, window, refresh=True)
    outlook = look(job, rows, stay=True)
    together = defaultdict[tuple[int, int], list[int]](list)
    for number, place in enumerate(zip(outlook.start, outlook.stop, strict=True)):
        together[place].append(number)
    for place, numbers in together.items():
        part = rows
        own = inner
        if len(together) > 1:
            index = on_device(numbers, rows.canvas.device)
            part = rows.select(index, numbers)
            part.outlook = outlook.of(numbers, index)
            own = of_rows(inner, index, len(rows.origin), numbers)
        _finish_block(job, part, own, rows.window(*place), finished)
    return join(finished)


def _finish_block(
    job: Job, rows: Rows, context: Source, window: tuple[int, int], finished: list[Rows]
) -> None:
    """The other steps of a block that all rows have at the same places, behind a cache that is
    filled.
    """
    while True:
        assert rows.outlook is not None
        going = [number for number, full in enumerate(rows.outlook.full) if not full]
        rows = _split(rows, going, finished, context)
        if not going:
            return
        _step(job, rows, context, window)
        look(job, rows, stay=True)


def _split(rows: Rows, going: Sequence[int], finished: list[Rows], context: Source) -> Rows:
    """The rows that go on, and their context with them; the others are `finished`."""
    count = len(rows.origin)
    if len(going) == count:
        return rows
    assert rows.outlook is not None
    staying = set(going)
    over = [number for number in range(count) if number not in staying]
    finished.append(rows.select(on_device(over, rows.canvas.device), over))
    index = on_device(going, rows.canvas.device)
    outlook = rows.outlook
    rows = rows.select(index, going)
    if going:
        rows.outlook = outlook.of(going, index)
        narrow_context(context, index, going)
    return rows


def _advance(job: Job, rows: Rows, context: Any) -> Rows:
    """Moves rows to their next block, logs the finished ones and returns the others."""
    outlook = look(job, rows)
    while job.model.block and outlook.ends:
        settle(job, rows, context)
        outlook = look(job, rows)
    going = [number for number, done in enumerate(outlook.done) if not done]
    rows = _split(rows, going, job.log.finished, context)
    if going and rows.outlook is not None:
        width = reach_of(job, max(rows.outlook.stop), rows.targets.shape[1])
        rows.outlook = rows.outlook.narrowed(width)
    return rows
