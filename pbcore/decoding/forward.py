"""Forwards of a batch: of the canvases that a step starts from, and of the what-if rows that its policy asks about.

R rows, W what-if rows, L canvas positions, C slots of the active block, M candidates, N revealed slots, V tokens.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

from pbcore.decoding.blocks import Blocks, fill_after_eos
from pbcore.decoding.checks import check_logits, check_numbers, check_probe
from pbcore.decoding.prediction import Prediction, predict, without_mask
from pbcore.decoding.protocol import Policy, Traits
from pbcore.decoding.review import marked, reviewed
from pbcore.decoding.rows import Log, Rows
from pbcore.decoding.schedule import quota
from pbcore.decoding.sharing import SharedContext
from pbcore.decoding.step import Step
from pbcore.decoding.step_parts import PerRow, PerSlot, Setting
from pbcore.decoding.what_if import Answers, Probe
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
    blocks: Blocks | None  # of a block model
    draw: Draw = uniform

    def setting(self, asked: int) -> Setting:
        """The setting of each Step; `asked` is the largest number of target positions in the batch."""
        fixed = self.seed, self.model.mask_id, self.name.temperature, self.model.frequencies
        return Setting(asked, *fixed, self.traits.reach, self.traits.reads, self.draw)


def forward(
    job: Job, rows: Rows, context: Source, window: tuple[int, int] | None, refresh: bool
) -> tuple[Step, Tensor]:
    """The policy's Step, and the canvas index (R, C) of each slot.

    One forward of all rows but those whose last move took a what-if row: its answers are read again.
    """
    place, where, inside = rows.active(job.size, job.traits.reach == "prefix")  # (R, C) each
    present = rows.canvas.gather(1, where)
    masked = inside & (present == job.model.mask_id)
    revealed = inside & ~masked
    if job.traits.part:
        masked = rows.first_part(job.size, job.traits.part, place, masked)
    query = Query(rows.canvas, marked(rows.canvas, where, masked), rows.nfe, window, refresh)
    if job.blocks:
        query = replace(query, block=rows.block, part=job.traits.part)
    reused = rows.knows(query.want)  # (R,)
    nfe = rows.nfe - reused.long()  # earlier forwards than the one read now
    draws = job.draw(job.seed, rows.key, nfe, place) if job.name.temperature else None  # (R, C)
    share = attention = None
    if isinstance(context, SharedContext):
        seen, again = context.predict(query), None
    else:
        logits, again, attention = _logits(job, rows, context, query, where, revealed, reused)  # (M, V), (N, V)
        share = without_mask(logits, job.model.mask_id, "mask" in job.traits.needs)  # (M,)
        seen = Prediction(*predict(logits, job.name.temperature, None if draws is None else draws[masked]), logits)
    check_numbers(job.model, seen.confidence, masked.nonzero()[:, 0], rows)
    slots = rows.in_block(job.size)  # (R,)
    single = job.blocks is None and job.name.block is None
    per_row = PerRow(
        key=rows.key,
        index=rows.index,
        nfe=nfe,
        slots=slots,
        size=rows.n_targets if single else torch.full_like(slots, job.size),
        requested=rows.requested,
        targets=rows.n_targets,
        stale=rows.stale(reused),
        left=partial(rows.masks, job.model.mask_id),
    )
    step = Step(
        job.setting(rows.targets.shape[1]),
        PerSlot(inside, place, where),
        per_row,
        masked,
        token=present.masked_scatter(masked, seen.token),
        confidence=_scattered(masked, seen.confidence),
        quota=quota(job.name, slots, rows.index, masked.sum(-1)),
        attention=attention,
        mask=None if share is None else _scattered(masked, share),
        _logits=seen.logits,
        _numbers={name: _scattered(masked, values) for name, values in seen.numbers.items()},
        _states=rows.states,
    )
    if again is not None:
        share = without_mask(again, job.model.mask_id, "mask" in job.traits.needs)  # (N,)
        step.review = reviewed(again, revealed, present, job.name.temperature, draws, share)
        check_numbers(job.model, step.review.confidence[revealed], revealed.nonzero()[:, 0], rows)
    rows.kept = None
    rows.count((~reused).long())
    return step, where


def what_if(job: Job, rows: Rows, context: Source, step: Step, where: Tensor, probe: Probe) -> Answers:
    """One forward of all what-if rows: masks of the active block, or where that is full, of the next one."""
    check_probe(job.name.policy, job.traits.needs, probe, step)
    row, slot = probe.write.nonzero(as_tuple=True)
    canvas = rows.canvas[probe.row]  # (W, L), a copy
    canvas[row, where[probe.row[row], slot]] = probe.token[row, slot]
    asked = replace(rows.select(probe.row), canvas=canvas.clone())
    if job.name.eos_stop:
        fill_after_eos(job.model, asked)  # an answer that ends there has nothing left to predict
    if job.blocks is None:  # a block model's next block waits for its storing forward
        asked.block = asked.block_of_first_mask(job.model.mask_id, job.size).maximum(asked.block)
    want = _next_masks(job, asked)  # (W, L)
    live = want.any(-1).nonzero().squeeze(-1)
    logits = step.confidence.new_empty(0, job.model.vocab_size)  # (N, V)
    if len(live):
        block = asked.block[live] if job.blocks else None
        query = Query(canvas[live], want[live], asked.nfe[live], block=block)
        logits = _of_rows(context, probe.row[live], len(rows.origin)).logits(query)
        check_logits(job.model, logits, int(want.sum()), canvas, "masked")
        without_mask(logits, job.model.mask_id, share=False)
    rows.count(torch.bincount(probe.row[live], minlength=len(rows.origin)))
    at = torch.full_like(canvas, -1)
    at[want] = torch.arange(len(logits), device=at.device)
    return Answers(
        row=probe.row,
        masked=step.inside[probe.row] & (at.gather(1, where[probe.row]) >= 0),
        canvas=canvas,
        _where=where[probe.row],
        _at=at,
        _logits=logits,
        _temperature=job.name.temperature,
        _draws=step.uniform(-1)[probe.row] if job.name.temperature else None,
        _check=lambda chances, row: check_numbers(job.model, chances, row, rows),
    )


def _next_masks(job: Job, rows: Rows) -> Tensor:
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


def _scattered(slots: Tensor, values: Tensor) -> Tensor:
    """Values (M,) in their slots (R, C), 0 elsewhere."""
    return torch.zeros(slots.shape, dtype=values.dtype, device=slots.device).masked_scatter(slots, values)


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
    known = rows.kept.of(query.want & reused[:, None])
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
