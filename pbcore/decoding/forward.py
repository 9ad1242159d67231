"""Forwards of a batch: of the canvases that a step starts from, and of the what-if rows that its policy asks about.

R rows, W what-if rows, L canvas positions, C slots of the active block, M candidates, N revealed slots, V tokens.
"""

import copy
from dataclasses import dataclass, replace
from typing import Any, cast

from pbcore.decoding.checks import check_logits, check_numbers, check_probe
from pbcore.decoding.prediction import Prediction, predict, probability, scattered, without_mask
from pbcore.decoding.protocol import Policy, Traits
from pbcore.decoding.rows import Log, Rows
from pbcore.decoding.schedule import quota
from pbcore.decoding.sharing import SharedContext
from pbcore.decoding.step import Review, Step
from pbcore.decoding.what_if import Answers, Forwards, Probe
from pbcore.lazy_torch import Tensor, torch
from pbcore.models.base import Attention, AttentionContext, Context, Denoiser, Query
from pbcore.models.counter_rng import Draw, uniform
from pbcore.names import SamplerName

Source = Context | SharedContext


@dataclass(frozen=True, slots=True)
class Job:
    """What stays constant while a batch is decoded. `size` is the number of slots in a block."""

    model: Denoiser
    policy: Policy
    traits: Traits
    name: SamplerName
    size: int
    seed: int
    log: Log
    draw: Draw = uniform


def forward(
    job: Job, rows: Rows, context: Source, window: tuple[int, int] | None, refresh: bool
) -> tuple[Step, Tensor]:
    """The policy's Step, and the canvas index (R, C) of each slot.

    One forward of all rows but those whose last move took a what-if row, or that looked ahead: its answers are read
    again.
    """
    slots = slots_of(job, rows)
    revealed = slots.inside & (slots.present != job.model.mask_id)
    nfe = rows.earlier(job.name.ahead)  # (R,)
    query = Query(rows.canvas, marked(rows.canvas, slots.where, slots.masked), nfe, window, refresh)
    if job.model.block:
        query = replace(query, block=rows.block, part=job.traits.part)
    reused = rows.knows(query.want)  # (R,)
    if not job.name.ahead:
        nfe = nfe - reused.long()  # earlier forwards than the one read now
    share = again = attention = None
    if isinstance(context, SharedContext):
        seen = context.predict(query)
    else:
        logits, again, attention = _logits(job, rows, context, query, slots.where, revealed, reused)  # (M, V), (N, V)
        share = without_mask(logits, job.model.mask_id, "mask" in job.traits.needs)  # (M,)
        seen = predicted(job, rows, slots, nfe, logits)
    check_numbers(job.model, seen.confidence, slots.masked.nonzero()[:, 0], rows)
    step = step_of(job, rows, slots, seen, nfe, rows.stale(reused))
    step.attention = attention
    step.mask = None if share is None else scattered(slots.masked, share)
    if again is not None:
        step.review = _review(job, rows, slots, revealed, nfe, again)
        check_numbers(job.model, step.review.confidence[revealed], revealed.nonzero()[:, 0], rows)
    rows.kept = None
    rows.count((~reused).long())
    return step, slots.where


@dataclass(frozen=True, slots=True)
class Slots:
    """The slots of each row's active block (R, C): index among the target positions and in the canvas, whether the row
    has it, the token that stands there, and whether it is a candidate.
    """

    place: Tensor
    where: Tensor
    inside: Tensor
    present: Tensor
    masked: Tensor


def slots_of(job: Job, rows: Rows) -> Slots:
    """The slots that the policy gets."""
    place, where, inside = rows.active(job.size, job.traits.reach == "prefix")  # (R, C) each
    present = rows.canvas.gather(1, where)
    masked = inside & (present == job.model.mask_id)
    if job.traits.part:
        masked = rows.first_part(job.size, job.traits.part, place, masked)
    return Slots(place, where, inside, present, masked)


def _draws(job: Job, rows: Rows, slots: Slots, nfe: Tensor) -> Tensor | None:
    """The random numbers (R, C) that draw tokens at a temperature."""
    return job.draw(job.seed, rows.key, nfe, slots.place) if job.name.temperature else None


def predicted(job: Job, rows: Rows, slots: Slots, nfe: Tensor, logits: Tensor) -> Prediction:
    """What logits (M, V) of the candidates say; `nfe` (R,) are the rows' earlier forwards."""
    draws = _draws(job, rows, slots, nfe)
    return Prediction(*predict(logits, job.name.temperature, None if draws is None else draws[slots.masked]), logits)


def step_of(job: Job, rows: Rows, slots: Slots, seen: Prediction, nfe: Tensor, stale: Tensor) -> Step:
    """The Step of what a forward, after `nfe` (R,) earlier ones, says of the candidates."""
    count = (rows.unit // job.size == rows.block[:, None]).sum(-1)  # (R,)
    single = not job.model.block and job.name.block is None
    return Step(
        inside=slots.inside,
        position=slots.place,
        column=slots.where,
        masked=slots.masked,
        token=slots.present.masked_scatter(slots.masked, seen.token),
        confidence=scattered(slots.masked, seen.confidence),
        key=rows.key,
        index=rows.index,
        nfe=nfe,
        slots=count,
        size=rows.n_targets if single else torch.full_like(count, job.size),
        requested=rows.requested,
        targets=rows.n_targets,
        left=rows.masks(job.model.mask_id).sum(-1),
        stale=stale,
        asked=rows.targets.shape[1],
        seed=job.seed,
        mask_id=job.model.mask_id,
        temperature=job.name.temperature,
        frequencies=job.model.frequencies,
        reach=job.traits.reach,
        reads=job.traits.reads,
        quota=quota(job.name, count, rows.index, slots.masked.sum(-1)),
        _logits=seen.logits,
        _numbers={name: scattered(slots.masked, values) for name, values in seen.numbers.items()},
        _states=rows.states,
        _draw=job.draw,
    )


def _review(job: Job, rows: Rows, slots: Slots, revealed: Tensor, nfe: Tensor, logits: Tensor) -> Review:
    """The review of the slots `revealed` (R, C) from their logits (N, V)."""
    share = without_mask(logits, job.model.mask_id, "mask" in job.traits.needs)  # (N,)
    draws = _draws(job, rows, slots, nfe)
    token, confidence = predict(logits, job.name.temperature, None if draws is None else draws[revealed])
    return Review(
        token=scattered(revealed, token),
        confidence=scattered(revealed, confidence),
        support=scattered(revealed, probability(logits, slots.present[revealed])),
        mask=None if share is None else scattered(revealed, share),
    )


def hold_back(job: Job, step: Step) -> None:
    """Takes the EOS that `+no_early_eos` and `+eos_last` hold back from the candidates."""
    masked = step.masked
    if job.name.no_early_eos:
        step._hide((step.token == job.model.eos_id) & (masked.cumsum(-1) > 1))
    if job.name.eos_last:
        ends = masked & torch.isin(step.token, torch.tensor(sorted(job.model.stop_ids), device=masked.device))
        step._hide(ends & (masked & ~ends).any(-1, keepdim=True))


def what_if(job: Job, rows: Rows, context: Source, step: Step, where: Tensor, probe: Probe) -> Answers:
    """One forward of all what-if rows."""
    check_probe(job.name.policy, job.traits.needs, probe, step)
    row, slot = probe.write.nonzero(as_tuple=True)
    canvas = rows.canvas[probe.row]  # (W, L), a copy
    canvas[row, where[probe.row[row], slot]] = probe.token[row, slot]
    causal = marked(canvas, where[probe.row], probe.write) if probe.causal else None
    forwards = forwarded(job, rows, context, probe.row, canvas, rows.nfe[probe.row], causal)
    return Answers(
        row=probe.row,
        masked=step.inside[probe.row] & (forwards.at.gather(1, where[probe.row]) >= 0),
        _forwards=forwards,
        _where=where[probe.row],
        _temperature=job.name.temperature,
        _draws=step.uniform(-1)[probe.row] if job.name.temperature else None,
        _check=lambda chances, row: check_numbers(job.model, chances, row, rows),
        causal=probe.causal,
    )


def forwarded(
    job: Job, rows: Rows, context: Source, row: Tensor, canvas: Tensor, nfe: Tensor, causal: Tensor | None = None
) -> Forwards:
    """One forward of `canvas` (W, L), which the rows `row` (W,) have or might come to have after `nfe` (W,) forwards.

    It tells the masks of the active block, or where that is full, of the next one. A block model may be asked for the
    positions `causal` (W, L) of the active block instead, each given the tokens before it alone.
    """
    asked = replace(rows.select(row), canvas=canvas.clone())
    if job.name.eos_stop:
        asked.fill_after_eos(job.model)  # an answer that ends there has nothing left to predict
    if not job.model.block:  # a block model's next block waits for its storing forward
        asked.block = asked.block_of_first_mask(job.model.mask_id, job.size).maximum(asked.block)
    want = next_masks(job, asked) if causal is None else causal  # (W, L)
    live = want.any(-1).nonzero().squeeze(-1)
    logits = torch.empty(0, job.model.vocab_size, device=canvas.device)  # (N, V)
    if len(live):
        block = asked.block[live] if job.model.block else None
        query = Query(canvas[live], want[live], nfe[live], block=block, causal=causal is not None)
        logits = _of_rows(context, row[live], len(rows.origin)).logits(query)
        check_logits(job.model, logits, int(want.sum()), canvas, "masked")
        without_mask(logits, job.model.mask_id, share=False)
    rows.count(torch.bincount(row[live], minlength=len(rows.origin)))
    at = torch.full_like(canvas, -1)
    at[want] = torch.arange(len(logits), device=at.device)
    return Forwards(canvas, nfe, at, logits)


def marked(canvas: Tensor, where: Tensor, slots: Tensor) -> Tensor:
    """The canvas positions (R, L) of the given slots (R, C)."""
    mark = torch.zeros_like(canvas, dtype=torch.bool)
    row, slot = slots.nonzero(as_tuple=True)
    mark[row, where[row, slot]] = True
    return mark


def next_masks(job: Job, rows: Rows) -> Tensor:
    """The masks (R, L) in the active block of each row that has any."""
    want = torch.zeros_like(rows.canvas, dtype=torch.bool)
    open_ = (rows.canvas == job.model.mask_id).any(-1).nonzero().squeeze(-1)
    if len(open_):
        some = rows.select(open_)
        _, where, inside = some.active(job.size, job.traits.reach == "prefix")  # (R', C) each
        want[open_] = marked(some.canvas, where, inside & (some.canvas.gather(1, where) == job.model.mask_id))
    return want


def _of_rows(context: Any, index: Tensor, rows: int) -> Any:
    """The context with its rows `index` (W,), any number of times each."""
    if len(index) == rows and bool((index == torch.arange(rows, device=index.device)).all()):
        return context
    part = copy.copy(context)
    part.keep(index)
    return part


def _logits(
    job: Job, rows: Rows, context: Context, query: Query, where: Tensor, revealed: Tensor, reused: Tensor
) -> tuple[Tensor, Tensor | None, Attention | None]:
    """Logits of the masked slots (M, V) and, if the policy requests a review, of the revealed ones (N, V); attention
    weights, if it needs them.
    """
    again = attention = None
    review = marked(query.canvas, where, revealed) if job.traits.review else None
    if "attention" in job.traits.needs:
        query = replace(query, review=review, attending=job.traits.attends, slots=where)
        logits, again, attention = cast(AttentionContext, context).logits_and_attention(query)
    elif job.traits.review is not None:
        logits, again = context.logits_and_review(replace(query, review=review, hidden=job.traits.review == "hidden"))
    elif bool(reused.any()):
        return _partly_kept(job, rows, context, query, reused), None, None
    else:
        logits = context.logits(query)
    check_logits(job.model, logits, int(query.want.sum()), query.canvas, "masked")
    if again is not None:
        check_logits(job.model, again, int(revealed.sum()), query.canvas, "revealed")
    return logits, again, attention


def _partly_kept(job: Job, rows: Rows, context: Context, query: Query, reused: Tensor) -> Tensor:
    """Logits (M, V) of the masked slots: kept ones in the rows `reused` (R,), a forward of the others."""
    assert rows.kept is not None
    known = rows.kept.rows_of(rows.kept.at[query.want & reused[:, None]])
    if bool(reused.all()):
        return known
    index = (~reused).nonzero().squeeze(-1)
    block = None if query.block is None else query.block[index]
    query_of = replace(query, canvas=query.canvas[index], want=query.want[index], nfe=query.nfe[index], block=block)
    fresh = _of_rows(context, index, len(reused)).logits(query_of)
    check_logits(job.model, fresh, int(query_of.want.sum()), query.canvas, "masked")
    logits = known.new_empty(len(known) + len(fresh), known.shape[-1])
    row = query.want.nonzero()[:, 0]  # (M,)
    logits[reused[row]], logits[~reused[row]] = known, fresh
    return logits
