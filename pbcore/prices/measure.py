"""Times a grid of forwards and the own work of samplers, for `pbcore price`.

What is timed is the network alone, its layers and its output projection, in real batches of the
model: whole canvases, blocks behind a cache, block models' blocks. A sampler's own work is all
other time of a decoding.

R rows, P prompt tokens, L canvas positions, V tokens.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import torch
from scipy.optimize import nnls
from torch import Tensor

from pbcore.decoding import decode, policy, resolve
from pbcore.decoding.checks import check_needs
from pbcore.decoding.protocol import traits
from pbcore.errors import InputError
from pbcore.models.base import Query, complete
from pbcore.models.call_shape import CallShape
from pbcore.models.masked import MaskedModel
from pbcore.models.network import Columns
from pbcore.prices.fit import fit_calls
from pbcore.prices.measured import Measurement, Timing
from pbcore.prices.own_work import counted
from pbcore.prices.price_list import OwnPrice

Clock = Callable[[], float]
ROUNDS = 7
# Of each forward: rows, prompt and canvas. Prompts are longer than answers, as in the benchmark.
SIZES = (
    (1, 8, 8),
    (1, 32, 16),
    (1, 96, 32),
    (1, 160, 32),
    (1, 96, 96),
    (2, 160, 32),
    (4, 32, 16),
    (4, 160, 32),
    (8, 96, 32),
    (16, 32, 16),
    (16, 160, 32),
    (16, 96, 96),
)
BLOCK = 8  # of the blocks behind a cache
# Own work is timed in decodings of so many answers together and so many tokens.
DECODINGS = ((1, 8), (1, 32), (4, 32), (8, 16))
PROMPT = 32


class TimedNetwork:
    """A network that adds up the seconds of its layers and of its projection, with what the device
    still computes, and counts the calls and the logits read.
    """

    def __init__(self, network: Any, clock: Clock, wait: Callable[[], None]) -> None:
        self._network = network
        self._clock = clock
        self._wait = wait
        self.reset()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._network, name)

    def reset(self) -> None:
        self.seconds = 0.0
        self.calls = 0
        self.logits = 0

    def hidden(self, run: Columns) -> Tensor:
        self.calls += 1
        return self._timed(self._network.hidden, run)

    def project(self, hidden: Tensor) -> Tensor:
        self.logits += len(hidden)
        return self._timed(self._network.project, hidden)

    def _timed(self, work: Callable[[Any], Tensor], given: Any) -> Tensor:
        self._wait()
        start = self._clock()
        result = work(given)
        self._wait()
        self.seconds += self._clock() - start
        return result


@dataclass(slots=True)
class Bench:
    """A model whose network is timed."""

    model: MaskedModel
    clock: Clock = perf_counter
    network: TimedNetwork = field(init=False)

    def __post_init__(self) -> None:
        self.network = TimedNetwork(self.model.network, self.clock, self.wait)
        timed: Any = self.network
        self.model = replace(self.model, network=timed)

    def wait(self) -> None:
        """Waits for what the device still computes."""
        if self.model.device.type == "cuda":
            torch.cuda.synchronize(self.model.device)


@dataclass(frozen=True, slots=True)
class Forward:
    """A forward to time: the shape and batch that it counts as, and what runs it once."""

    call: CallShape
    batch: int
    run: Callable[[], None]


def measure(
    model: MaskedModel,
    measurement: Measurement,
    keep: Callable[[Measurement], None],
    *,
    samplers: Sequence[str] | None = None,
    rounds: int = ROUNDS,
    clock: Clock = perf_counter,
    tell: Callable[[str], None] = lambda line: None,
) -> None:
    """Times what a measurement lacks and fits it; every round and every sampler is kept as soon as
    it is timed.

    Args:
        model: the model.
        measurement: what was timed before, to go on with.
        keep: writes the measurement.
        samplers: whose own work is timed; None: all that the model runs of the counted ones.
        rounds: how often each forward is timed, in turns.
        clock: seconds, perf_counter or process_time.
        tell: prints a line of progress.
    """
    bench = Bench(model, clock)
    if measurement.rounds < rounds:
        tell(f"forwards, {rounds} rounds")
        for _ in range(measurement.rounds, rounds):
            time_round(bench, measurement)
            keep(measurement)
    measurement.fit = fit_calls(measurement.timings)
    names = runnable(model, samplers)
    left = [name for name in names if name not in measurement.own]
    if left:
        tell(f"own work of {len(left)} samplers")
    for name in left:
        measurement.own[name] = own_price(bench, name)
        keep(measurement)
    keep(measurement)


def runnable(model: MaskedModel, samplers: Sequence[str] | None) -> list[str]:
    """The samplers whose own work is timed, in canonical form. Raises InputError for one that was
    named and that the model can't run.
    """
    names = list(counted()) if samplers is None else list(samplers)
    result = []
    for text in names:
        name = resolve(text)
        try:
            check_needs(complete(model), traits(policy(name)), name)
        except ValueError as error:
            if samplers is not None:
                raise InputError(str(error)) from error
            continue
        result.append(str(name.alone))
    return list(dict.fromkeys(result))


@torch.inference_mode()
def time_round(bench: Bench, measurement: Measurement) -> None:
    """Times each forward of the grid once more, after one to warm up at the first time."""
    before = {(timing.call, timing.batch): timing for timing in measurement.timings}
    for forward in forwards(bench):
        if (forward.call, forward.batch) not in before:
            forward.run()
        bench.network.reset()
        forward.run()
        timing = before.get((forward.call, forward.batch))
        if timing is None:
            timing = Timing(forward.call, forward.batch)
            measurement.timings.append(timing)
        timing.all_seconds.append(bench.network.seconds)
    measurement.rounds += 1


def forwards(bench: Bench) -> Iterator[Forward]:
    """The forwards of the grid that fit in memory."""
    make = _of_blocks if bench.model.block is not None else _of_canvases
    for rows, prompt, canvas in SIZES:
        if prompt + canvas > bench.model.limit:
            continue
        try:
            yield from make(bench, rows, prompt, canvas)
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()


def _requests(bench: Bench, rows: int, prompt: int, canvas: int) -> list[Any]:
    draw = random.Random(prompt)
    special = {bench.model.mask_id, bench.model.eos_id}
    ids = [token for token in range(min(bench.model.vocab_size, 1000)) if token not in special]
    return [bench.model.encode(draw.choices(ids, k=prompt), canvas, key) for key in range(rows)]


def _of_canvases(bench: Bench, rows: int, prompt: int, canvas: int) -> Iterator[Forward]:
    """Whole canvases with all logits and with few, then a block behind a prefix cache and behind a
    dual one.
    """
    model = bench.model
    masks = torch.full((rows, canvas), model.mask_id, device=model.device)  # (R, L)
    nfe = torch.zeros(rows, dtype=torch.long, device=model.device)
    requests = _requests(bench, rows, prompt, canvas)
    whole = model.prepare(requests, cache=None, seed=0)
    for wanted in (canvas, max(1, canvas // 8)):
        want = torch.zeros_like(masks, dtype=torch.bool)
        want[:, :wanted] = True
        query = Query(masks, want, nfe, wanted=(wanted,) * rows)
        call = CallShape(1, prompt + canvas, 0, wanted)
        yield Forward(call, rows, _asking(whole, query))
    block = min(BLOCK, canvas // 2)
    for cache in sorted(model.caches):
        context = model.prepare(requests, cache=cache, seed=0)
        want = torch.zeros_like(masks, dtype=torch.bool)
        want[:, :block] = True
        query = Query(masks, want, nfe, (0, block), True, wanted=(block,) * rows)
        context.logits(query)
        again = replace(query, refresh=False)
        tokens = canvas if cache == "prefix" else block
        call = CallShape(1, tokens, prompt + canvas - tokens, block)
        yield Forward(call, rows, _asking(context, again))


def _of_blocks(bench: Bench, rows: int, prompt: int, canvas: int) -> Iterator[Forward]:
    """A block model's storing of its prompt, and a block behind it."""
    model = bench.model
    assert model.block is not None
    size = model.block
    prompt = prompt // size * size
    requests = _requests(bench, rows, prompt, max(canvas, size))
    masks = torch.full((rows, max(canvas, size)), model.mask_id, device=model.device)
    first = torch.zeros(rows, dtype=torch.long, device=model.device)
    every = torch.ones(rows, dtype=torch.bool, device=model.device)

    def store() -> None:
        context: Any = model.prepare(requests, cache=None, seed=0)
        context.store(masks, first, every)

    yield Forward(CallShape(1, prompt, 0, int(model.shift), True), rows, store)
    context: Any = model.prepare(requests, cache=None, seed=0)
    context.store(masks, first, every)
    want = torch.zeros_like(masks, dtype=torch.bool)
    want[:, int(model.shift) : size] = True
    wanted = size - int(model.shift)
    query = Query(masks, want, first, block=first, blocks=(0,) * rows, wanted=(wanted,) * rows)
    yield Forward(CallShape(1, size, prompt, wanted), rows, _asking(context, query))


def _asking(context: Any, query: Query) -> Callable[[], None]:
    return lambda: context.logits(query)


def own_price(bench: Bench, sampler: str, repeats: int = 3) -> OwnPrice:
    """A sampler's own work: of a call, of a position whose logits it reads, of an answer. Fitted to
    decodings of random prompts, the median of some each.
    """
    features = []
    seconds = []
    for rows, length in DECODINGS:
        size = bench.model.block or 1
        requests = _requests(bench, rows, PROMPT, max(length, size))
        prompts = [list(request.prompt_ids) for request in requests]
        taken = []
        for _ in range(1 + repeats):
            bench.network.reset()
            start = bench.clock()
            decode(bench.model, prompts, sampler, max_new_tokens=max(length, size), batch_size=rows)
            bench.wait()
            taken.append(bench.clock() - start - bench.network.seconds)
        features.append([bench.network.calls, bench.network.logits, rows])
        seconds.append(max(median(taken[1:]), 1e-9))
    scale = np.array(seconds)[:, None]
    weights, _ = nnls(np.array(features) / scale, np.ones(len(seconds)))
    call, logit, answer = (float(weight) for weight in weights)
    return OwnPrice(call, logit, answer)
