"""`+aheadN`: any sampler's own answers in fewer calls, by forwards of the canvases that it will
probably come to.

The forward that a step needs takes guesses of the next canvases along, N canvases in all. A guess
is the policy's own move on the closest forward known so far: that of the canvas with the most of
the present tokens and no others. As long as the next canvas is among those forwarded, its step runs
no forward. Every step reads the forward of just its own canvas, so answers are the sampler's own,
and it never takes more calls.

R rows, Q guesses, W canvases, L canvas positions, C slots of the active block, N known positions, T
tokens of each, V tokens.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import nlargest
from typing import NamedTuple

from pbcore.decoding.checks import as_move
from pbcore.decoding.forward import Source, forwarded, hold_back, next_masks, slots_of, step_of
from pbcore.decoding.job import Job
from pbcore.decoding.prediction import NUMBERS, Prediction, numbered, pieces_of, predict, rowwise
from pbcore.decoding.rows import Rows
from pbcore.decoding.step import Step
from pbcore.decoding.what_if import Forwards
from pbcore.lazy_torch import Tensor, torch

MOVES, TOKENS = (
    6,
    6,
)  # moves tried from a canvas, and likeliest tokens tried at the least sure position of each
OTHER = 0.45  # the chance taken for the policy's not making the likeliest of the moves left


@dataclass(frozen=True, slots=True)
class _Guess:
    """A canvas that a row might come to by `depth` moves. `open`: its block has masks left."""

    row: int
    chance: float
    canvas: Tensor  # (L,)
    depth: int
    key: bytes = b""  # the canvas, to be told from others
    open: bool = True


@dataclass(frozen=True, slots=True)
class _Known:
    """What is taken for known of the masks of rows whose forward is yet to run."""

    at: Tensor  # (R, L) entry below of each position, -1 for none
    seen: Prediction  # (N,)
    tokens: Tensor  # (N, T) the likeliest tokens
    chances: Tensor  # (N, T) their probabilities


def look_ahead(job: Job, rows: Rows, context: Source) -> None:
    """Finds the forward of each row's canvas, or runs it together with guesses, for the step to
    read.
    """
    want, nfe = next_masks(job, rows), rows.earlier(job.name.ahead)  # (R, L), (R,)
    rows.foreseen = rows.foreseen or [None] * len(rows.origin)
    open_ = want.any(-1).nonzero().squeeze(-1).tolist()
    found = {
        row: _exact(rows.foreseen[row], rows.canvas[row], nfe[row], want[row]) for row in open_
    }
    missing = [row for row in open_ if found[row] is None]
    if missing:
        for row, forwards in _run(job, rows, context, missing, want):
            rows.foreseen[row], found[row] = forwards, forwards.logits[forwards.at[0][want[row]]]
    logits = [one for one in found.values() if one is not None]
    rows.kept = None
    if logits:
        entries = torch.cat(logits)
        rows.kept = Forwards(rows.canvas, nfe, numbered(want), entries, whole=True)


def _exact(forwards: Forwards | None, canvas: Tensor, nfe: Tensor, want: Tensor) -> Tensor | None:
    """Logits (M, V) of the positions in `want` (L,) by the forward of just this `canvas` (L,) after
    `nfe` others.
    """
    if forwards is None:
        return None
    same = (forwards.nfe == nfe) & (forwards.canvas == canvas).all(-1) & forwards.knows(want)
    return forwards.logits[forwards.at[same.int().argmax()][want]] if bool(same.any()) else None


def _run(
    job: Job, rows: Rows, context: Source, missing: Sequence[int], want: Tensor
) -> Iterator[tuple[int, Forwards]]:
    """One forward of the canvases of the rows `missing`, each followed by its guesses: the forwards
    of each row.
    """
    guesses = [_Guess(row, 1.0, rows.canvas[row], 0) for row in missing]
    known = _known(job, rows, missing, want)
    if known is not None:
        guesses = sorted([*guesses, *_guesses(job, rows, known)], key=lambda guess: guess.row)
    row, depth = torch.tensor(
        [(guess.row, guess.depth) for guess in guesses], device=want.device
    ).T  # (W,) each
    canvas = torch.stack([guess.canvas for guess in guesses])  # (W, L)
    forwards = forwarded(job, rows, context, row, canvas, rows.earlier(job.name.ahead)[row] + depth)
    for number in missing:
        yield number, forwards.select((row == number).nonzero().squeeze(-1))


def _known(job: Job, rows: Rows, missing: Sequence[int], want: Tensor) -> _Known | None:
    """For each row that of its forwards with the most of its tokens and no others; None if no row
    has any.
    """
    parts = list[Tensor]()
    told = torch.zeros_like(want)
    for row in missing:
        forwards = rows.foreseen[row]
        wanted = want[row]
        if forwards is None:
            continue
        masks = forwards.canvas == job.model.mask_id  # (W, L)
        within = (masks | (forwards.canvas == rows.canvas[row])).all(-1) & forwards.knows(wanted)
        if bool(within.any()):
            closest = masks.sum(-1).masked_fill(~within, len(wanted) + 1).argmin()
            told[row] = wanted
            parts.append(forwards.logits[forwards.at[closest][wanted]])
    if not parts:
        return None
    logits = torch.cat(parts)  # (N, V)
    best = [
        torch.softmax(piece, -1).topk(min(TOKENS, piece.shape[-1])) for piece in pieces_of(logits)
    ]
    plain = job.traits.reads == "numbers" and job.name.greedy
    numbers = (
        {name: rowwise(function, logits) for name, function in NUMBERS.items()} if plain else {}
    )
    seen = Prediction(*predict(logits, 0.0, None), None if plain else logits, numbers)
    chances, tokens = (torch.cat(parts) for parts in zip(*best, strict=True))
    return _Known(numbered(told), seen, tokens, chances)


def _guesses(job: Job, rows: Rows, known: _Known) -> Iterator[_Guess]:
    """The likeliest canvases that follow, at most `ahead` − 1 for each row."""
    owners = (known.at >= 0).any(-1).nonzero().squeeze(-1).tolist()
    best: dict[int, list[_Guess]] = {row: [] for row in owners}
    level = [_Guess(row, 1.0, rows.canvas[row], 0) for row in owners]
    while level:
        fresh = defaultdict[int, dict[bytes, _Guess]](dict)
        for guess in _next(job, rows, known, level):
            fresh[guess.row].setdefault(guess.key, guess)
        for row, some in fresh.items():
            best[row] = nlargest(
                job.name.ahead - 1, [*best[row], *some.values()], key=lambda guess: guess.chance
            )
        depth = level[0].depth + 1
        level = [
            guess for row in fresh for guess in best[row] if guess.depth == depth and guess.open
        ]
    return (guess for some in best.values() for guess in some)


def _next(job: Job, rows: Rows, known: _Known, level: Sequence[_Guess]) -> list[_Guess]:
    """The likeliest canvases one move after those of `level`, at most `ahead` − 1 for each row."""
    owner = torch.tensor([guess.row for guess in level], device=rows.canvas.device)  # (Q,)
    depth = level[0].depth
    canvas = torch.stack([guess.canvas for guess in level])  # (Q, L)
    asked = rows.select(owner)
    asked = replace(asked, canvas=canvas, steps=asked.steps + depth, index=asked.index + depth)
    step, entry = _step(job, asked, known, owner)
    moves = list(_moves(job, step, known, entry))
    chances: dict[int, list[tuple[float, int, int, int]]] = defaultdict(list)
    for number, move in enumerate(moves):
        for q, row in enumerate(move.chances.tolist()):
            guess = level[q]
            chances[guess.row] += [
                (guess.chance * one, number, q, t) for t, one in enumerate(row) if one > 0
            ]
    chosen = [one for some in chances.values() for one in nlargest(job.name.ahead - 1, some)]
    if not chosen:
        return []
    number, q, t = torch.tensor([one[1:] for one in chosen], device=owner.device).T  # (Q',) each
    move = _Move(*(torch.stack(parts)[number, q] for parts in zip(*moves, strict=True)))
    token = move.token.scatter(1, move.least, move.tokens.gather(1, t[:, None]))
    row, slot = move.reveal.nonzero(as_tuple=True)
    after = replace(asked.select(q), canvas=canvas[q])
    after.canvas[row, step.column[q][row, slot]] = token[row, slot]
    if job.name.eos_stop:
        after.fill_after_eos(job.model)
    left = slots_of(job, after)[-1].any(-1).tolist()
    ids = after.canvas.cpu().numpy()
    return [
        _Guess(level[parent].row, chance, after.canvas[i], depth + 1, ids[i].tobytes(), left[i])
        for i, (chance, _, parent, _) in enumerate(chosen)
        if (ids[i] == job.model.mask_id).any()
    ]


def _step(job: Job, asked: Rows, known: _Known, owner: Tensor) -> tuple[Step, Tensor]:
    """The step of rows on canvases that they might have, and the entry of each slot (Q, C)."""
    step = step_of(job, asked)
    entry = known.at[owner].gather(1, step.column)  # (Q, C)
    entries = entry[step.masked]  # (M,)
    if known.seen.logits is not None:
        step._see(step._predicted(known.seen.logits[entries]))
    else:
        numbers = {name: values[entries] for name, values in known.seen.numbers.items()}
        step._see(
            Prediction(known.seen.token[entries], known.seen.confidence[entries], None, numbers)
        )
    hold_back(job, step)
    return step, entry


class _Move(NamedTuple):
    """A move that the policy might make, with other tokens at its least sure position."""

    reveal: Tensor  # (Q, C) bool
    token: Tensor  # (Q, C)
    least: Tensor  # (Q, 1) slot
    tokens: Tensor  # (Q, 1 + T)
    chances: Tensor  # (Q, 1 + T)


def _moves(job: Job, step: Step, known: _Known, entry: Tensor) -> Iterator[_Move]:
    """The policy's move, then the one that it would make without the least sure position of that,
    and so on.
    """
    share = 1 - OTHER
    for _ in range(MOVES):
        if not bool(step.masked.any()):
            return
        move = as_move(job.name.policy, job.policy.select(step), step)
        token = step.token if move.token is None else move.token
        least = step.confidence.masked_fill(~move.reveal, torch.inf).argmin(
            -1, keepdim=True
        )  # (Q, 1)
        own = token.gather(1, least)
        at = entry.gather(1, least).clamp(min=0)[:, 0]
        others, chances = known.tokens[at], known.chances[at]  # (Q, T)
        chances = torch.cat([chances[:, :1], chances.masked_fill(others == own, 0)], -1)
        chances = share * chances * move.reveal.any(-1, keepdim=True)
        yield _Move(move.reveal, token, least, torch.cat([own, others], -1), chances)
        step._hide(torch.zeros_like(move.reveal).scatter(1, least, True) & move.reveal)
        share *= OTHER
