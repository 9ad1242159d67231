"""`+aheadN`: any sampler's own answers in fewer calls, by forwards of the canvases that it will
probably come to.

The forward that a step needs takes guesses of the next canvases along (`guesses`), N canvases in
all. As long as the next canvas is among those forwarded, its step runs no forward. Every step reads
the forward of just its own canvas, so answers are the sampler's own, and it never takes more calls.

What was forwarded, and for which canvas, the host knows; only logits stay on the device. So the
host waits once a step, to read the canvas that the step came to, and a few times more where a
forward is due, whatever N is.

R rows, W canvases, L canvas positions, M positions read, N known positions, V tokens.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from pbcore.base.lazy_torch import Tensor, torch
from pbcore.decoding.forward import Source, answered, next_masks
from pbcore.decoding.guesses import Guess, guessed
from pbcore.decoding.job import Job
from pbcore.decoding.outlook import marked
from pbcore.decoding.prediction import running_numbers
from pbcore.decoding.rows import Rows
from pbcore.decoding.what_if import Forwards
from pbcore.models.base import Query
from pbcore.models.transfer import on_device


class _Part(NamedTuple):
    """Positions of a row and their entries in what was forwarded for it."""

    row: int
    forwards: Forwards
    entries: Tensor  # (M,) rows of the forwards' logits, on the host


def look_ahead(job: Job, rows: Rows, context: Source) -> None:
    """Finds the forward of each row's canvas, or runs it together with guesses, for the step to
    read in `rows.kept`.

    Args:
        job: its `name.ahead` is N, the most canvases of a row in a forward.
        rows: the batch.
        context: of the batch.
    """
    canvas, want, nfe = _on_host(job, rows)  # (R, L), (R, L), (R,)
    rows.foreseen = rows.foreseen or [None] * len(rows.origin)
    open_ = want.any(-1).nonzero().squeeze(-1).tolist()
    parts = {row: _exact(job, rows, row, canvas[row], nfe[row], want[row]) for row in open_}
    missing = [row for row, part in parts.items() if part is None]
    if missing:
        _run(job, rows, context, missing, canvas, want)
        for row in missing:
            parts[row] = _exact(job, rows, row, canvas[row], nfe[row], want[row])
    rows.kept = None
    found = [part for part in parts.values() if part is not None]
    if found:
        at = on_device(running_numbers(want), rows.canvas.device)
        rows.kept = Forwards(rows.canvas, rows.nfe, at, read_ahead(found), whole=True)
        assert rows.outlook is not None
        reused = [int(row in parts) for row in range(len(rows.origin))]
        rows.outlook = replace(rows.outlook, reused=reused)


def _on_host(job: Job, rows: Rows) -> tuple[Tensor, Tensor, Tensor]:
    """Of each row its canvas (R, L), the candidates in it (R, L), and how many forwards the sampler
    alone would have run (R,), by one copy.
    """
    assert rows.outlook is not None
    slots = rows.outlook.slots
    width = rows.canvas.shape[1]
    packed = torch.cat(
        [rows.canvas, slots.column, slots.masked.long(), rows.earlier(job.name.ahead)[:, None]], -1
    ).cpu()
    sizes = [width, slots.column.shape[1], slots.column.shape[1], 1]
    canvas, column, masked, nfe = torch.split(packed, sizes, dim=-1)
    return canvas, marked(canvas, column, masked.bool()), nfe[:, 0]


def _exact(
    job: Job, rows: Rows, row: int, canvas: Tensor, nfe: Tensor, want: Tensor
) -> _Part | None:
    """What was forwarded of just this `canvas` (L,), as far as it answers for the positions in
    `want` (L,). Where a forward doesn't depend on the canvas alone it must be that after `nfe`
    others.
    """
    forwards = rows.foreseen[row]
    if forwards is None:
        return None
    same = (forwards.canvas == canvas).all(-1) & forwards.knows(want)  # (W,)
    if not job.model.deterministic:
        same &= forwards.nfe == nfe
    if not bool(same.any()):
        return None
    return _Part(row, forwards, forwards.at[same.int().argmax()][want])


def _run(
    job: Job, rows: Rows, context: Source, missing: Sequence[int], canvas: Tensor, want: Tensor
) -> None:
    """One forward of the canvases (R, L) of the rows `missing`, each followed by its guesses."""
    host = rows.on_host(confidences=False)
    closest = [_closest(job, rows, row, canvas[row], want[row]) for row in missing]
    known = [part for part in closest if part is not None]
    guesses = [Guess(row, 1.0, canvas[row], 0) for row in missing]
    if known:
        owners = [part.row for part in known]
        guesses += guessed(job, rows, host, owners, read_ahead(known))
        guesses.sort(key=lambda guess: guess.row)
    row = torch.tensor([guess.row for guess in guesses])  # (W,)
    asked = replace(host.select(row), canvas=torch.stack([guess.canvas for guess in guesses]))
    if job.name.eos_stop:
        asked.fill_after_eos(job.model)  # an answer that ends there has nothing left to predict
    if not job.model.block:  # a block model's next block waits for its storing forward
        asked.block = asked.block_of_first_mask(job.model.mask_id, job.size).maximum(asked.block)
    depth = torch.tensor([guess.depth for guess in guesses])
    nfe = asked.earlier(job.name.ahead) + depth  # (W,)
    positions = next_masks(job, asked)  # (W, L)
    logits = _forwarded(job, rows, context, asked, positions, nfe, row)
    at = running_numbers(positions)
    for number in missing:
        own = (row == number).nonzero().squeeze(-1)
        rows.foreseen[number] = Forwards(asked.canvas[own], nfe[own], at[own], logits)


def _closest(job: Job, rows: Rows, row: int, canvas: Tensor, want: Tensor) -> _Part | None:
    """Of the row's forwards the one with the most tokens of its `canvas` (L,) and no others; None
    if it has none.
    """
    forwards = rows.foreseen[row]
    if forwards is None:
        return None
    masks = forwards.canvas == job.model.mask_id  # (W, L)
    within = (masks | (forwards.canvas == canvas)).all(-1) & forwards.knows(want)  # (W,)
    if not bool(within.any()):
        return None
    closest = masks.sum(-1).masked_fill(~within, len(want) + 1).argmin()
    return _Part(row, forwards, forwards.at[closest][want])


def _forwarded(
    job: Job,
    rows: Rows,
    context: Source,
    asked: Rows,
    positions: Tensor,
    nfe: Tensor,
    row: Tensor,
) -> Tensor:
    """Logits (N, V) of the `positions` (W, L) of the canvases in `asked`, all of which have some,
    by one forward. `row` (W,) is whose they are. All numbers are the host's.
    """
    device = rows.canvas.device
    query = Query(
        on_device(asked.canvas, device),
        on_device(positions, device),
        on_device(nfe, device),
        wanted=tuple(positions.sum(-1).tolist()),
    )
    if job.model.block:
        query = replace(
            query, block=on_device(asked.block, device), blocks=tuple(asked.block.tolist())
        )
    logits = answered(job, rows, context, query, on_device(row, device), row.tolist())
    rows.count(on_device(row.bincount(minlength=len(rows.origin)), device))
    return logits


def read_ahead(parts: Sequence[_Part]) -> Tensor:
    """The logits (M, V) of the parts, one after the other: those from the same forward by one
    selection.
    """
    sources = list({id(part.forwards.logits): part.forwards.logits for part in parts}.values())
    entries = torch.cat([part.entries for part in parts])  # (M,)
    device = sources[0].device
    if len(sources) == 1:
        return sources[0][on_device(entries, device)]
    owner = [part.forwards.logits for part in parts for _ in part.entries]
    found = sources[0].new_empty(len(entries), sources[0].shape[1])
    for source in sources:
        at = torch.tensor([place for place, logits in enumerate(owner) if logits is source])
        found[on_device(at, device)] = source[on_device(entries[at], device)]
    return found
