"""A plain loop that decodes as ours does, or with one part of it varied.

It computes every canvas anew, prompt and all, under an explicit attention mask. With a cache, and
for stale blocks, rows go one by one and keep keys and values as the setting says.

R rows, T columns, L canvas positions, V tokens.
"""

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from pbcore.extras.check.engine.setting import Setting
from pbcore.models.network import Columns


@dataclass(frozen=True, slots=True)
class Variation:
    """What is decoded otherwise; the defaults are our own loop.

    - `order`: what ranks places: the setting's `own`, `confidence`, `entropy`, `least` (the least
      sure first), `equal` (all the same: the leftmost first).
    - `more`: tokens that a step reveals beyond k. `late`: the remainder of a block that k doesn't
      divide comes in the `last` step, or is `spread` over later ones.
    - `mask`: whether the mask token may be written: `closed`, it then counts as a token; `open`, it
      stays a mask, and blocks end after as many steps as they should take.
    - `eos`: tokens that end an answer are `free`, come `last`, or `never`.
    - `shift`: whether logits predict the next place; None: as the model's.
    - `causal`: whether a column sees only those before it.
    - `blocks`: `own`, `none`, or `zero`, counted from position 0 of the prompt; then the last block
      of a model in blocks ends with the grid, or with the answer if `short`.
    - `padding`: of shorter prompts of a batch: `none`; `left` and `right`, seen like a part of the
      prompt; `zero`, seen and all at position 0; `gap`, hidden on the left, but counted in the
      positions of the answer; `between`, the same between prompt and answer; `grid`, hidden on the
      left, and counted in the blocks of the model alone.
    - `pad`: the token of padding.
    - `alone`: whether the threshold is all that reveals: a block in which nothing is sure keeps its
      masks (`masks`) or is filled at once (`filled`).
    - `cache`: in place of the setting's; `stale`: whether keys and values of a finished block stay
      those of its last step.
    - `theta`: the base of the rotary embedding.
    - `short`: whether the last block of a model in blocks ends with the answer, instead of with the
      grid of blocks.
    """

    order: Literal["own", "confidence", "entropy", "least", "equal"] = "own"
    heat: float = 1.0
    more: int = 0
    late: Literal["", "last", "spread"] = ""
    mask: Literal["", "closed", "open"] = ""
    eos: Literal["free", "last", "never"] = "free"
    shift: bool | None = None
    causal: bool = False
    blocks: Literal["own", "none", "zero"] = "own"
    padding: Literal["none", "left", "right", "zero", "gap", "between", "grid"] = "none"
    pad: int | None = None
    alone: Literal["", "masks", "filled"] = ""
    cache: str | None = None
    stale: bool = False
    theta: float | None = None
    short: bool = False


PLAIN = Variation()


@torch.inference_mode()
def decode_varied(
    model: Any, prompts: Sequence[Sequence[int]], setting: Setting, variation: Variation = PLAIN
) -> list[list[int]]:
    """The canvases of prompts.

    Args:
        model: a masked model, with the setting's block length if its blocks are its own.
        prompts: ids.
        setting: how they are decoded; its `batch` is how many are padded together.
        variation: what is done otherwise.
    """
    if variation.cache is not None:
        setting = replace(setting, cache=variation.cache)
    alone = setting.cache is not None or variation.stale
    answers: list[list[int]] = []
    with _rope(model, variation.theta):
        for start in range(0, len(prompts), setting.batch):
            chunk = prompts[start : start + setting.batch]
            width = max(map(len, chunk))
            size = 1 if alone else len(chunk)
            for first in range(0, len(chunk), size):
                rows = chunk[first : first + size]
                answers += _Canvases(model, rows, width, setting, variation).decode()
    return answers


@contextmanager
def _rope(model: Any, theta: float | None) -> Iterator[None]:
    """The model with another base of its rotary embedding."""
    rotary = model.network.module.model.rotary_emb
    before = rotary.inv_freq
    if theta is not None:
        config = copy.deepcopy(rotary.config)
        config.rope_parameters["rope_theta"] = theta
        rotary.inv_freq = type(rotary)(config).inv_freq
    try:
        yield
    finally:
        rotary.inv_freq = before


class _Canvases:
    """Rows being decoded: prompts padded to `width`, as the variation says, then the canvas."""

    def __init__(
        self,
        model: Any,
        prompts: Sequence[Sequence[int]],
        width: int,
        setting: Setting,
        variation: Variation,
    ) -> None:
        self.model = model
        self.setting = setting
        self.how = variation
        self.shift = model.shift if variation.shift is None else variation.shift
        self.in_blocks = model.block is not None and variation.blocks != "none"
        self.from_prompt = self.in_blocks and model.grid.start == "prompt"  # where blocks begin
        self.in_order = self.in_blocks and model.grid.causal  # all but the block in hand
        self.leads = self.in_blocks and (self.shift or model.grid.leads)
        if variation.blocks == "zero":
            self.from_prompt = False
        pad = model.eos_id if variation.pad is None else variation.pad
        length = setting.gen_length
        ends = []
        rows = []
        for prompt in prompts:
            missing = width - len(prompt)
            left = missing if variation.padding in ("left", "zero", "gap", "grid") else 0
            right = missing if variation.padding in ("right", "between") else 0
            seen = variation.padding in ("left", "right", "zero")
            ids = [pad] * left + list(prompt) + [pad] * right
            shown = [seen] * left + [True] * len(prompt) + [seen] * right
            size = setting.block_length if self.in_blocks else None
            answer = length
            if size and not self.from_prompt and not variation.short:
                answer = -(-(len(ids) + length) // size) * size - len(ids)
            ends.append(answer)
            places = list(range(len(ids) + answer))
            if variation.padding in ("zero", "grid"):
                places = [0] * left + list(range(len(places) - left))
            if variation.padding == "gap":
                places[: len(ids)] = [0] * left + list(range(len(ids) - left))
            rows.append((ids, shown, places))
        self.longest = max(ends)  # L
        self.total = max(len(ids) for ids, _, _ in rows) + self.longest
        self.start = torch.tensor([len(ids) for ids, _, _ in rows])  # (R,) of the canvas
        self.origin = self.start if self.from_prompt else torch.zeros_like(self.start)  # of blocks
        self.ids = torch.full((len(rows), self.total), model.eos_id)  # (R, T)
        self.seen = torch.zeros(len(rows), self.total, dtype=torch.bool)
        self.positions = torch.zeros(len(rows), self.total, dtype=torch.long)
        for row, (ids, shown, places) in enumerate(rows):
            end = len(ids) + ends[row]
            self.ids[row, :end] = torch.tensor([*ids, *[model.mask_id] * ends[row]])
            self.seen[row, :end] = torch.tensor([*shown, *[True] * ends[row]])
            self.positions[row, :end] = torch.tensor(places)
        place = torch.arange(self.longest)
        self.columns = self.start[:, None] + place  # (R, L)
        self.open = place < torch.tensor(ends)[:, None]
        self.real = self.open.clone()
        self.unit = self._units()  # (R, L) number of each place's block
        self.taken = torch.zeros_like(self.start)  # steps in the block
        self.block = torch.full_like(self.start, -1)
        self.seen_by = self._seen_by()  # (R, T, T)
        self.stops = torch.tensor(sorted({*setting.eos_ids}))
        self.kept: Any = None  # keys and values
        self.filled = 0  # columns that are in them for good

    def _units(self) -> Tensor:
        size = self.setting.block_length or self.setting.gen_length
        places = torch.arange(self.longest).expand(len(self.start), -1)
        if self.how.blocks == "none":
            return torch.zeros_like(places)
        if self.in_blocks or self.how.blocks == "zero":
            first = (self.start - self.origin) // size
            return (self.columns - self.origin[:, None]) // size - first[:, None]
        return places // size

    def _seen_by(self) -> Tensor:
        """Which columns each column sees, (R, T, T); the block in hand apart if all else is in
        order.
        """
        column = torch.arange(self.total)
        sees = self.seen[:, None, :].expand(-1, self.total, -1).clone()
        if self.in_blocks and not self.in_order:
            grid = self._grid()
            sees &= grid[:, None, :] <= grid[..., None]
        if self.how.causal or self.in_order:
            sees &= column <= column[:, None]
        hidden = ~sees.any(-1)
        sees[:, column, column] |= hidden  # a column that sees nothing gives no numbers
        return sees

    def _grid(self) -> Tensor:
        """The number (R, T) of each column's block, below 0 before the grid begins."""
        size = self.setting.block_length or self.total
        return (torch.arange(self.total) - self.origin[:, None]) // size

    @property
    def sees(self) -> Tensor:
        """Which columns each column sees (R, T, T) while the block in hand is decoded."""
        if not self.in_order or self.how.causal:
            return self.seen_by
        size = self.setting.block_length or self.total
        now = self._grid() == ((self.start - self.origin) // size + self.block)[:, None]
        return self.seen_by | (now[..., None] & now[:, None, :] & self.seen[:, None, :])

    def decode(self) -> list[list[int]]:
        """The canvases once nothing is open."""
        while bool(self.open.any()):
            self._enter()
            candidates = self.open & (self.unit == self.block[:, None])  # (R, L)
            if self.how.mask == "open":
                candidates = self.open & (self.unit <= self.block[:, None])
            carried = self._carried(candidates)
            logits = self._logits(carried)  # (R, L, V)
            if not self.how.mask:
                logits[..., self.model.mask_id] = -torch.inf
            if self.how.eos == "never":
                logits[..., self.stops] = -torch.inf
            confidence, token = torch.softmax(logits, dim=-1).max(-1)
            chosen = carried
            if not bool(carried.any()):
                chosen = self._chosen(logits, confidence, token, candidates)
                self.taken += 1
            self._write(chosen, token, candidates)
        length = self.setting.gen_length
        return [
            self.ids[row, columns[:length]].tolist() for row, columns in enumerate(self.columns)
        ]

    def _enter(self) -> None:
        """Moves rows to the block of their first open place."""
        first = self.unit.masked_fill(~self.open, 1 << 20).amin(-1)  # (R,)
        first = torch.maximum(first, self.block) if self.how.mask == "open" else first
        self.taken = self.taken.masked_fill(first != self.block, 0)
        self.block = first

    def _carried(self, candidates: Tensor) -> Tensor:
        """The places (R, L) that are read from the block before, before any step of the block."""
        size = self.setting.block_length
        if not (self.leads and size):
            return torch.zeros_like(candidates)
        return candidates & ((self.columns - self.origin[:, None]) % size == 0)

    def _chosen(
        self, logits: Tensor, confidence: Tensor, token: Tensor, candidates: Tensor
    ) -> Tensor:
        """The places (R, L) that a step reveals."""
        if self.how.eos == "last":
            ends = torch.isin(token, self.stops)
            other = candidates & ~ends
            candidates = torch.where(other.any(-1, keepdim=True), other, candidates)
        surety = confidence
        if self.how.heat != 1.0:
            surety = torch.softmax(logits / self.how.heat, dim=-1).amax(-1)
        if self.how.order == "equal":
            surety = torch.ones_like(confidence)
        score = surety
        by_entropy = self.setting.policy == "entropy" and self.how.order in ("own", "least")
        if by_entropy or self.how.order == "entropy":
            probabilities = torch.softmax(logits, dim=-1)
            score = (probabilities * (probabilities + 1e-10).log()).sum(-1)
        if self.how.order == "least":
            score = -score
        ranked = score.masked_fill(~candidates, -torch.inf)
        order = ranked.argsort(dim=-1, descending=True, stable=True)
        rank = torch.empty_like(order).scatter_(
            -1, order, torch.arange(order.shape[-1]).expand_as(order)
        )
        if self.setting.threshold is None:
            return candidates & (rank < self._count(candidates)[:, None])
        sure = candidates & (surety >= self.setting.threshold)
        nothing = ~sure.any(-1, keepdim=True)
        if not self.how.alone:
            return torch.where(nothing, candidates & (rank < 1), sure)
        if self.how.alone == "filled":
            return torch.where(nothing, candidates, sure)
        self.open &= ~(candidates & nothing)
        return sure

    def _count(self, candidates: Tensor) -> Tensor:
        """How many tokens (R,) a step reveals."""
        k = max(1, (self.setting.k or 1) + self.how.more)
        size = (self.real & (self.unit == self.block[:, None])).sum(-1)  # (R,)
        steps = (-(-size // k)).clamp(min=1)  # rows that are done have none
        rest = size - k * (steps - 1)
        if self.how.late == "spread":  # what the last step would reveal comes first
            return torch.where(self.taken == 0, rest, k)
        if self.how.late == "last":
            even = size // steps
            return torch.where(self.taken >= steps - 1, size, even)
        return torch.full_like(size, k)

    def _write(self, chosen: Tensor, token: Tensor, candidates: Tensor) -> None:
        now = self.ids.gather(1, self.columns)
        written = torch.where(chosen, token, now)
        self.ids.scatter_(1, self.columns, written)
        if self.how.mask != "open":
            self.open &= ~chosen
            return
        self.open &= ~(chosen & (token != self.model.mask_id))
        size = (self.real & (self.unit == self.block[:, None])).sum(-1)
        steps = -(-size // (self.setting.k or 1))
        over = self.taken >= steps
        last = self.block >= self.unit.amax(-1)
        self.open &= ~(over & last)[:, None]
        self.block = torch.where(over, self.block + 1, self.block)
        self.taken = self.taken.masked_fill(over, 0)

    def _logits(self, carried: Tensor) -> Tensor:
        """Logits (R, L, V) of the canvas, of which the places `carried` are read one before."""
        hidden = self._hidden()  # (R, T, H)
        before = torch.ones_like(carried) if self.shift else carried
        at = (self.columns - before.long()).clamp(min=0)
        wanted = hidden.gather(1, at[..., None].expand(-1, -1, hidden.shape[-1]))
        logits = self.model.read(wanted.flatten(0, 1)).float()
        whole: Tensor = logits.view(*at.shape, -1).clone()
        return whole

    def _hidden(self) -> Tensor:
        """Hidden states (R, T, H); with kept keys and values only those of the columns that run."""
        network = self.model.network
        if self.setting.cache is None and not self.how.stale:
            every: Tensor = network.hidden(Columns(self.ids, self.positions, self.sees))
            return every
        begin = int(self.columns[0][self.unit[0] == self.block[0]].min())
        end = int(self.columns[0][self.real[0] & (self.unit[0] == self.block[0])].max()) + 1
        if self.in_blocks:
            size = self.setting.block_length or self.total
            origin = int(self.origin[0])
            begin = origin + (begin - origin) // size * size
        fresh = int(self.taken[0]) == 0 and not (self.how.stale and self.kept is not None)
        if self.in_blocks:
            return self._in_blocks(begin, end)
        if fresh or self.kept is None:
            self.kept = network.cache(self.total)
            return self._run(0, self.total)
        stop = end if self.setting.cache == "dual" else self.total
        return self._run(begin - int(self.shift), stop)

    def _in_blocks(self, begin: int, end: int) -> Tensor:
        """A forward of the active block, whose finished blocks keep the keys and values of their
        last step.
        """
        if self.kept is None:
            self.kept = self.model.network.cache(self.total)
            self.last = self._run(0, begin) if begin else None
            self.filled = begin
        if begin > self.filled:
            if self.leads:  # what the block before says now, without keeping it
                kept = [(layer.keys.clone(), layer.values.clone()) for layer in self.kept.layers]
                self.last = self._run(self.filled, begin)
                for layer, (keys, values) in zip(self.kept.layers, kept, strict=True):
                    layer.keys.copy_(keys)
                    layer.values.copy_(values)
            self.filled = begin
        states = self._run(begin, end)
        if self.leads and self.last is not None and begin:
            states[:, begin - 1] = self.last[:, begin - 1]
        return states

    def _run(self, begin: int, end: int) -> Tensor:
        """Hidden states (R, T, H) of the columns from `begin` to `end`, zeros elsewhere."""
        part = slice(begin, end)
        sees = self.sees[:, part]
        run = Columns(self.ids[:, part], self.positions[:, part], sees, self.kept, begin)
        states: Tensor = self.model.network.hidden(run)
        whole = states.new_zeros(len(states), self.total, states.shape[-1])
        whole[:, part] = states
        return whole
