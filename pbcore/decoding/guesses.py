"""The canvases that rows will probably come to, by the policy's own moves on a forward known
before.

A search over what the policy might do, the likeliest first. From a canvas MOVES moves are tried:
the policy's own, then the one that it makes without the least sure position of that, and so on,
each with the TOKENS likeliest tokens at its least sure position. Each leads to a canvas, from which
the search goes on. One round of the search asks the policy once, about all canvases of all rows
that are due: whatever is less likely than the N − 1 best so far is dropped.

What the policy reads of a position, it reads of the known forward. If that is a few numbers each,
and no distribution, they are copied to the host in one go, and so the search takes no kernel of the
device and makes the host wait for nothing. Policies that read distributions, or draw tokens, are
asked on the device.

O rows with a known forward, Q canvases asked about in a round, C slots of the active block, L
canvas positions, K known positions, T tokens of each, V tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from heapq import heappush, heappushpop, nlargest
from typing import NamedTuple

from pbcore.base.lazy_torch import Tensor, torch
from pbcore.decoding.checks import as_move
from pbcore.decoding.forward import hold_back, step_of
from pbcore.decoding.job import Job
from pbcore.decoding.outlook import written
from pbcore.decoding.predicted import hide, prediction_of, see, select_rows
from pbcore.decoding.prediction import (
    NUMBERS,
    Prediction,
    pieces_of,
    predict,
    rowwise,
    running_numbers,
)
from pbcore.decoding.rows import Rows, fill_after_eos
from pbcore.decoding.schedule import quota
from pbcore.decoding.step import State, Step

MOVES = 6  # tried from a canvas
TOKENS = 6  # likeliest ones tried at the least sure position of a move
OTHER = 0.45  # the chance taken for the policy's not making the likeliest of the moves left


class Guess(NamedTuple):
    """A canvas (L,), on the host, that a row might come to by `depth` moves."""

    row: int
    chance: float
    canvas: Tensor
    depth: int


@dataclass(frozen=True, slots=True)
class _Base:
    """The rows whose next canvases are guessed, and what a forward says of their candidates."""

    step: Step  # of the rows (O, C) as they are
    canvas: Tensor  # (O, L)
    entry: Tensor  # (O, C) row below of each candidate, -1 for other slots
    tokens: Tensor  # (K, T) the likeliest tokens
    chances: Tensor  # (K, T) their probabilities
    logits: Tensor | None  # (K, V), for policies that read distributions


@dataclass(frozen=True, slots=True)
class _Due:
    """Canvases that the policy is asked about in a round, each a (Q,) entry of the lists."""

    owner: list[int]  # row of the base
    depth: list[int]  # moves that lead to the canvas
    chance: list[float]  # of the canvas
    without: list[int]  # how many candidates are hidden
    token: Tensor  # (Q, C) what stands in the slots
    hidden: Tensor  # (Q, C) candidates that the policy is not to see
    states: dict[str, State]  # the policy's


class _Answer(NamedTuple):
    """What the policy would do, with other tokens at its least sure position."""

    reveal: Tensor  # (Q, C) bool
    token: Tensor  # (Q, C)
    least: Tensor  # (Q, 1) slot
    tokens: Tensor  # (Q, 1 + T)
    chances: Tensor  # (Q, 1 + T)
    left: Tensor  # (Q,) candidates


class _Child(NamedTuple):
    """A canvas to which the answer about the `number`-th canvas of a round leads."""

    chance: float
    number: int
    choice: int  # of the tokens at the least sure position


@dataclass(slots=True)
class _Best:
    """The likeliest canvases of a row so far, at most `most`."""

    most: int
    _chances: list[float] = field(default_factory=list)  # a heap: the least first
    _guesses: dict[bytes, tuple[float, int, Tensor]] = field(default_factory=dict)

    @property
    def least(self) -> float:
        """What the chance of a canvas must exceed for it to be among them."""
        return self._chances[0] if len(self._chances) == self.most else 0.0

    def add(self, key: bytes, chance: float, depth: int, token: Tensor) -> bool:
        """Adds a canvas; whether it is new."""
        if key in self._guesses:
            return False
        if len(self._chances) < self.most:
            heappush(self._chances, chance)
        else:
            heappushpop(self._chances, chance)
        self._guesses[key] = chance, depth, token
        return True

    def likeliest(self) -> list[tuple[float, int, Tensor]]:
        """Chance, depth and tokens of each, the likeliest first."""
        ranked = sorted(self._guesses.values(), key=lambda guess: -guess[0])
        return ranked[: self.most]


def guessed(job: Job, rows: Rows, host: Rows, owners: Sequence[int], logits: Tensor) -> list[Guess]:
    """The likeliest canvases that follow, at most `ahead` − 1 of each row.

    Args:
        job: what is decoded.
        rows: the rows.
        host: the same on the host, without states.
        owners: the rows (O,) that have a known forward.
        logits: what that says (K, V) of their candidates, row by row.
    """
    base = _base(job, rows, host, owners, logits)
    best = [_Best(job.name.ahead - 1) for _ in owners]
    due: _Due | None = _Due(
        owner=list(range(len(owners))),
        depth=[0] * len(owners),
        chance=[1.0] * len(owners),
        without=[0] * len(owners),
        token=base.canvas.gather(1, base.step.column),
        hidden=torch.zeros_like(base.step.masked),
        states=base.step.states,
    )
    while due is not None:
        due = _round(job, base, due, best)
    likeliest = []
    for number, best_of_row in enumerate(best):
        for chance, depth, token in best_of_row.likeliest():
            likeliest.append((number, chance, depth, token))
    if not likeliest:
        return []
    numbers = [number for number, *_ in likeliest]
    owner = torch.tensor(numbers, device=base.canvas.device)  # (W,)
    token = torch.stack([token for *_, token in likeliest])  # (W, C)
    canvas = written(base.canvas[owner], base.step.column[owner], base.step.inside[owner], token)
    if job.name.eos_stop:
        fill_after_eos(canvas, job.model)
    canvas = canvas.cpu()  # (W, L)
    masked = (canvas == job.model.mask_id).any(-1).tolist()
    guesses = []
    for place, (number, chance, depth, _) in enumerate(likeliest):
        if masked[place]:
            guesses.append(Guess(owners[number], chance, canvas[place], depth))
    return guesses


def _base(job: Job, rows: Rows, host: Rows, owners: Sequence[int], logits: Tensor) -> _Base:
    """The base of the search, where the policy is to be asked."""
    best = [
        torch.softmax(piece, -1).topk(min(TOKENS, piece.shape[-1])) for piece in pieces_of(logits)
    ]
    chances = torch.cat([part.values for part in best])  # (K, T)
    tokens = torch.cat([part.indices for part in best])  # (K, T)
    if job.traits.reads != "numbers" or not job.name.greedy:
        part = rows.select(torch.tensor(owners, device=logits.device))
        step = step_of(job, part)
        return _Base(step, part.canvas, running_numbers(step.masked), tokens, chances, logits)
    numbers = [rowwise(function, logits) for function in NUMBERS.values()]  # (K,) each
    states = rows.states.values()
    token, confidence, tokens, chances, *others = _copied(
        [*predict(logits, 0.0, None), tokens, chances, *numbers, *(one.value for one in states)]
    )
    index = torch.tensor(owners)
    part = host.select(index)
    step = step_of(job, part)
    step.decoding = replace(job.decoding, frequencies=job.model.frequencies)
    values = others[len(numbers) :]
    step.states = {
        name: replace(state, value=value[index])
        for (name, state), value in zip(rows.states.items(), values, strict=True)
    }
    see(step, Prediction(token, confidence, None, dict(zip(NUMBERS, others, strict=False))))
    return _Base(step, part.canvas, running_numbers(step.masked), tokens, chances, None)


def _copied(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The tensors on the host, by one copy. None holds whole numbers of more than 53 bits."""
    if tensors[0].device.type == "cpu":
        return list(tensors)
    flat = torch.cat([tensor.flatten().double() for tensor in tensors]).cpu()
    parts = torch.split(flat, [tensor.numel() for tensor in tensors])
    return [
        part.view(tensor.shape).to(tensor.dtype)
        for part, tensor in zip(parts, tensors, strict=True)
    ]


def _round(job: Job, base: _Base, due: _Due, best: Sequence[_Best]) -> _Due | None:
    """Asks the policy about the canvases that are due, notes to which ones it would come, and
    returns what is due next: these, and the same ones without the least sure position of its move.
    """
    step = _step(job, base, due)
    before = {name: replace(state, value=state.value.clone()) for name, state in due.states.items()}
    answer = _answered(job, base, due, step)
    chosen, again = _ranked(job, due, answer, best)
    if not chosen and not again:
        return None
    device = base.canvas.device
    pairs = [(child.number, child.choice) for child in chosen]
    number, choice = torch.tensor(pairs, device=device, dtype=torch.long).view(-1, 2).T  # (Q',)
    owners = [due.owner[child.number] for child in chosen]
    owner = torch.tensor(owners, device=device, dtype=torch.long)  # (Q',)
    token = _tokens_after(job, base, due, answer, number, choice, owner)  # (Q', C)
    left = ((token == job.model.mask_id) & base.step.masked[owner]).any(-1)
    goes_on = _noted(job, due, chosen, token, left, best)
    if not goes_on and not again:
        return None
    moved = torch.tensor(goes_on, device=device, dtype=torch.long)
    hides = torch.tensor(again, device=device, dtype=torch.long)
    hidden = due.hidden[hides].scatter(1, answer.least[hides], True)
    states = {}
    for name, state in before.items():
        after = step.states[name].value[number[moved]]
        states[name] = replace(state, value=torch.cat([after, state.value[hides]]))
    following = _Due(
        owner=[],
        depth=[],
        chance=[],
        without=[],
        token=torch.cat([token[moved], due.token[hides]]),
        hidden=torch.cat([torch.zeros_like(due.hidden[:1]).expand(len(moved), -1), hidden]),
        states=states,
    )
    for place in goes_on:
        child = chosen[place]
        following.owner.append(due.owner[child.number])
        following.depth.append(due.depth[child.number] + 1)
        following.chance.append(child.chance)
        following.without.append(0)
    for place in again:
        following.owner.append(due.owner[place])
        following.depth.append(due.depth[place])
        following.chance.append(due.chance[place])
        following.without.append(due.without[place] + 1)
    return following


def _tokens_after(
    job: Job,
    base: _Base,
    due: _Due,
    answer: _Answer,
    number: Tensor,
    choice: Tensor,
    owner: Tensor,
) -> Tensor:
    """What stands in the slots (Q', C) of the canvases to which an answer leads.

    Args:
        job: what is decoded.
        base: the rows.
        due: the canvases asked about.
        answer: about these.
        number: (Q',) the canvas from which each comes.
        choice: (Q',) of the tokens at the least sure position.
        owner: (Q',) row of the base.
    """
    other = answer.tokens[number].gather(1, choice[:, None])
    token = answer.token[number].scatter(1, answer.least[number], other)
    token = torch.where(answer.reveal[number], token, due.token[number])  # (Q', C)
    if job.name.eos_stop:
        canvas = written(
            base.canvas[owner], base.step.column[owner], base.step.inside[owner], token
        )
        fill_after_eos(canvas, job.model)
        token = canvas.gather(1, base.step.column[owner])
    return token


def _noted(
    job: Job,
    due: _Due,
    chosen: Sequence[_Child],
    token: Tensor,
    left: Tensor,
    best: Sequence[_Best],
) -> list[int]:
    """Adds the canvases to which the answers lead to the best of their rows.

    Args:
        job: what is decoded.
        due: the canvases from which they come.
        chosen: Q' canvases, of each row the likeliest first.
        token: (Q', C) what stands in their slots.
        left: (Q',) bool, whether the block still has masks.
        best: of each row of the base.

    Returns:
        Which of `chosen` are new, have masks left and are likely enough to go on from.
    """
    on_host = torch.cat([token, left[:, None].long()], -1).cpu()
    new = []
    for place, (child, ids) in enumerate(zip(chosen, on_host.numpy(), strict=True)):
        depth = due.depth[child.number] + 1
        key = ids.tobytes()
        if not job.model.deterministic:
            key += depth.to_bytes(4)
        is_new = best[due.owner[child.number]].add(key, child.chance, depth, token[place])
        if is_new and ids[-1]:
            new.append(place)
    # Once all are added, for each may raise what the others must exceed.
    goes_on = []
    for place in new:
        child = chosen[place]
        if child.chance * (1 - OTHER) > best[due.owner[child.number]].least:
            goes_on.append(place)
    return goes_on


def _step(job: Job, base: _Base, due: _Due) -> Step:
    """The step of rows on canvases that they might have: what changes from step to step is set
    here, as `forward.step_of` sets it for the rows themselves.
    """
    device = base.canvas.device
    owner = torch.tensor(due.owner, device=device)  # (Q,)
    depth = torch.tensor(due.depth, device=device)  # (Q,)
    whole = select_rows(base.step, owner)
    open_ = (due.token == job.model.mask_id) & whole.masked  # (Q, C)
    index = whole.index + depth
    left = open_.sum(-1)  # (Q,)
    step = replace(
        whole,
        masked=open_,
        visible=whole.inside & (due.token != job.model.mask_id),
        token=torch.where(open_, whole.token, due.token),
        confidence=whole.confidence.where(open_, 0.0),
        index=index,
        nfe=whole.nfe + depth,
        left=whole.left - whole.masked.sum(-1) + left,
        quota=quota(job.name, whole.slots, index, left),
        states=due.states,
        notes={},
    )
    if base.logits is not None:
        entry = base.entry[owner]
        see(step, prediction_of(step, base.logits[entry[open_]]))
    hold_back(job, step)
    hide(step, due.hidden & step.masked)
    return step


def _answered(job: Job, base: _Base, due: _Due, step: Step) -> _Answer:
    """What the policy would do, and how likely the tokens are at its least sure position."""
    left = step.masked.sum(-1)  # (Q,)
    move = as_move(job.name.policy, job.policy.select(step), step)
    token = step.token if move.token is None else move.token
    unsure = step.confidence.masked_fill(~move.reveal, torch.inf)
    least = unsure.argmin(-1, keepdim=True)  # (Q, 1)
    own = token.gather(1, least)
    entry = base.entry[torch.tensor(due.owner, device=token.device)]
    at = entry.gather(1, least).clamp(min=0)[:, 0]
    others = base.tokens[at]  # (Q, T)
    chances = base.chances[at]  # (Q, T)
    chances = torch.cat([chances[:, :1], chances.masked_fill(others == own, 0)], -1)
    chances = chances * move.reveal.any(-1, keepdim=True)
    return _Answer(move.reveal, token, least, torch.cat([own, others], -1), chances, left)


def _ranked(
    job: Job, due: _Due, answer: _Answer, best: Sequence[_Best]
) -> tuple[list[_Child], list[int]]:
    """The likeliest canvases to which the answers lead, and of which canvases (Q,) further moves
    are worth trying.
    """
    children: list[list[_Child]] = [[] for _ in best]
    again = []
    table = torch.cat([answer.chances.double(), answer.left[:, None].double()], -1).tolist()
    for number, (*chances, left) in enumerate(table):
        owner = due.owner[number]
        share = due.chance[number] * (1 - OTHER) * OTHER ** due.without[number]
        for choice, chance in enumerate(chances):
            if share * chance > best[owner].least:
                children[owner].append(_Child(share * chance, number, choice))
        more = left > 1 and any(chances) and due.without[number] + 1 < MOVES
        if more and share * OTHER > best[owner].least:
            again.append(number)
    most = job.name.ahead - 1
    chosen = []
    for children_of_row in children:
        chosen.extend(nlargest(most, children_of_row))
    return chosen, again
