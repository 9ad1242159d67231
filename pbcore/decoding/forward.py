"""Forwards of a batch: of the canvases that a step starts from, and of the what-if rows that its
policy asks about.

R rows, W what-if rows, L canvas positions, C slots of the active block, M candidates, N revealed
slots, V tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from pbcore.base.lazy_torch import Tensor, torch
from pbcore.decoding.block_rules import ahead_of, reads_of
from pbcore.decoding.candidates import note_counts
from pbcore.decoding.checks import (
    check_length_tensor,
    check_lengths,
    check_logits,
    check_numbers,
    check_probe,
)
from pbcore.decoding.job import Job
from pbcore.decoding.outlook import Outlook, Slots, marked, written
from pbcore.decoding.predicted import (
    Ends,
    Predicted,
    Review,
    hide,
    prediction_of,
    review_within,
    see,
)
from pbcore.decoding.prediction import (
    logit_gap,
    pieces_of,
    predict,
    probability,
    running_numbers,
    scattered,
)
from pbcore.decoding.rows import NOWHERE, Rows
from pbcore.decoding.schedule import quota
from pbcore.decoding.sharing import SharedContext, of_rows
from pbcore.decoding.step import BY_ROW, Step
from pbcore.decoding.what_if import Answers, Forwards, Probe
from pbcore.models.base import Attention, AttentionContext, Context, Query, SizedContext
from pbcore.models.transfer import gather_entries, on_device, places

Source = Context | SharedContext


def look(job: Job, rows: Rows, stay: bool = False) -> Outlook:
    """What comes next, in one copy from the device; rows whose block is full enter the next one.
    Raises what went wrong since the last look.

    Args:
        job: what is decoded.
        rows: the batch; its `outlook` is set, too.
        stay: True keeps all rows in their block.
    """
    full = rows.first_mask(job.model.mask_id) >= rows.stop
    full &= ~rows.hold
    entered = torch.zeros_like(rows.hold)
    if not stay and not job.model.block:
        more = entered = enter_next(job, rows)
        while job.started and bool(more.any()):  # past the blocks that were full at the start
            more = enter_next(job, rows)
            entered = entered | more
    slots = slots_of(job, rows, rows.targets.shape[1])
    if job.traits.gaps is None:
        shown = slots.inside & (rows.canvas.gather(1, slots.column) != job.model.mask_id)
    else:
        shown = region_of(job, rows) & (rows.canvas != job.model.mask_id)
    done = ~(rows.canvas == job.model.mask_id).any(-1) & ~rows.hold
    reused = rows.hold if rows.kept is None else rows.kept.knows(_wanted(rows, slots))
    going = job.log.going()
    columns = [
        done,
        entered,
        full,
        entered & (rows.stop == NOWHERE),
        rows.block,
        rows.start,
        rows.stop,
        _count(rows),
        slots.masked.sum(-1),
        (slots.masked & (slots.place < rows.stop[:, None])).sum(-1),
        shown.sum(-1),
        reused if rows.kept is not None else torch.zeros_like(rows.hold),
        torch.zeros_like(rows.block) if going is None else going.expand_as(rows.block),
    ]
    ended, fresh, *numbers, gone = job.alarms.read(columns)
    job.log.settle(max(gone, default=0))
    if any(fresh):
        rows.forget(entered)
    rows.outlook = Outlook(slots, ended, *numbers)
    return rows.outlook


def enter_next(job: Job, rows: Rows) -> Tensor:
    """Moves the rows whose block is full to the next one; returns these (R,). Where its rule needs
    predictions, the block is open until a forward has them: it has all places that are left.
    """
    first = rows.first_mask(job.model.mask_id)  # (R,)
    entered = (first >= rows.stop) & (first < NOWHERE) & ~rows.hold
    ahead = ahead_of(job.blocks)
    if ahead is None:
        stop = torch.full_like(first, NOWHERE)
    else:
        left = (rows.n_targets - rows.stop).clamp(min=1)  # (R,)
        length = ahead(left)
        check_lengths(job, length, left, entered, rows.origin)
        first = rows.stop
        stop = rows.stop + length
    rows.enter(entered, rows.block + 1, first, stop)
    return entered


def _wanted(rows: Rows, slots: Slots) -> Tensor:
    """The canvas positions (R, L) of the candidates."""
    return marked(rows.canvas, slots.column, slots.masked)


def _count(rows: Rows) -> Tensor:
    """The number of slots (R,) in each row's active block."""
    inside = (rows.unit >= rows.start[:, None]) & (rows.unit < rows.stop[:, None])
    return inside.sum(-1)


def forward(
    job: Job, rows: Rows, context: Source, window: tuple[int, int] | None, refresh: bool
) -> Step:
    """The policy's Step: a forward of all rows but those whose canvas was forwarded already, as a
    what-if row.

    Args:
        job: what is decoded.
        rows: the batch, with its outlook.
        context: of the batch.
        window: with a cache, first and last + 1 of the canvas positions that are computed; None:
            all.
        refresh: True fills the cache anew.
    """
    assert rows.outlook is not None
    step = step_of(job, rows, rows.outlook)
    revealed = step.visible
    query = Query(
        rows.canvas,
        marked(rows.canvas, step.column, step.masked),
        step.nfe,
        window,
        refresh,
        wanted=tuple(rows.outlook.masked),
    )
    if job.model.block:
        query = replace(
            query, block=rows.block, part=job.traits.part, blocks=tuple(rows.outlook.block)
        )
    reused = torch.zeros_like(rows.hold)  # (R,): the what-if row taken predicted all that is wanted
    if rows.kept is not None:
        reused = rows.kept.knows(query.want)
        step.stale = reused & (rows.kept.canvas != rows.canvas).any(-1)
    step.nfe = step.nfe - reused.long()  # earlier forwards than the one read now
    again = None
    seen = None
    if isinstance(context, SharedContext):
        see(step, context.predict(query))
        _count_sizes(job, context, query, rows.numbers)
    else:
        seen = _seen(job, rows, context, query, step, reused)
        again = seen.revealed
        if seen.attention is not None:
            step.attention = seen.attention
        step.mask = seen.mask
        see(step, prediction_of(step, seen.masked))
        if job.counts_mask:
            step.confidence = with_mask(step)
    check_numbers(job, rows, step.confidence)
    if again is not None:
        step.review = _review(job, step, revealed, again, sum(rows.outlook.shown))
        check_numbers(job, rows, step.review.confidence)
    if any(rows.outlook.opened):
        _choose_ends(job, rows, step)
    if job.traits.gaps is not None:
        assert seen is not None
        _look_ahead(job, rows, step, seen)
    rows.kept = None
    rows.count((~reused).long())
    return step


def _choose_ends(job: Job, rows: Rows, step: Step) -> None:
    """Asks the rule where the open blocks end, and narrows the step, which has all places that are
    left of them, to these blocks.
    """
    outlook = rows.outlook
    assert outlook is not None
    opened = [number for number, is_open in enumerate(outlook.opened) if is_open]
    index = on_device(opened, rows.canvas.device)
    part = _rows_of(step, index, opened, outlook.masked)
    part.decoding = replace(step.decoding, reads=reads_of(job.blocks), reach="block")
    length = check_length_tensor(job, job.blocks(part), part)
    check_lengths(job, length, part.slots, torch.ones_like(part.stale), rows.origin[index])
    rows.stop = rows.stop.index_copy(0, index, rows.start[index] + length)
    masked = step.masked & (step.position < rows.stop[:, None])  # (R, C)
    left, slots, stop = job.alarms.read([masked.sum(-1), _count(rows), rows.stop])
    _narrow(job, rows, step, left, slots, stop)


def _narrow(
    job: Job,
    rows: Rows,
    step: Step,
    left: Sequence[int],
    slots: Sequence[int],
    stop: Sequence[int],
) -> None:
    """Narrows a step that has more places than the active blocks to these.

    Args:
        job: what is decoded.
        rows: the batch, with the ends of its blocks.
        step: what has more.
        left: candidates of each row's block, on the host.
        slots: places of each row's block.
        stop: the place behind its last.
    """
    outlook = rows.outlook
    assert outlook is not None
    count = _count(rows)
    within = step.position < rows.stop[:, None]  # (R, C)
    masked = step.masked & within
    if step._logits is not None:
        step._logits = step._logits[places(step.of_candidates(masked), sum(left))]
    step.token = torch.where(masked, step.token, rows.canvas.gather(1, step.column))
    step.confidence = step.confidence.masked_fill(~masked, 0.0)
    step.mask = None if step.mask is None else step.mask.masked_fill(~masked, 0.0)
    step.inside = step.inside & within
    step.visible = step.visible & within
    step.masked = masked
    step.slots = step.size = count
    step.quota = quota(job.name, count, rows.index, masked.sum(-1))
    note_counts(step, left)
    if step.review is not None:
        step.review = review_within(step.review, step.inside)
    seen = Slots(outlook.slots.place, outlook.slots.column, step.inside, masked)
    rows.outlook = replace(outlook, slots=seen, masked=left, count=slots, stop=stop)


def _rows_of(step: Step, index: Tensor, numbers: Sequence[int], masked: Sequence[int]) -> Step:
    """A step of some rows alone, without what the policy keeps.

    Args:
        step: of all rows.
        index: (R',) the rows.
        numbers: the same on the host.
        masked: how many candidates each row of the step has.
    """
    chosen = torch.zeros_like(step.stale).index_fill(0, index, True)  # (R,)
    tensors = {name: getattr(step, name)[index] for name in BY_ROW}
    part = replace(
        step, **tensors, mask=None, quota=None, states={}, notes={}, answers=None, _counted=None
    )
    counts = [masked[number] for number in numbers]
    if step._logits is not None and len(numbers) < len(chosen):
        own = step.of_candidates(chosen[:, None].expand_as(step.masked))  # (M,)
        part._logits = step._logits[places(own, sum(counts))]
    part._numbers = {name: values[index] for name, values in step._numbers.items()}
    note_counts(part, counts)
    return part


def region_of(job: Job, rows: Rows) -> Tensor:
    """The canvas positions (R, L) of the region that the policy's `gaps` name, cut at the answer's
    end.
    """
    assert job.traits.gaps is not None
    first, count = job.traits.gaps
    place = torch.arange(rows.targets.shape[1], device=rows.canvas.device)  # (A,)
    inside = (place >= first) & (place < rows.n_targets[:, None])
    if count:
        inside &= place < first + count
    return marked(rows.canvas, rows.targets, inside)


def _look_ahead(job: Job, rows: Rows, step: Step, seen: "_Seen") -> None:
    """Notes the gap in the policy's region and what would end the answer now, and narrows the step,
    which has all places from the active block on, to the block.
    """
    outlook = rows.outlook
    assert outlook is not None
    assert seen.gaps is not None
    at_masks, again = seen.gaps
    region = region_of(job, rows)  # (R, L)
    gaps = torch.zeros(rows.canvas.shape, dtype=torch.double, device=rows.canvas.device)
    gaps = written(gaps, step.column, step.masked, scattered(step.masked, at_masks.double()))
    gaps = gaps.masked_scatter(region & (rows.canvas != job.model.mask_id), again.double())
    step.gap = gaps.where(region, torch.zeros_like(gaps)).sum(-1) / region.sum(-1)
    token, confidence = step.token, step.confidence
    if step.temperature:  # the likeliest, whatever was drawn
        assert step._logits is not None
        likeliest, chance = predict(step._logits, step.decoding.law, None)
        token = token.masked_scatter(step.masked, likeliest)
        confidence = scattered(step.masked, chance)
    step._ends = Ends(step.column, step.masked, token, confidence)
    _narrow(job, rows, step, outlook.within, outlook.count, outlook.stop)


def slots_of(job: Job, rows: Rows, widest: int | None = None) -> Slots:
    """The slots (R, C) that the policy gets, of each row's active block or, with reach `prefix`, of
    all blocks up to it; with `gaps` those of all blocks from it on, which the forward predicts.
    Candidates are masked, and in the first part of the block that has masks.

    Args:
        job: says block length, reach and part.
        widest: C with reach `prefix`; None: as many as the rows have, for which the host waits.
    """
    part = job.traits.part
    if job.traits.reach == "prefix":
        start = torch.zeros_like(rows.block)  # (R,)
        width = widest or reach_of(job, int(rows.stop.max()), rows.targets.shape[1])
    else:
        start = (rows.unit < rows.start[:, None]).sum(-1)  # (R,)
        width = job.size
    ends = rows.stop if job.traits.gaps is None else torch.full_like(rows.stop, NOWHERE)
    stop = (rows.unit < ends[:, None]).sum(-1)  # (R,)
    place = start[:, None] + torch.arange(width, device=start.device)  # (R, C)
    inside = place < stop[:, None]
    place = place.clamp(max=rows.targets.shape[1] - 1)
    column = rows.targets.gather(1, place)
    masked = inside & (rows.canvas.gather(1, column) == job.model.mask_id)
    if part:
        of = (rows.unit.gather(1, place) - rows.start[:, None]) // part  # (R, C)
        masked &= of == of.masked_fill(~masked, NOWHERE).min(-1, keepdim=True).values
    return Slots(place, column, inside, masked)


def reach_of(job: Job, stop: int, targets: int) -> int:
    """How many slots a policy gets.

    Args:
        job: says the most slots of a block, and reach.
        stop: the place behind the last block that a row has come to.
        targets: A, the largest number of target positions.
    """
    return min(max(stop, job.size), targets) if job.traits.reach == "prefix" else job.size


def step_of(job: Job, rows: Rows, outlook: Outlook) -> Step:
    """The rows' next Step, before it has seen what their next forward says of the candidates.

    Args:
        job: what is decoded.
        outlook: what the host knows of it.
    """
    place, where, inside, masked = outlook.slots
    token = rows.canvas.gather(1, where)  # (R, C)
    count = _count(rows)
    step = Step(
        inside=inside,
        position=place,
        column=where,
        masked=masked,
        visible=inside & (token != job.model.mask_id),
        token=token,
        confidence=torch.zeros(masked.shape, device=masked.device),
        key=rows.key,
        index=rows.index,
        nfe=rows.nfe,
        slots=count,
        size=count if not job.model.block else torch.full_like(count, job.size),
        requested=rows.requested,
        targets=rows.n_targets,
        left=rows.masks(job.model.mask_id).sum(-1),
        stale=torch.zeros_like(rows.hold),
        asked=rows.targets.shape[1],
        decoding=job.decoding,
        quota=quota(job.name, count, rows.index, masked.sum(-1)),
        states=rows.states,
    )
    note_counts(step, outlook.masked)
    return step


def _review(job: Job, step: Predicted, revealed: Tensor, logits: Tensor, count: int) -> Review:
    """The review of the slots `revealed` (R, C), `count` in all, from their logits (N, V)."""
    logits, mask = ranked(job, logits, revealed)
    at = places(revealed, count)  # (N,)
    token, confidence = predict(
        logits, step.decoding.law, step.uniform(-1).flatten()[at] if step.temperature else None
    )
    support = scattered(revealed, probability(logits, step.token.flatten()[at]))
    return Review(scattered(revealed, token), scattered(revealed, confidence), support, mask)


def ranked(job: Job, logits: Tensor, slots: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """What the loop makes of a model's logits (M, V), which it overwrites: those of the
    distribution that ranks places, without the mask token.

    Args:
        job: what is decoded.
        logits: of a forward.
        slots: (R, C) bool, whose they are; None where the mask token's probability isn't wanted.

    Returns:
        The logits, and the probability (R, C) that the mask token had, if the policy needs that or
        the model counts it.
    """
    mask_id = job.model.mask_id
    law = job.decoding.law
    if slots is None or not (job.counts_mask or "mask" in job.traits.needs):
        logits[:, mask_id] = -torch.inf
        return law.ranked(logits), None
    logits = law.ranked(logits)
    had = torch.cat([torch.softmax(piece, dim=-1)[:, mask_id] for piece in pieces_of(logits)])
    logits[:, mask_id] = -torch.inf
    return logits, scattered(slots, had)


def with_mask(step: Predicted) -> Tensor:
    """The candidates' confidences (R, C) where the mask token is a prediction like any other: those
    over the whole vocabulary, the mask's own where it is likeliest.
    """
    assert step.mask is not None
    return step.mask.maximum(step.confidence * (1 - step.mask))


def hold_back(job: Job, step: Predicted) -> None:
    """Takes the stop tokens that `+no_early_eos` and `+eos_last` hold back from the candidates."""
    masked = step.masked
    if job.name.no_early_eos:
        hide(step, job.stops(step.token) & (masked.cumsum(-1) > 1))
    if job.name.eos_last:
        ends = masked & job.stops(step.token)
        hide(step, ends & (masked & ~ends).any(-1, keepdim=True))


def what_if(job: Job, rows: Rows, context: Source, step: Step, probe: Probe) -> Answers:
    """One forward of all what-if rows.

    Args:
        job: what is decoded.
        context: of the batch.
        step: whose policy asks.
        probe: W what-if rows; checked here.
    """
    probe = check_probe(job, probe, step)
    before = rows.canvas[probe.row]  # (W, L)
    where = step.column[probe.row]  # (W, C)
    canvas = written(before, where, probe.write, probe.token)
    causal = marked(canvas, where, probe.write) if probe.causal else None
    slots = step.inside[probe.row], where
    forwards = forwarded(job, rows, context, probe.row, canvas, rows.nfe[probe.row], causal, slots)
    masked = step.inside[probe.row] & (forwards.at.gather(1, where) >= 0)
    return Answers(
        row=probe.row,
        masked=masked,
        _forwards=forwards,
        _where=where,
        _law=step.decoding.law,
        _draws=step.uniform(-1)[probe.row] if step.temperature else None,
        _check=lambda chances, row: check_numbers(job, rows, chances, row),
        causal=probe.causal,
    )


def forwarded(
    job: Job,
    rows: Rows,
    context: Source,
    row: Tensor,
    canvas: Tensor,
    nfe: Tensor,
    causal: Tensor | None,
    slots: tuple[Tensor, Tensor],
) -> Forwards:
    """One forward of canvases that rows might have: of the masks of the active block, or where that
    is full, of the next one.

    Args:
        job: what is decoded.
        rows: the batch, R rows.
        context: of the batch.
        row: (W,) the row of each canvas.
        canvas: (W, L).
        nfe: (W,) earlier forwards of each.
        causal: (W, L) bool: positions of a block model that are predicted in place of the masks,
            each given the tokens before it alone; None: the masks.
        slots: of the step, whether a row has them and their positions, (W, C) each; counts what is
            predicted in them.
    """
    asked = replace(rows.select(row), canvas=canvas.clone())
    if job.name.eos_stop:
        asked.fill_after_eos(job.model)  # an answer that ends there has nothing left to predict
    if not job.model.block:  # a block model's next block waits for its storing forward
        enter_next(job, asked)
    want = next_masks(job, asked) if causal is None else causal  # (W, L)
    counts = want.sum(-1)  # (W,)
    within = (want.gather(1, slots[1]) & slots[0]).sum(-1)
    told = torch.stack([row, counts, asked.block, within]).tolist()
    owners, wanted, blocks, inner = told
    live = [number for number, count in enumerate(wanted) if count]
    logits = torch.empty(0, job.model.vocab_size, device=canvas.device)  # (N, V)
    if live:
        index = on_device(live, canvas.device)
        query = Query(
            canvas[index],
            want[index],
            nfe[index],
            causal=causal is not None,
            wanted=tuple(wanted[number] for number in live),
        )
        if job.model.block:
            query = replace(
                query, block=asked.block[index], blocks=tuple(blocks[number] for number in live)
            )
        numbers = [owners[number] for number in live]
        logits = answered(job, rows, context, query, row[index], numbers)
    rows.count(torch.zeros_like(rows.nfe).index_add_(0, row, (counts > 0).long()))
    return Forwards(canvas, running_numbers(want), logits, sum(inner))


def answered(
    job: Job, rows: Rows, context: Source, query: Query, row: Tensor, numbers: Sequence[int]
) -> Tensor:
    """Logits (N, V) of what a query wants, those that rank places.

    Args:
        job: what is decoded.
        rows: the batch, R rows.
        context: of the batch.
        query: W canvases that the rows might have.
        row: (W,) the row of each.
        numbers: `row` on the host.
    """
    part = of_rows(context, row, len(rows.origin), numbers)
    logits: Tensor = part.logits(query)
    _count_sizes(job, part, query, [rows.numbers[number] for number in numbers])
    check_logits(job.model, logits, sum(query.wanted or ()), query.canvas, "masked")
    return ranked(job, logits, None)[0]


def _count_sizes(job: Job, context: Any, query: Query, origins: Sequence[int]) -> None:
    """Adds the forward that answered a query to the tally; `origins` are its rows' requests."""
    tally = job.log.tally
    if tally is None or not tally.counted:
        return
    if isinstance(context, SizedContext):
        sizes = context.sizes(query)
    else:
        sizes = tally.whole(origins, query)
    tally.count(origins, sizes)


def next_masks(job: Job, rows: Rows) -> Tensor:
    """The masks (R, L) in the active block of each row."""
    return _wanted(rows, slots_of(job, rows, rows.targets.shape[1]))


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a forward says of the slots."""

    masked: Tensor  # (M, V): logits of the masked slots, those that rank places
    mask: Tensor | None = None  # (R, C): the mask token's probability there, if wanted
    revealed: Tensor | None = (
        None  # (N, V): logits of the revealed ones, if the policy reviews them
    )
    attention: Attention | None = None  # of all slots, if the policy needs it
    # With `gaps`: those between the two highest logits, of the masked slots and of revealed tokens
    # of the region.
    gaps: tuple[Tensor, Tensor] | None = None


def _seen(
    job: Job, rows: Rows, context: Context, query: Query, step: Step, reused: Tensor
) -> _Seen:
    """A forward of the rows that need one; those `reused` (R,) were forwarded as what-if rows."""
    outlook = rows.outlook
    assert outlook is not None
    again: Tensor | None = None
    attention: Attention | None = None
    if job.traits.review is not None:
        review = marked(query.canvas, step.column, step.visible)
        query = replace(query, review=review, shown=tuple(outlook.shown))
    if job.traits.gaps is not None:
        review = region_of(job, rows) & (rows.canvas != job.model.mask_id)
        query = replace(query, review=review, shown=tuple(outlook.shown))
    if "attention" in job.traits.needs:
        query = replace(query, attending=job.traits.attends, slots=step.column)
        logits, again, attention = cast(AttentionContext, context).logits_and_attention(query)
    elif query.review is not None:
        query = replace(query, hidden=job.traits.review == "hidden")
        logits, again = context.logits_and_review(query)
    elif rows.kept is not None:
        return _Seen(_partly_kept(job, rows, context, query, reused))
    else:
        logits = context.logits(query)
    _count_sizes(job, context, query, rows.numbers)
    check_logits(job.model, logits, sum(outlook.masked), query.canvas, "masked")
    if again is not None:
        check_logits(job.model, again, sum(outlook.shown), query.canvas, "revealed")
    gaps = None
    if job.traits.gaps is not None and again is not None:
        for part in (logits, again):
            part[:, job.model.mask_id] = -torch.inf
        gaps = logit_gap(logits), logit_gap(again)
        again = None
    logits, mask = ranked(job, logits, step.masked)
    return _Seen(logits, mask, again, attention, gaps)


def _partly_kept(job: Job, rows: Rows, context: Context, query: Query, reused: Tensor) -> Tensor:
    """Logits (M, V) of the masked slots, those that rank places: kept ones in the rows `reused`
    (R,), a forward of the others.
    """
    kept = rows.kept
    outlook = rows.outlook
    assert kept is not None
    assert outlook is not None
    again = outlook.reused
    fresh_rows = [number for number, is_kept in enumerate(again) if not is_kept]
    fresh_count = sum(outlook.masked[number] for number in fresh_rows)
    total = sum(outlook.masked)
    if len(fresh_rows) == len(again):
        logits = context.logits(query)
        _count_sizes(job, context, query, rows.numbers)
        check_logits(job.model, logits, total, query.canvas, "masked")
        return ranked(job, logits, None)[0]
    at = places(query.want & reused[:, None], total - fresh_count)
    known = kept.logits[kept.at.flatten()[at]]
    rows.kept = kept = None
    if not fresh_rows:
        return known
    index = on_device(fresh_rows, query.canvas.device)
    block = None if query.block is None else query.block[index]
    blocks = None if query.blocks is None else tuple(query.blocks[number] for number in fresh_rows)
    query_of = replace(
        query,
        canvas=query.canvas[index],
        want=query.want[index],
        nfe=query.nfe[index],
        block=block,
        blocks=blocks,
        wanted=tuple(outlook.masked[number] for number in fresh_rows),
    )
    part = of_rows(context, index, len(again), fresh_rows)
    fresh = part.logits(query_of)
    _count_sizes(job, part, query_of, [rows.numbers[number] for number in fresh_rows])
    check_logits(job.model, fresh, fresh_count, query.canvas, "masked")
    fresh, _ = ranked(job, fresh, None)
    logits = known.new_empty(total, known.shape[-1])
    wanted = places(query.want, total)  # (M,)
    from_kept = gather_entries(reused[:, None].expand_as(query.want), wanted)  # (M,)
    logits[places(from_kept, len(known))] = known
    logits[places(~from_kept, fresh_count)] = fresh
    return logits
