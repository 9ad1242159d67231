"""Forwards of a batch: of the canvases that a step starts from, and of the what-if rows that its
policy asks about.

R rows, W what-if rows, L canvas positions, C slots of the active block, M candidates, N revealed
slots, V tokens.
"""

from dataclasses import dataclass, replace
from typing import cast

from pbcore.decoding.checks import check_logits, check_numbers, check_probe
from pbcore.decoding.prediction import numbered, pieces_of, predict, probability, scattered
from pbcore.decoding.protocol import Policy, Traits
from pbcore.decoding.rows import Log, Rows
from pbcore.decoding.sharing import SharedContext, of_rows
from pbcore.decoding.step import Review, Step, quota
from pbcore.decoding.what_if import Answers, Forwards, Probe
from pbcore.lazy_torch import Tensor, torch
from pbcore.models.base import AttentionContext, Context, Denoiser, Query
from pbcore.models.counter_rng import RandomSource, uniform
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
    draw: RandomSource = uniform

    def stops(self, token: Tensor) -> Tensor:
        """Where `token` is one that ends an answer."""
        return torch.isin(token, torch.tensor(sorted(self.model.stop_ids), device=token.device))


def forward(
    job: Job, rows: Rows, context: Source, window: tuple[int, int] | None, refresh: bool
) -> Step:
    """The policy's Step: a forward of all rows but those whose canvas was forwarded already, by
    what-if or ahead.
    """
    step = step_of(job, rows)
    revealed = step.visible
    query = Query(
        rows.canvas, marked(rows.canvas, step.column, step.masked), step.nfe, window, refresh
    )
    if job.model.block:
        query = replace(query, block=rows.block, part=job.traits.part)
    reused = torch.zeros_like(rows.hold)  # (R,): the what-if row taken predicted all that is wanted
    if rows.kept is not None:
        reused = rows.kept.knows(query.want)
        step.stale = reused & (rows.kept.canvas != rows.canvas).any(-1)
    if not job.name.ahead:
        step.nfe = step.nfe - reused.long()  # earlier forwards than the one read now
    again = None
    if isinstance(context, SharedContext):
        step._see(context.predict(query))
    else:
        logits, again = _logits(job, rows, context, query, step, revealed, reused)
        step.mask = _without_mask(job, logits, step.masked)
        step._see(step._predicted(logits))
    check_numbers(job.model, step.confidence[step.masked], step.masked.nonzero()[:, 0], rows)
    if again is not None:
        step.review = _review(job, step, revealed, again)
        check_numbers(job.model, step.review.confidence[revealed], revealed.nonzero()[:, 0], rows)
    rows.kept = None
    rows.count((~reused).long())
    return step


def slots_of(job: Job, rows: Rows) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The slots (R, C) that the policy gets, of each row's active block or, with reach `prefix`, of
    all blocks up to it: index among the target positions, index in the canvas, whether the row has
    it, and whether it is a candidate: masked, and in the first part of the block that has masks.
    """
    size = job.size
    part = job.traits.part
    reaches_back = job.traits.reach == "prefix"
    block = rows.unit // size  # (R, A)
    start = (
        torch.zeros_like(rows.block) if reaches_back else (block < rows.block[:, None]).sum(-1)
    )  # (R,)
    stop = (block <= rows.block[:, None]).sum(-1)  # (R,)
    width = min(int(rows.block.max() + 1) * size, block.shape[1]) if reaches_back else size
    place = start[:, None] + torch.arange(width, device=start.device)  # (R, C)
    inside = place < stop[:, None]
    place = place.clamp(max=rows.targets.shape[1] - 1)
    column = rows.targets.gather(1, place)
    masked = inside & (rows.canvas.gather(1, column) == job.model.mask_id)
    if part:
        of = rows.unit.gather(1, place) % size // part  # (R, C)
        masked &= of == of.masked_fill(~masked, size).min(-1, keepdim=True).values
    return place, column, inside, masked


def step_of(job: Job, rows: Rows) -> Step:
    """The rows' next Step, before it has seen what their next forward says of the candidates."""
    place, where, inside, masked = slots_of(job, rows)
    token = rows.canvas.gather(1, where)  # (R, C)
    count = (rows.unit // job.size == rows.block[:, None]).sum(-1)  # (R,)
    single = not job.model.block and job.name.block is None
    return Step(
        inside=inside,
        position=place,
        column=where,
        masked=masked,
        visible=inside & (token != job.model.mask_id),
        token=token,
        confidence=torch.zeros(masked.shape, device=masked.device),
        key=rows.key,
        index=rows.index,
        nfe=rows.earlier(job.name.ahead),
        slots=count,
        size=rows.n_targets if single else torch.full_like(count, job.size),
        requested=rows.requested,
        targets=rows.n_targets,
        left=rows.masks(job.model.mask_id).sum(-1),
        stale=torch.zeros_like(rows.hold),
        asked=rows.targets.shape[1],
        seed=job.seed,
        mask_id=job.model.mask_id,
        temperature=job.name.temperature,
        frequencies=job.model.frequencies,
        reach=job.traits.reach,
        reads=job.traits.reads,
        quota=quota(job.name, count, rows.index, masked.sum(-1)),
        _states=rows.states,
        _draw=job.draw,
    )


def _review(job: Job, step: Step, revealed: Tensor, logits: Tensor) -> Review:
    """The review of the slots `revealed` (R, C) from their logits (N, V)."""
    mask = _without_mask(job, logits, revealed)
    token, confidence = predict(
        logits, step.temperature, step.uniform(-1)[revealed] if step.temperature else None
    )
    support = scattered(revealed, probability(logits, step.token[revealed]))
    return Review(scattered(revealed, token), scattered(revealed, confidence), support, mask)


def _without_mask(job: Job, logits: Tensor, slots: Tensor) -> Tensor | None:
    """Excludes the mask token from the logits (M, V) of `slots` (R, C), in place; returns the
    probability (R, C) that it had, if the policy needs that, else None.
    """
    mask_id = job.model.mask_id
    had = None
    if "mask" in job.traits.needs:
        had = scattered(
            slots,
            torch.cat([torch.softmax(piece, dim=-1)[:, mask_id] for piece in pieces_of(logits)]),
        )
    logits[:, mask_id] = -torch.inf
    return had


def hold_back(job: Job, step: Step) -> None:
    """Takes the EOS that `+no_early_eos` and `+eos_last` hold back from the candidates."""
    masked = step.masked
    if job.name.no_early_eos:
        step._hide((step.token == job.model.eos_id) & (masked.cumsum(-1) > 1))
    if job.name.eos_last:
        ends = masked & job.stops(step.token)
        step._hide(ends & (masked & ~ends).any(-1, keepdim=True))


def what_if(job: Job, rows: Rows, context: Source, step: Step, probe: Probe) -> Answers:
    """One forward of all what-if rows."""
    check_probe(job.name.policy, job.traits.needs, probe, step)
    row, slot = probe.write.nonzero(as_tuple=True)
    canvas, where = rows.canvas[probe.row], step.column[probe.row]  # (W, L), a copy; (W, C)
    canvas[row, where[row, slot]] = probe.token[row, slot]
    causal = marked(canvas, where, probe.write) if probe.causal else None
    forwards = forwarded(job, rows, context, probe.row, canvas, rows.nfe[probe.row], causal)
    return Answers(
        row=probe.row,
        masked=step.inside[probe.row] & (forwards.at.gather(1, where) >= 0),
        _forwards=forwards,
        _where=where,
        _temperature=job.name.temperature,
        _draws=step.uniform(-1)[probe.row] if job.name.temperature else None,
        _check=lambda chances, row: check_numbers(job.model, chances, row, rows),
        causal=probe.causal,
    )


def forwarded(
    job: Job,
    rows: Rows,
    context: Source,
    row: Tensor,
    canvas: Tensor,
    nfe: Tensor,
    causal: Tensor | None = None,
) -> Forwards:
    """One forward of `canvas` (W, L), which the rows `row` (W,) have or might come to have after
    `nfe` (W,) forwards: of the masks of the active block, or where that is full, of the next one,
    or of a block model's positions `causal` (W, L), each given the tokens before it alone.
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
        logits = of_rows(context, row[live], len(rows.origin)).logits(query)
        check_logits(job.model, logits, int(want.sum()), canvas, "masked")
        logits[:, job.model.mask_id] = -torch.inf
    rows.count(torch.bincount(row[live], minlength=len(rows.origin)))
    return Forwards(canvas, nfe, numbered(want), logits)


def marked(canvas: Tensor, where: Tensor, slots: Tensor) -> Tensor:
    """The canvas positions (R, L) of the given slots (R, C)."""
    mark = torch.zeros_like(canvas, dtype=torch.bool)
    row, slot = slots.nonzero(as_tuple=True)
    mark[row, where[row, slot]] = True
    return mark


def next_masks(job: Job, rows: Rows) -> Tensor:
    """The masks (R, L) in the active block of each row."""
    _, where, _, masked = slots_of(job, rows)  # (R, C) each
    return marked(rows.canvas, where, masked)


def _logits(
    job: Job,
    rows: Rows,
    context: Context,
    query: Query,
    step: Step,
    revealed: Tensor,
    reused: Tensor,
) -> tuple[Tensor, Tensor | None]:
    """Logits of the masked slots (M, V) and, if the policy needs them, of the revealed ones (N, V),
    and attention.
    """
    again = None
    review = marked(query.canvas, step.column, revealed) if job.traits.review else None
    if "attention" in job.traits.needs:
        query = replace(query, review=review, attending=job.traits.attends, slots=step.column)
        logits, again, step.attention = cast(AttentionContext, context).logits_and_attention(query)
    elif job.traits.review is not None:
        logits, again = context.logits_and_review(
            replace(query, review=review, hidden=job.traits.review == "hidden")
        )
    elif bool(reused.any()):
        return _partly_kept(job, rows, context, query, reused), None
    else:
        logits = context.logits(query)
    check_logits(job.model, logits, int(query.want.sum()), query.canvas, "masked")
    if again is not None:
        check_logits(job.model, again, int(revealed.sum()), query.canvas, "revealed")
    return logits, again


def _partly_kept(job: Job, rows: Rows, context: Context, query: Query, reused: Tensor) -> Tensor:
    """Logits (M, V) of the masked slots: kept ones in the rows `reused` (R,), a forward of the
    others.
    """
    assert rows.kept is not None
    known = rows.kept.rows_of(rows.kept.at[query.want & reused[:, None]])
    if bool(reused.all()):
        return known
    index = (~reused).nonzero().squeeze(-1)
    block = None if query.block is None else query.block[index]
    query_of = replace(
        query, canvas=query.canvas[index], want=query.want[index], nfe=query.nfe[index], block=block
    )
    fresh = of_rows(context, index, len(reused)).logits(query_of)
    check_logits(job.model, fresh, int(query_of.want.sum()), query.canvas, "masked")
    logits = known.new_empty(len(known) + len(fresh), known.shape[-1])
    row = query.want.nonzero()[:, 0]  # (M,)
    logits[reused[row]], logits[~reused[row]] = known, fresh
    return logits
