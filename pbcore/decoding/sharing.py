"""The store of forwards (`--share-forwards`): caches a model's predictions per canvas, for all
samplers of a grid, which walk over the same canvases (all begin with the same one).

It keeps, for each sample and canvas, token, confidence, margin and entropy of every masked
position, so that blocks of any length find theirs, and sits between the loop and the model's
context: rows that it knows need no forward, the others share one. A sampler takes part if nothing
else decides its moves: no draw of tokens, no cache, no review, no whole distributions.

R rows, L canvas positions, M asked positions.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbcore.base.errors import InputError
from pbcore.base.lazy_torch import Tensor, torch
from pbcore.costs.calls import RowSize
from pbcore.decoding.block_rules import reads_of, registered
from pbcore.decoding.checks import check_logits
from pbcore.decoding.prediction import NUMBERS, Law, Prediction, predict, rowwise
from pbcore.decoding.protocol import Policy, traits
from pbcore.models.base import Context, Denoiser, Query, Request, SizedContext, complete
from pbcore.models.transfer import narrow_context
from pbcore.names import SamplerName

GIB = 1 << 30
# bytes of a canvas's entry beside its numbers and its key: two objects and their place in a dict
OVERHEAD = 350
LIVE = 16  # batches decoded side by side, so that rows which miss fill the forwards


def shareable(model: object, policy: Policy, name: SamplerName) -> bool:
    """Whether a store can answer for this sampler and model: the sampler reads numbers alone, and
    the model's logits depend on the canvas alone (those of block models also depend on the block's
    place).

    Args:
        model: says so by `deterministic`; a model without it is not shared.
        policy: what it declares counts.
        name: the sampler, with temperature and cache.
    """
    if not getattr(model, "deterministic", False) or getattr(model, "block", None):
        return False
    if getattr(model, "counts_mask", False):
        return False  # a store doesn't know the mask token's share
    return reads_numbers(policy, name)


def reads_numbers(policy: Policy, name: SamplerName) -> bool:
    """Whether a sampler is greedy, uncached, uncut and unreviewed, and its policy reads numbers
    alone.
    """
    if name.temperature or name.cuts or name.cache:
        return False
    declared = traits(policy)
    return (
        declared.reads == "numbers"
        and (not name.blocks or reads_of(registered(name)) == "numbers")
        and declared.review is None
        and declared.gaps is None
        and not {"mask", "probe", "attention"} & declared.needs
    )


def of_rows(context: Any, index: Tensor, rows: int, numbers: Sequence[int]) -> Any:
    """A context for forwards of some rows, any number of times each. Of a block model it reads the
    rows' own cache.

    Args:
        context: of the batch.
        index: (W,) the rows.
        rows: how many rows the batch has.
        numbers: `index` on the host.
    """
    if list(numbers) == list(range(rows)):
        return context
    beside = getattr(context, "beside", None)
    if beside is not None:
        shared = beside(index, numbers)
        if shared is not None:
            return shared
    part = copy.copy(context)
    narrow_context(part, index, numbers)
    return part


@dataclass(slots=True)
class _Known:
    """What is known of a request: canvas → token, confidence and NUMBERS of its masked positions, a
    row each.
    """

    request: Request  # kept, so that the id() of its sample isn't reused
    canvases: dict[bytes, NDArray[Any]] = field(default_factory=dict)
    size: int = 0  # in bytes
    used: int = 0  # turn of the last decoding that asked


class ForwardStore:
    """What one model said of canvases, within `limit` bytes. `shared` counts the forwards of rows
    that were answered from here, `computed` those that the model ran, `batches` the calls that it
    took, and `seconds` their time. At the limit the samples that were not asked about for longest
    make room; those of the present and the last decoding, which the next asks about again, stay,
    and then nothing is added.
    """

    def __init__(self, model: Any, limit: int = GIB) -> None:
        self._model = model
        self._limit = limit
        self._turn = 0
        self._samples: OrderedDict[tuple[Any, ...], _Known] = OrderedDict()
        self.size = self.shared = self.computed = self.batches = 0
        self.seconds = 0.0

    def holds(self, model: object) -> bool:
        """Whether these are this model's forwards."""
        return model is self._model

    def begin(self, model: object) -> None:
        """A decoding begins. Raises InputError if it is that of another model."""
        if not self.holds(model):
            raise InputError(
                f"this store holds forwards of {self._model.name}; make one ForwardStore for each"
                " model"
            )
        self._turn += 1

    def prepare(self, requests: Sequence[Request], seed: int, at_once: int) -> SharedContext:
        """A batch ready for decoding, whose canvases are looked up here first.

        Args:
            requests: the rows.
            seed: of the model's own noise, if it has any.
            at_once: the most rows that go through a forward together.
        """
        context = self._model.prepare(requests, cache=None, seed=seed)
        return SharedContext(
            self,
            complete(self._model),
            context,
            [self._known(request) for request in requests],
            at_once,
        )

    def put(self, known: _Known, canvas: bytes, numbers: NDArray[Any]) -> None:
        """Adds a canvas, if it is new and there is room or room can be made.

        Args:
            known: what is known of its sample.
            canvas: the token ids as bytes, int32.
            numbers: (2 + NUMBERS, M) token, confidence and numbers of its masked positions.
        """
        if canvas in known.canvases:
            return
        size = numbers.nbytes + len(canvas) + OVERHEAD
        while self.size + size > self._limit:
            place, oldest = next(iter(self._samples.items()))
            if oldest.used >= self._turn - 1:
                return
            del self._samples[place]
            self.size -= oldest.size
        known.canvases[canvas] = numbers
        known.size += size
        self.size += size

    def _known(self, request: Request) -> _Known:
        place = (request.prompt_ids, request.canvas, request.key, id(request.sample))
        known = self._samples.setdefault(place, _Known(request))
        known.used = self._turn
        self._samples.move_to_end(place)
        return known


@dataclass(slots=True)
class SharedContext:
    """A batch's context that asks its store first. `rows` is what the store knows of each row's
    sample.
    """

    store: ForwardStore
    model: Denoiser
    context: Context
    rows: list[_Known]
    at_once: int
    knows_rows = True

    def predict(self, query: Query) -> Prediction:
        """What the model says of the positions in `query.want`. Raises DecodingError for unusable
        logits.
        """
        masked = query.canvas == self.model.mask_id  # (R, L)
        canvases = query.canvas.to(torch.int32).cpu().numpy()
        keys = [
            ids[: len(known.request.canvas)].tobytes()
            for known, ids in zip(self.rows, canvases, strict=True)
        ]
        found = [known.canvases.get(key) for known, key in zip(self.rows, keys, strict=True)]
        missing = [row for row, numbers in enumerate(found) if numbers is None]
        self.store.shared += len(found) - len(missing)
        for start in range(0, len(missing), self.at_once):
            part = missing[start : start + self.at_once]
            for row, numbers in zip(part, self._compute(query, masked, part), strict=True):
                found[row] = numbers
                self.store.put(self.rows[row], keys[row], numbers)
        values = np.concatenate([numbers for numbers in found if numbers is not None], axis=1)
        known = torch.from_numpy(values).to(self.model.device)
        token, confidence, *others = known[:, query.want[masked]]  # (M,) each
        return Prediction(token.long(), confidence, numbers=dict(zip(NUMBERS, others, strict=True)))

    def sizes(self, query: Query) -> list[RowSize]:
        """What a forward of the query computes for each row decoded alone, without the store."""
        if not isinstance(self.context, SizedContext):
            known = zip(self.rows, query.wanted or (), strict=True)
            return [
                RowSize(len(row.request.prompt_ids) + len(row.request.canvas), 0, wanted)
                for row, wanted in known
            ]
        return [size._replace(padding=0) for size in self.context.sizes(query)]

    def _compute(self, query: Query, masked: Tensor, part: list[int]) -> list[NDArray[Any]]:
        """One forward of some rows: the numbers of all their masked positions."""
        start = perf_counter()
        rows = torch.tensor(part, device=query.canvas.device)
        query = replace(query, canvas=query.canvas[rows], want=masked[rows], nfe=query.nfe[rows])
        counts = query.want.sum(-1)
        wanted = tuple(counts.tolist())
        query = replace(query, wanted=wanted)
        logits = of_rows(self.context, rows, len(self.rows), part).logits(query)  # (M, V)
        check_logits(self.model, logits, sum(wanted), query.canvas, "masked")
        logits[:, self.model.mask_id] = -torch.inf
        token, confidence = predict(logits, Law(), None)  # (M,) each
        numbers = [rowwise(function, logits) for function in NUMBERS.values()]
        # float32 holds any token id below 2^24 exactly.
        packed = torch.stack([token.to(confidence.dtype), confidence, *numbers])
        values = packed.cpu().numpy()  # (2 + numbers, M)
        self.store.computed += len(part)
        self.store.batches += 1
        self.store.seconds += perf_counter() - start
        return [
            columns.copy() for columns in np.split(values, counts.cumsum(0)[:-1].tolist(), axis=1)
        ]

    def keep(self, rows: Tensor, numbers: Sequence[int]) -> None:
        """Drops all rows but these: `rows` (R',) are indices, `numbers` the same on the host."""
        narrow_context(self.context, rows, numbers)
        self.rows = [self.rows[number] for number in numbers]
