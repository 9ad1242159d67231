"""The state of a batch being decoded (Rows) and the record of its results (Log).

R rows, L canvas positions, A target positions (masked at the start), C slots of the active block.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from pbcore.base.lazy_torch import Tensor, torch
from pbcore.decoding.outlook import Outlook
from pbcore.decoding.step import State
from pbcore.decoding.tally import Tally
from pbcore.decoding.what_if import Forwards
from pbcore.models.base import Denoiser, Former, Generation, Request
from pbcore.models.tokenizer import past_eos
from pbcore.models.transfer import on_device, places

NOWHERE = 1 << 40  # the place of a target position that a row doesn't have: past every block


@dataclass(slots=True)
class Rows:
    """The rows still being decoded. The first axis of every tensor is the row, so one indexing step
    drops rows.
    """

    origin: Tensor  # (R,) row in the batch
    key: Tensor  # (R,)
    canvas: Tensor  # (R, L)
    revealed: Tensor  # (R, L) step of the last reveal, -1 for given tokens
    confidences: Tensor  # (R, L)
    targets: Tensor  # (R, A) canvas index of each target position, in order
    n_targets: Tensor  # (R,)
    block: Tensor  # (R,) active block
    start: Tensor  # (R,) its first place, as of `unit`
    stop: Tensor  # (R,) the place behind its last; NOWHERE until its rule has seen a forward
    index: Tensor  # (R,) steps taken in this block
    nfe: Tensor  # (R,) forwards that it took part in, and those counted before its start
    forwarded: Tensor  # (R,) canvases that were forwarded for it
    steps: Tensor  # (R,) steps taken: moves of the policy
    hold: Tensor  # (R,) bool: stays in its block after its last mask there is filled
    unit: Tensor  # (R, A) place of each target position in the row's grid of blocks
    lead: Tensor  # (R,) places of that grid before the canvas: the prompt's part of the first block
    length: Tensor  # (R,) canvas positions of the row itself
    prompt: Tensor  # (R,) tokens of its prompt
    answer: Tensor  # (R,) those that belong to the answer
    requested: Tensor  # (R,) tokens asked for
    given: Tensor  # (R,) bool: has given tokens in its canvas (infilling)
    prefill: Tensor  # (R,) forwards that stored the prompt
    store: Tensor  # (R,) forwards that stored finished blocks
    states: dict[str, State]  # the policy's
    kept: Forwards | None  # of what-if rows that the last move took
    outlook: Outlook | None = None  # what the host knows of the next step
    numbers: Sequence[int] = ()  # `origin` on the host; empty for rows that are only asked about

    def select(self, rows: Tensor, on_host: Sequence[int] = ()) -> Rows:
        """Only the given rows; `rows` (R',) are indices, `on_host` the same on the host, for rows
        that are decoded further.
        """
        tensors = {name: getattr(self, name)[rows] for name in _TENSORS}
        states = {
            name: replace(state, value=state.value[rows]) for name, state in self.states.items()
        }
        kept = None if self.kept is None else self.kept.select(rows)
        numbers = [self.numbers[row] for row in on_host] if self.numbers else ()
        return Rows(**tensors, states=states, kept=kept, numbers=numbers)

    def on_host(self) -> Rows:
        """The rows on the CPU, by two copies, without what only steps need."""
        numbers = [name for name in _TENSORS if name != "confidences"]
        parts = [getattr(self, name).reshape(len(self.origin), -1).long() for name in numbers]
        sizes = [part.shape[1] for part in parts]
        packed = torch.split(torch.cat(parts, dim=1).cpu(), sizes, dim=1)
        tensors: dict[str, Any] = {
            name: part.reshape(getattr(self, name).shape)
            for name, part in zip(numbers, packed, strict=True)
        }
        tensors["confidences"] = self.confidences.cpu()
        return Rows(**tensors, states={}, kept=None)

    def count(self, canvases: Tensor) -> None:
        """One forward in which each row had `canvases` (R,), those with 0 took no part."""
        self.nfe = self.nfe + (canvases > 0)
        self.forwarded = self.forwarded + canvases

    def enter(self, entered: Tensor, block: Tensor, start: Tensor, stop: Tensor) -> None:
        """Moves the rows `entered` (R,) to a block (R,) that goes from `start` (R,) to `stop` (R,);
        they begin anew there.
        """
        self.block = torch.where(entered, block, self.block)
        self.start = torch.where(entered, start, self.start)
        self.stop = torch.where(entered, stop, self.stop)
        self.index = self.index.masked_fill(entered, 0)

    def forget(self, entered: Tensor) -> None:
        """Puts the states of rows that entered a block (R,) back to their `fill`."""
        for state in self.states.values():
            if state.over == "block":
                state.value[entered] = state.fill

    def fill_after_eos(self, model: Denoiser) -> None:
        """Fills a row with EOS once everything before its first stop token is revealed."""
        stops = stops_in(self.canvas, model)
        mask = self.canvas == model.mask_id
        before = stops.int().cumsum(-1) == 0  # (R, L) positions before the first one
        ends = stops.any(-1) & ~(mask & before).any(-1)
        self.canvas[ends[:, None] & mask] = model.eos_id

    def masks(self, mask_id: int) -> Tensor:
        """Which target positions (R, A) are masked."""
        return (self.canvas.gather(1, self.targets) == mask_id) & (self.unit < NOWHERE)

    def first_mask(self, mask_id: int) -> Tensor:
        """The place (R,) of each row's first mask, as of `unit`; NOWHERE where there is none."""
        masks = self.masks(mask_id)  # (R, A)
        first = self.unit.gather(1, masks.int().argmax(-1, keepdim=True)).squeeze(1)
        return first.masked_fill(~masks.any(-1), NOWHERE)

    def window(self, start: int, stop: int) -> tuple[int, int]:
        """The place in the canvas (first, last + 1) of a block that all rows have from target
        `start` to `stop`, up to the next target behind it.
        """
        targets = self.targets[0].tolist()
        first = targets[start] if start else 0
        return first, targets[stop] if stop < len(targets) else self.canvas.shape[1]


def stops_in(tokens: Tensor, model: Denoiser) -> Tensor:
    """Where `tokens` are such that end an answer."""
    ends = torch.zeros_like(tokens, dtype=torch.bool)
    for stop in model.stop_ids:
        ends |= tokens == stop
    return ends


_OTHERS = ("states", "kept", "outlook", "numbers")
_TENSORS = tuple(f.name for f in fields(Rows) if f.name not in _OTHERS)


@dataclass(slots=True)
class Log:
    """What is kept of a batch beside its rows: the finished ones, and what came and went in the
    canvases.
    """

    trajectories: list[list[tuple[int, ...]]] | None
    tally: Tally | None = None  # what was forwarded for each row
    begun: Sequence[int] = ()  # forwards that count as taken before each row's start
    finished: list[Rows] = field(default_factory=list)
    # Of each step that took tokens away: row, position, token, its step, this step, confidence.
    gone: list[tuple[Tensor, ...]] = field(default_factory=list)
    _going: tuple[Tensor, tuple[Tensor, ...]] | None = None  # of the present one, in all slots

    def record(self, rows: Rows) -> None:
        """Stores the canvases before a step if trajectories are recorded."""
        if self.trajectories is not None:
            for origin, canvas in zip(rows.origin.tolist(), rows.canvas.tolist(), strict=True):
                self.trajectories[origin].append(tuple(canvas))

    def keep_former(self, rows: Rows, where: Tensor, going: Tensor) -> None:
        """Notes the tokens that a step takes away.

        Args:
            rows: before the step.
            where: (R, C) canvas index of each slot.
            going: (R, C) bool, the slots whose token goes.
        """
        columns = (
            rows.origin[:, None].expand_as(where),
            where,
            rows.canvas.gather(1, where),
            rows.revealed.gather(1, where),
            rows.steps[:, None].expand_as(where),
            rows.confidences.gather(1, where),
        )
        self._going = going, columns

    def going(self) -> Tensor | None:
        """How many tokens all rows lost in the present step; None if none could."""
        return None if self._going is None else self._going[0].sum()

    def settle(self, count: int) -> None:
        """Keeps the `count` tokens that the present step took away."""
        if self._going is not None and count:
            going, columns = self._going
            at = places(going, count)
            self.gone.append(tuple(column.flatten()[at] for column in columns))
        self._going = None

    def generations(self, model: Denoiser, ends_at_stop: bool) -> Iterator[Generation]:
        """Each row's result without padding, once all have finished; with `ends_at_stop` up to its
        first stop token.
        """
        rows = join(self.finished).on_host()
        former = self._former()
        stops = model.stop_ids
        tally = self.tally
        for row, width in enumerate(rows.length.tolist()):
            length = int(rows.answer[row])
            canvas = tuple(rows.canvas[row, :width].tolist())
            stop = _first_stop(canvas[:length], stops)
            answer_tokens = length if stop is None else stop
            if ends_at_stop and stop is not None:
                length = stop + 1
            ids = canvas[:length]
            text = model.text(ids)
            trajectory = None
            if self.trajectories is not None:
                before = [earlier[:width] for earlier in self.trajectories[row]]
                trajectory = (*before, canvas)
            yield Generation(
                text=text,
                token_ids=ids,
                nfe=int(rows.nfe[row]) - self.begun[row],
                answer_tokens=answer_tokens,
                steps=tuple(rows.revealed[row, :length].tolist()),
                confidences=tuple(rows.confidences[row, :length].tolist()),
                trajectory=trajectory,
                former=tuple(token for token in former[row] if token.position < length),
                **past_eos(ids, stops, text, model.whole_text),
                prefill=int(rows.prefill[row]) if model.block else None,
                store=int(rows.store[row]) if model.block else None,
                rows=int(rows.forwarded[row]),
                calls=None if tally is None else tally.calls(row),
                tokens_padded=None if tally is None else tally.padded(row),
                share_of_calls=None if tally is None else tally.share(row),
            )

    def _former(self) -> defaultdict[int, list[Former]]:
        """The tokens that each row lost, in the order of the steps that took them."""
        former = defaultdict[int, list[Former]](list)
        columns = [torch.cat(parts).tolist() for parts in zip(*self.gone, strict=True)]
        for row, *values in zip(*columns, strict=True):
            former[row].append(Former(*values))
        return former


def _first_stop(ids: Sequence[int], stops: Collection[int]) -> int | None:
    """The place of the first stop token; None without one."""
    for place, token in enumerate(ids):
        if token in stops:
            return place
    return None


def initial_rows(model: Denoiser, requests: Sequence[Request], requested: Sequence[int]) -> Rows:
    """The initial state. Shorter canvases are padded on the right with EOS, which is never
    predicted.

    Args:
        model: says which tokens are mask and EOS, and how long its blocks are.
        requests: the rows.
        requested: tokens asked for in each; a block model's canvas may be longer.
    """
    canvas = _padded(model, [request.canvas for request in requests])  # (R, L)
    start = canvas
    begun = torch.zeros(len(requests), dtype=torch.long, device=model.device)  # (R,)
    if any(request.start is not None for request in requests):
        start = _padded(model, [request.start or request.canvas for request in requests])
        counts = [request.revealed(model.mask_id) for request in requests]
        begun = on_device(counts, model.device)
    mask = canvas == model.mask_id
    n_targets = mask.sum(-1)  # (R,)
    widest = max(1, max(request.canvas.count(model.mask_id) for request in requests))
    targets = mask.int().argsort(dim=-1, descending=True, stable=True)[:, :widest]  # (R, A)
    zeros = torch.zeros_like(n_targets)
    lengths = on_device([len(request.canvas) for request in requests], model.device)  # (R,)
    lead = zeros
    unit = torch.arange(widest, device=model.device).expand_as(targets)
    if model.block:
        leads = [model.grid.lead(len(request.prompt_ids), model.block) for request in requests]
        lead = on_device(leads, model.device)
        unit = targets + lead[:, None]
    unit = unit.masked_fill(
        torch.arange(widest, device=model.device) >= n_targets[:, None], NOWHERE
    )
    return Rows(
        origin=torch.arange(len(requests), device=model.device),
        key=on_device([request.key for request in requests], model.device),
        canvas=start,
        revealed=torch.full_like(canvas, -1),
        confidences=torch.zeros(canvas.shape, device=model.device),
        targets=targets,
        n_targets=n_targets,
        hold=zeros.bool(),
        unit=unit,
        lead=lead,
        length=lengths,
        prompt=on_device([len(request.prompt_ids) for request in requests], model.device),
        answer=lengths,
        requested=on_device(requested, model.device),
        given=n_targets < lengths,
        block=zeros,
        start=zeros,
        stop=zeros + (model.block or 0),
        index=zeros,
        nfe=begun,
        forwarded=zeros,
        steps=begun,
        prefill=zeros,
        store=zeros,
        kept=None,
        states={},
        numbers=range(len(requests)),
    )


def _padded(model: Denoiser, canvases: Sequence[Sequence[int]]) -> Tensor:
    """Canvases (R, L), shorter ones filled on the right with EOS."""
    length = max(len(canvas) for canvas in canvases)
    padded = []
    for canvas in canvases:
        padding = [model.eos_id] * (length - len(canvas))
        padded.append([*canvas, *padding])
    return on_device(padded, model.device)


def join(parts: Sequence[Rows]) -> Rows:
    """Joins parts of a batch, in the batch's order. Of the policy's states only those over the
    whole answer stay; a part without one that another part has gets it as `fill`.
    """
    order = torch.cat([part.origin for part in parts]).argsort()
    tensors: dict[str, Any] = {
        name: torch.cat([getattr(part, name) for part in parts])[order] for name in _TENSORS
    }
    over_answer: dict[str, State] = {}
    for part in parts:
        for name, state in part.states.items():
            if state.over == "answer":
                over_answer[name] = state
    states = {}
    for name, state in over_answer.items():
        values = [_state_of(part, name, state) for part in parts]
        states[name] = replace(state, value=torch.cat(values)[order])
    numbers = sorted(number for part in parts for number in part.numbers)
    return Rows(**tensors, states=states, kept=None, numbers=numbers)


def _state_of(part: Rows, name: str, model: State) -> Tensor:
    """A part's own state, or one like `model` filled with its `fill`, if the part has none."""
    if name in part.states:
        return part.states[name].value
    return model.value.new_full((len(part.origin), *model.value.shape[1:]), model.fill)
