"""Block-causal decoding with an exact KV cache: within a block attention goes both ways, between
blocks it is causal. What-if canvases of a row read the row's finished blocks where they lie.

R rows, P prompt tokens, L canvas positions, T columns, B block length, Q columns of one forward, H
width, M wanted positions, V tokens. A token's column is its position in its own row, counted from
the prompt's start, so all rows share the grid of blocks; what lies past a row's end stays hidden.
"""

import copy
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from pbcore.costs.calls import RowSize
from pbcore.models.base import Query, Request
from pbcore.models.network import Columns, Predictor
from pbcore.models.transfer import on_device, places


class BlockCache:
    """Keys and values (R, `length`, heads, D) of every layer."""

    def __init__(self, rows: int, length: int) -> None:
        self._rows = rows
        self._length = length
        self._layers: dict[int, list[Tensor]] = {}
        self._at: tuple[Tensor | None, Tensor, int] | None = None

    def point(self, rows: Tensor | None, columns: Tensor, width: int) -> None:
        """Says where the next forward writes and what it reads.

        Args:
            rows: which rows (R',) it runs; None: all.
            columns: the slots (R', Q) that it writes.
            width: how many of the first slots it reads.
        """
        self._at = rows, columns, width

    def update(self, keys: Tensor, values: Tensor, layer: int, *_: object) -> tuple[Tensor, Tensor]:
        """Writes new keys and values.

        Args:
            keys: (R', heads, Q, D).
            values: (R', heads, Q, D).
            layer: the layer's number.

        Returns:
            Keys and values of all columns to read (R', heads, T', D).
        """
        assert self._at is not None, "point() comes before each forward"
        rows, columns, width = self._at
        if layer not in self._layers:
            shape = (self._rows, self._length, keys.shape[1], keys.shape[3])
            self._layers[layer] = [keys.new_zeros(shape), values.new_zeros(shape)]
        columns = columns.to(keys.device)
        every = (
            torch.arange(self._rows, device=keys.device) if rows is None else rows.to(keys.device)
        )
        read = []
        for kept, new in zip(self._layers[layer], (keys, values), strict=True):
            kept[every[:, None], columns] = new.transpose(1, 2)
            read.append((kept if rows is None else kept[every])[:, :width].transpose(1, 2))
        return read[0], read[1]

    def grow(self, length: int) -> None:
        """Makes room for so many columns; what is stored stays."""
        if length <= self._length:
            return
        for kept in self._layers.values():
            for place, tensor in enumerate(kept):
                room = (len(tensor), length - self._length, *tensor.shape[2:])
                kept[place] = torch.cat([tensor, tensor.new_zeros(room)], dim=1)
        self._length = length

    def of(self, rows: Tensor) -> "BlockCache":
        """A copy with these rows (R',), any number of times each."""
        part = BlockCache(len(rows), self._length)
        for layer, kept in self._layers.items():
            part._layers[layer] = [tensor[rows.to(tensor.device)] for tensor in kept]
        return part


class PositionReader:
    """Answers a query by the logits of any canvas positions in one forward (`_logits`)."""

    _logits: Callable[..., Tensor]

    def logits(self, query: Query) -> Tensor:
        return self._logits(query, query.want, query.count)

    def logits_and_review(self, query: Query) -> tuple[Tensor, Tensor]:
        if query.review is None:
            raise ValueError("logits_and_review needs a query with review")
        return self._both(query, query.review)

    def _both(self, query: Query, review: Tensor, *more: Any) -> tuple[Tensor, Tensor]:
        """Logits (M, V) of the wanted positions and (N, V) of those in `review` (R, L)."""
        positions = query.want | review
        total = None
        if query.count is not None and query.reviewed is not None:
            total = query.count + query.reviewed
        both = self._logits(query, positions, total, *more)  # row-major, both kinds mixed
        wanted = query.want.flatten()[places(positions, total)]  # (M + N,)
        return both[places(wanted, query.count)], both[places(~wanted, query.reviewed)]


class BlockCausalContext(PositionReader):
    """A batch of a block-causal model being decoded.

    `store` runs what is final and not yet in the cache: whole prompt blocks first, then each
    finished block. Denoising runs the active block against the cache. With shifted logits a block's
    first token is predicted by the last column before it, when that is stored. With `parts` (the
    cache within a block of Fast-dLLM v2, arXiv 2509.26328) a forward runs only the current part of
    the block against the keys and values of its last whole forward; the block runs whole at its
    first step and while the part's first token is masked.

    Where the model's grid stores along, a block's first forward also runs what precedes it and
    isn't stored yet.

    Of the cache's columns the one after the longest row takes what is to be forgotten, and a block
    of further columns the masks of a causal forward.
    """

    knows_rows = True

    def __init__(self, model: Predictor, requests: Sequence[Request], parts: bool) -> None:
        assert model.block is not None
        self._model = model
        self._block = model.block
        self._parts = parts
        device = model.device
        self._length = max(len(request.prompt_ids) + len(request.canvas) for request in requests)
        given = [[*request.prompt_ids, *request.canvas] for request in requests]
        filled = [[*ids, *[model.eos_id] * (self._length + 1 - len(ids))] for ids in given]
        # Prompt and end of each row, on the host.
        self._sizes = [
            (len(request.prompt_ids), len(ids))
            for request, ids in zip(requests, given, strict=True)
        ]
        self._ids = on_device(filled, device)  # (R, T + 1)
        self._prompt = on_device([prompt for prompt, _ in self._sizes], device)  # (R,)
        # The first column of each row's first block with new tokens.
        self._first = on_device([self._first_of(number) for number in range(self.rows)], device)
        self._end = on_device([end for _, end in self._sizes], device)  # (R,)
        self._stored = torch.zeros_like(self._end)  # columns in the cache
        self._held = [0] * self.rows  # the same on the host, where forwards store along
        # The block of the last whole forward, with `parts`.
        self._kept = torch.full_like(self._end, -1)
        self._cache = BlockCache(len(requests), self._length + 1 + self._block)
        self.stored: list[RowSize | None] = []  # of the latest storing forward
        self._parts_run: list[RowSize] = []  # of the latest forward, with `parts`

    def sizes(self, query: Query) -> list[RowSize]:
        """What the latest forward, which answered this query, computed for each row."""
        assert query.blocks is not None
        logits = query.wanted or [0] * len(self._sizes)
        if query.review is not None and query.shown is not None:
            logits = [wanted + shown for wanted, shown in zip(logits, query.shown, strict=True)]
        if self._parts_run:
            runs = zip(self._parts_run, logits, strict=True)
            return [size._replace(logits=wanted) for size, wanted in runs]
        return self.sizes_of(query, range(len(self._sizes)), logits)

    def sizes_of(
        self, query: Query, numbers: Sequence[int], logits: Sequence[int]
    ) -> list[RowSize]:
        """What a forward of whole blocks computes for each canvas of a query.

        Args:
            query: with the canvases' blocks.
            numbers: the row that each canvas belongs to.
            logits: how many positions of each are read.
        """
        assert query.blocks is not None
        times = 2 if query.causal and not self._model.shift else 1
        sizes = []
        for number, block, wanted in zip(numbers, query.blocks, logits, strict=True):
            end = self._sizes[number][1]
            start = self._first_of(number) + block * self._block
            tokens = max(0, min(start + self._block, end) - start)
            padding = times * (self._block - tokens)
            sizes.append(RowSize(times * tokens, start, wanted, padding))
        return sizes

    def store(self, canvas: Tensor, block: Tensor, rows: Tensor) -> tuple[Tensor, Tensor | None]:
        until = self.start(block).minimum(self._end)
        ran = rows & (until > self._stored)
        runs, starts, stops = torch.stack([ran, self._stored, until]).tolist()
        numbers = [number for number, runs_now in enumerate(runs) if runs_now]
        self.stored = [None] * len(runs)
        if not numbers:
            return ran, None
        some = on_device(numbers, canvas.device)  # (R',)
        self._write(canvas)
        start = self._stored[some]
        stop = until[some]
        width = max(stops[number] - starts[number] for number in numbers)
        lengths = [stops[number] for number in numbers]
        for number in numbers:
            tokens = stops[number] - starts[number]
            logits = int(self._predicts_behind)
            self.stored[number] = RowSize(tokens, starts[number], logits, width - tokens)
        causal = self._model.grid.causal
        hidden = self._forward(some, start, width, stop, lengths, causal)  # (R', Q, H)
        self._stored[some] = stop
        for number in numbers:
            self._held[number] = stops[number]
        if not self._predicts_behind:
            return ran, None
        last = hidden[
            torch.arange(len(some), device=hidden.device), (stop - start - 1).to(hidden.device)
        ]  # (R', H)
        return ran, self._model.read(last)

    def keep(self, rows: Tensor, numbers: Sequence[int] | None = None) -> None:
        """`numbers` are the `rows` on the host."""
        self._sizes = [
            self._sizes[number] for number in (rows.tolist() if numbers is None else numbers)
        ]
        kept = rows.tolist() if numbers is None else numbers
        self._held = [self._held[number] for number in kept]
        for name in ("_ids", "_prompt", "_first", "_end", "_stored", "_kept"):
            setattr(self, name, getattr(self, name)[rows])
        self._cache = self._cache.of(rows)

    def beside(self, rows: Tensor, numbers: Sequence[int]) -> "WhatIfContext | None":
        """A context for canvases (W, L) that the `rows` (W,) might have, each row any number of
        times; `numbers` are the same on the host. None with `parts`, where they would write over
        what the row keeps.
        """
        return None if self._parts else WhatIfContext(self, rows, numbers)

    def _logits(self, query: Query, positions: Tensor, count: int | None) -> Tensor:
        """Logits of canvas positions (R, L), all in their row's active block, in row-major order,
        whose `count` the host may know.
        """
        assert query.block is not None
        self._write(query.canvas)
        self._parts_run = []
        start = self.start(query.block)  # (R,)
        lengths = self.ends(range(self.rows), query.blocks, start)
        if query.causal:
            hidden = self._causally(start, lengths)
        elif self._parts and query.part is not None:
            hidden = self._in_parts(start, query.block, query.part)
        elif self._model.grid.along:
            start, hidden = self._storing_along(start, query, lengths)
        else:
            stop = start + self._block
            hidden = self._forward(None, start, self._block, stop, lengths)  # (R, B, H)
        return self.read(hidden, positions, count, self._prompt - start)

    def _storing_along(
        self, start: Tensor, query: Query, lengths: Sequence[int]
    ) -> tuple[Tensor, Tensor]:
        """The first columns (R,) that run and their hidden states (R, Q, H): the active blocks, and
        what precedes them and isn't stored yet.
        """
        starts = start.tolist() if query.blocks is None else self.starts_of(query.blocks)
        before = self._held
        run = self._stored
        width = max(first + self._block - held for first, held in zip(starts, before, strict=True))
        hidden = self._forward(None, run, width, start + self._block, lengths)
        self._parts_run = [
            RowSize(end - held, held, 0, width - (end - held))
            for end, held in zip(lengths, before, strict=True)
        ]
        self._stored = start
        self._held = starts
        return run, hidden

    def read_positions(self, query: Query, positions: Tensor, count: int | None) -> Tensor:
        """Logits of canvas positions (R, L) as `_logits`, for a context beside."""
        return self._logits(query, positions, count)

    def starts_of(self, blocks: Sequence[int]) -> list[int]:
        """The first column of each row's block, on the host."""
        return self._starts(range(self.rows), blocks)

    def behind(self, numbers: Sequence[int], blocks: Sequence[int] | None, start: Tensor) -> bool:
        """Whether something that precedes active blocks isn't stored yet.

        Args:
            numbers: their rows, on the host.
            blocks: on the host; None where it doesn't know them, so that it waits.
            start: (W,) the first columns.
        """
        starts = start.tolist() if blocks is None else self._starts(numbers, blocks)
        return any(
            first > self._held[number] for number, first in zip(numbers, starts, strict=True)
        )

    def narrowed(self, rows: Tensor, numbers: Sequence[int]) -> "BlockCausalContext":
        """A context of its own for some rows (W,), each any number of times."""
        part = copy.copy(self)
        part.keep(rows, numbers)
        return part

    @property
    def rows(self) -> int:
        """R."""
        return len(self._sizes)

    @property
    def model(self) -> Predictor:
        return self._model

    @property
    def cache(self) -> BlockCache:
        return self._cache

    def active(
        self, rows: Tensor, canvas: Tensor, block: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The active blocks of canvases that rows might have.

        Args:
            rows: (W,) the row of each canvas.
            canvas: (W, L).
            block: (W,) the active block.

        Returns:
            Tokens, columns and which of these the row has, (W, B) each, and the block's first
            column (W,).
        """
        start = self._first[rows] + block * self._block
        columns = start[:, None] + torch.arange(self._block, device=start.device)  # (W, B)
        inside = columns < self._end[rows][:, None]
        place = columns - self._prompt[rows][:, None]  # in the canvas
        answer = canvas.gather(1, place.clamp(0, canvas.shape[1] - 1))
        prompt = self._ids[rows[:, None], columns.clamp(max=self._length)]
        ids = torch.where(place >= 0, answer, prompt).where(inside, self._model.eos_id)
        return ids, columns, inside, start

    def lead(self, rows: Tensor, start: Tensor) -> Tensor:
        """Canvas position 0 (W,) of the `rows` (W,), counted from the column `start` (W,)."""
        return self._prompt[rows] - start

    def reach(self, numbers: Sequence[int], blocks: Sequence[int] | None, start: Tensor) -> int:
        """The largest first column of active blocks.

        Args:
            numbers: the rows, on the host.
            blocks: their active blocks; None where the host doesn't know them, so that it waits.
            start: (W,) the first columns.
        """
        return int(start.max()) if blocks is None else max(self._starts(numbers, blocks))

    def ends(
        self, numbers: Sequence[int], blocks: Sequence[int] | None, start: Tensor
    ) -> list[int]:
        """The tokens of each row up to the end of its active block.

        Args:
            numbers: the rows, on the host.
            blocks: their active blocks; None where the host doesn't know them, so that it waits.
            start: their first columns.
        """
        starts = start.tolist() if blocks is None else self._starts(numbers, blocks)
        own = (self._sizes[number][1] for number in numbers)
        return [min(first + self._block, end) for first, end in zip(starts, own, strict=True)]

    def _starts(self, numbers: Sequence[int], blocks: Sequence[int]) -> list[int]:
        return [
            self._first_of(number) + block * self._block
            for number, block in zip(numbers, blocks, strict=True)
        ]

    def _first_of(self, number: int) -> int:
        """The first column of a row's first block with new tokens."""
        prompt = self._sizes[number][0]
        return prompt - self._model.grid.lead(prompt, self._block)

    @property
    def _predicts_behind(self) -> bool:
        """Whether what is stored predicts the first token behind it."""
        return self._model.shift or self._model.grid.leads

    def start(self, block: Tensor) -> Tensor:
        """The first column (R,) of each row's `block` (R,)."""
        return self._first + block * self._block

    def read(self, hidden: Tensor, positions: Tensor, count: int | None, lead: Tensor) -> Tensor:
        """Logits (M, V) of some canvas positions.

        Args:
            hidden: (R, B, H) states of the active blocks.
            positions: (R, L) bool.
            count: M; None: the host waits for it.
            lead: (R,) place of canvas position 0 in the active block.
        """
        at = places(positions, count)  # (M,)
        row = at // positions.shape[1]
        place = at % positions.shape[1]
        column = place + lead[row] - int(self._model.shift)  # (M,) within the block
        return self._model.read(hidden[row.to(hidden.device), column.to(hidden.device)])

    def _in_parts(self, start: Tensor, block: Tensor, part: int) -> Tensor:
        """Hidden states (R, B, H); only those of the current part are filled in rows that don't run
        the whole block.
        """
        columns = start[:, None] + torch.arange(self._block, device=start.device)  # (R, B)
        masked = self._ids.gather(1, columns.clamp(max=self._length)) == self._model.mask_id
        first = masked.int().argmax(-1) // part * part  # (R,) the part's start within the block
        whole = (self._kept != block) | masked.gather(1, first[:, None]).squeeze(1)  # (R,)
        hidden: Tensor | None = None
        ends = (start + self._block).minimum(self._end)
        wholly, reaches, starts, offsets = torch.stack([whole, ends, start, first]).tolist()
        for runs_whole, begin, offset_in_block, end in zip(
            wholly, starts, offsets, reaches, strict=True
        ):
            if runs_whole:
                columns_run = self._block
                own = end - begin
            else:
                columns_run = min(part, self._block)
                own = min(columns_run, end - begin - offset_in_block)
            call = int(not runs_whole)
            self._parts_run.append(RowSize(own, end - own, 0, columns_run - own, call))
        for kind, offset, width in (
            (True, torch.zeros_like(first), self._block),
            (False, first, min(part, self._block)),
        ):
            numbers = [number for number, is_whole in enumerate(wholly) if bool(is_whole) is kind]
            if numbers:
                some = on_device(numbers, start.device)  # (R',)
                stop = (start + self._block)[some]
                lengths = [reaches[number] for number in numbers]
                got = self._forward(some, (start + offset)[some], width, stop, lengths)
                if hidden is None:
                    hidden = got.new_zeros(len(start), self._block, got.shape[-1])
                at = offset[some, None] + torch.arange(width, device=start.device)  # (R', Q)
                hidden[some[:, None].to(got.device), at.to(got.device)] = got
        self._kept = torch.where(whole, block, self._kept)
        assert hidden is not None
        return hidden

    def _causally(self, start: Tensor, lengths: Sequence[int]) -> Tensor:
        """Hidden states (R, B, H) at which each token of the block is predicted from those before
        it alone: at a mask in its place, or with shifted logits at the token before it (S2D2, arXiv
        2603.25702). `lengths` are those of the rows up to the block's end.
        """
        place = torch.arange(self._block, device=start.device)
        columns = start[:, None] + place  # (R, B)
        written = torch.where(columns < self._end[:, None], columns, self._length)
        ids = self._ids.gather(1, written)
        key = torch.arange(self._length + 1 + self._block, device=start.device)  # (T',)
        sees = (key <= columns[..., None]) & (key < self._length)  # (R, B, T')
        if self._model.shift:
            self._cache.point(None, written, len(key))
            run = Columns(ids, columns, sees, self._cache, keys=key[None], lengths=lengths)
            return self._model.network.hidden(run)
        masks = self._length + 1 + place  # (B,)
        # Its own mask instead of the token.
        before = (sees & (key < columns[..., None])) | (key == masks[:, None])
        self._cache.point(None, torch.cat([written, masks.expand_as(written)], dim=1), len(key))
        twice = torch.cat([ids, torch.full_like(ids, self._model.mask_id)], dim=1)  # (R, 2B)
        both = torch.cat([sees, before], dim=1)
        columns = columns.repeat(1, 2)  # (R, 2B)
        stored = key[: self._length + 1].expand(len(ids), -1)
        keys = torch.cat([stored, columns[:, self._block :]], dim=1)  # (R, T')
        run = Columns(twice, columns, both, self._cache, keys=keys, lengths=lengths)
        return self._model.network.hidden(run)[:, self._block :]

    def _forward(
        self,
        rows: Tensor | None,
        start: Tensor,
        width: int,
        stop: Tensor,
        lengths: Sequence[int],
        causal: bool = False,
    ) -> Tensor:
        """Hidden states (R', Q, H) of `width` columns from `start` (R',) on, up to `stop` (R',) and
        the row's end; `lengths` are these ends on the host. Columns see those of their block and of
        earlier ones; if `causal`, those up to their own.
        """
        own = slice(None) if rows is None else rows
        ids, end, first = self._ids[own], self._end[own], self._first[own]
        stop = stop.minimum(end)
        columns = start[:, None] + torch.arange(width, device=start.device)  # (R', Q)
        written = torch.where(columns < stop[:, None], columns, self._length)
        reach = max(lengths)
        key = torch.arange(reach, device=start.device)  # (T',)
        sees = key <= columns[..., None]  # (R', Q, T')
        if not causal:
            blocks = (columns - first[:, None]) // self._block  # (R', Q); below 0: the prompt's
            of_key = (key - first[:, None]) // self._block  # (R', T')
            sees = of_key[:, None] <= blocks[..., None]
        sees = sees & (key < stop[:, None])[:, None]
        self._cache.point(rows, written, reach)
        given = ids.gather(1, written)
        run = Columns(given, columns, sees, self._cache, keys=key[None], lengths=lengths)
        return self._model.network.hidden(run)

    def _write(self, canvas: Tensor) -> None:
        """Copies the canvas (R, L) behind each row's prompt."""
        columns = self._prompt[:, None] + torch.arange(
            canvas.shape[1], device=canvas.device
        )  # (R, L)
        inside = columns < self._end[:, None]
        self._ids.scatter_(1, columns.where(inside, self._length), canvas)
        self._ids[:, self._length] = self._model.eos_id  # which took what lies past a row's end


class WhatIfContext(PositionReader):
    """Canvases that rows of a block-causal batch might have, each read against its row's finished
    blocks.

    All canvases of a row run as one row of the network, one behind the other, and each attends to
    the finished blocks and to itself. So a row's keys and values are read where they lie, once for
    all of its canvases, and none is copied. The canvases' own go behind the finished blocks, to
    columns that every later forward of the row writes before it reads them.

    W canvases, O rows that have some, N of a row at most, K columns of each: its active block, in a
    causal forward followed by as many masks. A row with fewer than N runs some of them again.
    """

    knows_rows = True

    def __init__(self, context: BlockCausalContext, rows: Tensor, numbers: Sequence[int]) -> None:
        self._context = context
        self._rows = rows  # (W,)
        self._numbers = numbers
        self._apart: BlockCausalContext | None = None  # where the rows' own cache isn't filled

    def sizes(self, query: Query) -> list[RowSize]:
        """What the latest forward, which answered this query, computed for each canvas; what runs
        again is padding.
        """
        if self._apart is not None:
            return self._apart.sizes(query)
        logits = query.wanted or [0] * len(self._numbers)
        sizes = self._context.sizes_of(query, self._numbers, logits)
        runs = Counter(_grouped(self._numbers)[2])
        return [
            size._replace(padding=size.padding + (runs[canvas] - 1) * (size.tokens + size.padding))
            for canvas, size in enumerate(sizes)
        ]

    def _logits(self, query: Query, positions: Tensor, count: int | None) -> Tensor:
        """Logits of positions (W, L) of the canvases, in row-major order."""
        assert query.block is not None
        context = self._context
        model = context.model
        ids, columns, inside, start = context.active(self._rows, query.canvas, query.block)
        if model.grid.along and context.behind(self._numbers, query.blocks, start):
            self._apart = context.narrowed(self._rows, self._numbers)
            return self._apart.read_positions(query, positions, count)
        block = columns.shape[1]
        place = torch.arange(block, device=columns.device)
        local = inside[:, None, :].expand(-1, block, -1)  # (W, K, K) keys that a column sees
        if query.causal:
            local = local & (place <= place[:, None])
            if not model.shift:  # a mask in the place of each token, which sees those before it
                before = inside[:, None, :] & (place < place[:, None])
                own = torch.eye(block, dtype=torch.bool, device=place.device).expand_as(local)
                local = torch.cat(
                    [
                        torch.cat([local, torch.zeros_like(local)], dim=2),
                        torch.cat([before, own], dim=2),
                    ],
                    dim=1,
                )
                ids = torch.cat([ids, torch.full_like(ids, model.mask_id)], dim=1)
                columns = columns.repeat(1, 2)
        reach = context.reach(self._numbers, query.blocks, start)
        ends = context.ends(self._numbers, query.blocks, start)
        hidden = self._forward(ids, columns, local, start, reach, ends)  # (W, K, H)
        lead = context.lead(self._rows, start)
        return context.read(hidden[:, -block:], positions, count, lead)

    def _forward(
        self,
        ids: Tensor,
        columns: Tensor,
        local: Tensor,
        start: Tensor,
        reach: int,
        ends: Sequence[int],
    ) -> Tensor:
        """Hidden states (W, K, H) of `ids` (W, K) at `columns` (W, K), each of which sees those of
        its own canvas that `local` (W, K, K) says, and its row's columns before `start` (W,), of
        which the largest is `reach`. `ends` (W,) are the tokens of each up to its block's end.
        """
        owners, slot, canvas = _grouped(self._numbers)
        many = len(canvas) // len(owners)  # N
        wide = ids.shape[1]  # K
        device = ids.device
        of = on_device(canvas, device)  # (O·N,)
        shape = (len(owners), many * wide)
        stored = torch.arange(reach, device=device) < start[of][:, None]  # (O·N, reach)
        stored = stored[:, None].expand(-1, wide, -1).reshape(*shape, reach)
        same = torch.eye(many, dtype=torch.bool, device=device)[:, None, :, None]  # (N, 1, N, 1)
        own = local[of].view(len(owners), many, wide, 1, wide) & same
        sees = torch.cat([stored, own.reshape(*shape, many * wide)], dim=-1)
        width = reach + many * wide
        written = torch.arange(reach, width, device=device).expand(shape)
        every = owners == list(range(self._context.rows))
        rows = None if every else on_device(owners, device)
        cache = self._context.cache
        cache.grow(width)
        cache.point(rows, written, width)
        positions = columns[of].view(shape)
        behind = torch.arange(reach, device=device).expand(len(owners), -1)
        keys = torch.cat([behind, positions], dim=1)  # (O, reach + N·K)
        lengths = [
            max(ends[at] for at in canvas[i : i + many]) for i in range(0, len(canvas), many)
        ]
        run = Columns(ids[of].view(shape), positions, sees, cache, keys=keys, lengths=lengths)
        hidden = self._context.model.network.hidden(run)  # (O, N·K, H)
        hidden = hidden.reshape(len(canvas), wide, -1)
        return hidden[on_device(slot, hidden.device)]


def _grouped(numbers: Sequence[int]) -> tuple[list[int], list[int], list[int]]:
    """Canvases by the rows `numbers` (W,) that they belong to: those rows (O,); the place (W,) of
    each canvas among O times N; and the canvas (O·N,) in each of these places, where a row has
    fewer its last one again.
    """
    owners = sorted(set(numbers))
    of: dict[int, list[int]] = {owner: [] for owner in owners}
    for canvas, number in enumerate(numbers):
        of[number].append(canvas)
    many = max(map(len, of.values()))
    slot = [0] * len(numbers)
    canvases = []
    for group, own in enumerate(of.values()):
        for place, canvas in enumerate(own):
            slot[canvas] = group * many + place
        canvases += own + own[-1:] * (many - len(own))
    return owners, slot, canvases
