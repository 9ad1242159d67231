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
from time import perf_counter
from typing import Any

import torch
from torch import Tensor

from pbcore.base.errors import InputError
from pbcore.base.torch_states import own_states
from pbcore.costs.calls import CallShape
from pbcore.costs.fit import fit_calls, fit_own
from pbcore.costs.load import (
    CpuClock,
    cpu_seconds,
    unsteady,
    used_by_others,
    worst_round,
)
from pbcore.costs.measured import Measurement, OwnTiming, Timing
from pbcore.costs.own_work import counted_work
from pbcore.decoding import decode, resolve
from pbcore.decoding.checks import check_needs
from pbcore.models.base import Query, complete
from pbcore.models.device import wait_for
from pbcore.models.masked import MaskedModel
from pbcore.models.network import Columns
from pbcore.models.shape import known_shape
from pbcore.results.environment import machine, versions

Clock = Callable[[], float]
ROUNDS = 5
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
DECODINGS = ((1, 8), (1, 32), (4, 16))
PROMPT = 32


class TimedNetwork:
    """A network that adds up the seconds of its layers and of its projection, with what the device
    still computes, and counts the calls and the logits read.
    """

    def __init__(self, network: Any, clock: Clock, device: torch.device) -> None:
        self._network = network
        self._clock = clock
        self._device = device
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
        wait_for(self._device)
        start = self._clock()
        result = work(given)
        wait_for(self._device)
        self.seconds += self._clock() - start
        return result


@dataclass(slots=True)
class Bench:
    """A model whose network is timed."""

    model: MaskedModel
    clock: Clock = perf_counter
    network: TimedNetwork = field(init=False)

    def __post_init__(self) -> None:
        self.network = TimedNetwork(self.model.network, self.clock, self.model.device)
        timed: Any = self.network
        self.model = replace(self.model, network=timed)


@dataclass(frozen=True, slots=True)
class Forward:
    """A forward to time: the shape and batch that it counts as, what runs it once, and whether it
    fills a cache.
    """

    call: CallShape
    batch: int
    run: Callable[[], None]
    refresh: bool = False


def fresh_measurement(model: str, dtype: str, device: torch.device) -> Measurement:
    """A measurement of a model on a device of this machine in which nothing was timed yet."""
    return Measurement(model, dtype, known_shape(model), _machine_of(device))


def _machine_of(device: torch.device) -> dict[str, Any]:
    """The machine that prices belong to: device, threads and versions."""
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
    else:
        name = machine(gpu=False)["processor"]
    installed = versions()
    return {
        "device": name,
        "threads": torch.get_num_threads(),
        "versions": {
            package: installed[package] for package in ("python", "torch", "transformers")
        },
    }


@own_states()
def measure_prices(
    model: MaskedModel,
    measurement: Measurement,
    keep: Callable[[Measurement], None],
    *,
    samplers: Sequence[str] | None = None,
    rounds: int = ROUNDS,
    clock: Clock = perf_counter,
    tell: Callable[[str], None] = lambda line: None,
    usage: CpuClock = cpu_seconds,
    free: float | None = None,
    repeats: int | None = None,
) -> None:
    """Times what a measurement lacks, in rounds of all forwards and samplers, and fits it; what was
    timed is kept at once. While others compute, or repeated calls scatter, the worst round is timed
    again; `load.unsteady` says what became of it.

    Args:
        measurement: what was timed before, to go on with.
        keep: writes the measurement.
        samplers: whose own work is timed; None: all that the model runs of the counted ones.
        rounds: how often each forward is timed, in turns.
        clock: seconds, perf_counter or process_time.
        tell: prints a line of progress.
        usage: the machine's CPU seconds.
        free: cores that others may use (`load.free_cores`); None: all.
        repeats: the most rounds timed again; None: as many as there are rounds.
    """
    bench = Bench(model, clock)
    names = timed_samplers(model, samplers)
    complete = measurement.fit is not None
    most = rounds if repeats is None else repeats
    for repeat in range(most + 1):
        for number in range(rounds):
            if not _lacks(measurement, names, number):
                continue
            complete = False
            measurement.fit = None
            measurement.free = free
            tell(f"round {number + 1} of {rounds}")
            before = usage()
            time_round(bench, measurement, names, number, keep)
            _note_busy(measurement, number, used_by_others(before, usage()))
            keep(measurement)
        why = unsteady(measurement)
        if complete or not why or repeat == most:
            break
        worst = worst_round(measurement)
        tell(f"{why}: round {worst + 1} again")
        measurement.drop_round(worst)
    if not complete:
        fit(measurement)
        keep(measurement)


def _note_busy(measurement: Measurement, number: int, cores: float) -> None:
    """Notes the cores that others used in a round, or in the rest of one."""
    busy = measurement.busy
    busy += [0.0] * (number + 1 - len(busy))
    busy[number] = max(busy[number], round(cores, 2))


def _lacks(measurement: Measurement, names: Sequence[str], number: int) -> bool:
    """Whether something wasn't timed in round `number`, counted from 0."""
    done = [len(timing.all_seconds) for timing in measurement.timings]
    for name in names:
        done += [len(timing.all_seconds) for timing in measurement.own_timings.get(name, [])]
        done.append(0 if name not in measurement.own_timings else number + 1)
    return not measurement.timings or min(done) <= number


def fit(measurement: Measurement) -> None:
    """Fits what was timed so far."""
    measurement.fit = fit_calls(measurement.timings)
    for name, timings in measurement.own_timings.items():
        measurement.own[name] = fit_own(timings)


def timed_samplers(model: MaskedModel, samplers: Sequence[str] | None) -> list[str]:
    """The samplers whose own work is timed, in canonical form. Raises InputError for one that was
    named and that the model can't run.
    """
    names = list(counted_work()) if samplers is None else list(samplers)
    result = []
    for text in names:
        sampler = resolve(text)
        try:
            check_needs(complete(model), sampler.declared, sampler.name)
        except ValueError as error:
            if samplers is not None:
                raise InputError(str(error)) from error
            continue
        result.append(str(sampler.alone))
    return list(dict.fromkeys(result))


def time_round(
    bench: Bench,
    measurement: Measurement,
    samplers: Sequence[str],
    number: int,
    keep: Callable[[Measurement], None] = lambda state: None,
) -> None:
    """Times what wasn't timed yet in a round: each forward of the grid once, after one to warm up
    at the first time, and each sampler's decodings.

    Args:
        bench: the model and what it forwards.
        measurement: gets the seconds.
        samplers: their own work is timed.
        number: the round, from 0.
        keep: writes the measurement after each part.
    """
    before = {(timing.call, timing.batch, timing.refresh): timing for timing in measurement.timings}
    with torch.inference_mode():
        for forward in grid_forwards(bench):
            timing = before.get((forward.call, forward.batch, forward.refresh))
            if timing is not None and len(timing.all_seconds) > number:
                continue
            if timing is None:
                forward.run()
                timing = Timing(forward.call, forward.batch, forward.refresh)
                measurement.timings.append(timing)
                before[forward.call, forward.batch, forward.refresh] = timing
            bench.network.reset()
            forward.run()
            timing.all_seconds.append(bench.network.seconds)
    keep(measurement)
    for sampler in samplers:
        own = measurement.own_timings.get(sampler)
        if own is None:
            time_own_work(bench, sampler)  # warms up
            measurement.own_timings[sampler] = time_own_work(bench, sampler)
        elif len(own[0].all_seconds) <= number:
            for timing_before, again in zip(own, time_own_work(bench, sampler), strict=True):
                timing_before.all_seconds += again.all_seconds
        keep(measurement)


def grid_forwards(bench: Bench) -> Iterator[Forward]:
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
        if cache == "prefix":
            call = CallShape(1, prompt + canvas, 0, block)
            yield Forward(call, rows, _asking(context, query), refresh=True)
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


def time_own_work(bench: Bench, sampler: str) -> list[OwnTiming]:
    """A sampler's own work, once in each of DECODINGS of random prompts."""
    timings = []
    model: Any = bench.model
    for rows, length in DECODINGS:
        canvas = max(length, bench.model.block or 1)
        requests = _requests(bench, rows, PROMPT, canvas)
        prompts = [list(request.prompt_ids) for request in requests]
        bench.network.reset()
        start = bench.clock()
        decode(model, prompts, sampler, max_new_tokens=canvas, batch_size=rows)
        wait_for(bench.model.device)
        seconds = max(bench.clock() - start - bench.network.seconds, 1e-9)
        timings.append(OwnTiming(bench.network.calls, bench.network.logits, rows, [seconds]))
    return timings
