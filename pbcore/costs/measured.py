"""Prices measured on a machine: what was timed is kept in a small JSON file, with the numbers
fitted to it.

    seconds of a call = call + token · max(positions, floor) + pair · (positions · columns attended)
                        + logit · (logits read)
                        + cached · (positions behind a cache) + refresh · (positions that fill one)

`call` is the overhead, `token` the computing, `floor` the positions that reading the weights takes
as long as computing, `pair` the attention; `cached` and `refresh` are what a position takes more
where a cache is read or filled.
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from statistics import fmean, median
from typing import Any, Self

from pbcore.base.check import parse_json
from pbcore.base.errors import InputError
from pbcore.costs.calls import CallShape
from pbcore.costs.price_list import OwnPrice
from pbcore.costs.shape import ModelShape
from pbcore.names import SamplerName, parse, recorded

FORMAT = 1
Resolve = Callable[[str], object]  # reads a sampler's name; raises SamplerNameError for no sampler


@dataclass(frozen=True, slots=True)
class Fit:
    """The numbers of the form above: seconds, and `floor` in positions. `error` is the median
    relative error at the calls that were timed.
    """

    call: float
    token: float
    floor: float
    cached: float
    refresh: float
    pair: float
    logit: float
    error: float = 0.0

    def seconds(self, call: CallShape, batch: float, refresh: bool = False) -> float:
        """Seconds of one call by the fitted line.

        Args:
            call: the shape of one answer's part.
            batch: answers that take part.
            refresh: True if it fills a prefix or dual cache.
        """
        positions = batch * call.positions
        attended = positions * (call.tokens + call.context)
        behind = positions if call.context else 0
        return (
            self.call
            + self.token * max(positions, self.floor)
            + self.cached * behind
            + self.refresh * (positions if refresh else 0)
            + self.pair * attended
            + self.logit * batch * call.rows * call.logits
        )


@dataclass(slots=True)
class Timing:
    """A call that was timed: its shape, answers that took part, whether it filled a cache, and its
    seconds in each round.
    """

    call: CallShape
    batch: int
    refresh: bool
    all_seconds: list[float] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """The median of all rounds."""
        return median(self.all_seconds)


@dataclass(slots=True)
class OwnTiming:
    """A decoding that was timed without its network: its calls, the logits that it read, its
    answers, and its seconds in each round.
    """

    calls: int
    logits: int
    answers: int
    all_seconds: list[float] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """The median of all rounds."""
        return median(self.all_seconds)


@dataclass(slots=True)
class Measurement:
    """The file of `pbcore price`: the model, the machine, what was timed so far, and what was
    fitted to it; None and none before it is complete. `busy` are the cores that other processes
    used in each round, and `free` those that they could use without taking any from this one
    (None: not known).
    """

    model: str
    dtype: str
    shape: ModelShape | None
    machine: Mapping[str, Any]
    timings: list[Timing] = field(default_factory=list)
    own_timings: dict[str, list[OwnTiming]] = field(default_factory=dict)
    fit: Fit | None = None
    own: dict[str, OwnPrice] = field(default_factory=dict)
    busy: list[float] = field(default_factory=list)
    free: float | None = None

    @property
    def scatter(self) -> float | None:
        """How far a call's seconds lie from their median, as a share of it: the mean over rounds,
        the median over calls. None for a single round.
        """
        shares = []
        for timing in self.timings:
            middle = timing.seconds
            if len(timing.all_seconds) > 1:
                shares.append(
                    fmean(abs(seconds - middle) for seconds in timing.all_seconds) / middle
                )
        return median(shares) if shares else None

    def round_factors(self) -> list[float]:
        """How slow each round was: its seconds as multiples of the calls' medians, in the
        median.
        """
        rounds = min(len(timing.all_seconds) for timing in self.timings)
        factors = []
        for number in range(rounds):
            ratios = [timing.all_seconds[number] / timing.seconds for timing in self.timings]
            factors.append(median(ratios))
        return factors

    def drop_round(self, number: int) -> None:
        """Forgets what was timed in a round, counted from 0."""
        own = [timing for timings in self.own_timings.values() for timing in timings]
        lists = [self.busy]
        lists += [timing.all_seconds for timing in self.timings]
        lists += [timing.all_seconds for timing in own]
        for seconds in lists:
            del seconds[number : number + 1]
        self.timings = [timing for timing in self.timings if timing.all_seconds]
        for name, timings in list(self.own_timings.items()):
            if not all(timing.all_seconds for timing in timings):
                del self.own_timings[name]

    def text(self) -> str:
        """The file's content."""
        own_timings = {}
        for name, timings in self.own_timings.items():
            own_timings[name] = [asdict(timing) for timing in timings]
        data = {
            "pbcore_prices": FORMAT,
            "model": self.model,
            "dtype": self.dtype,
            "shape": None if self.shape is None else self.shape.as_dict(),
            "machine": dict(self.machine),
            "fit": None if self.fit is None else asdict(self.fit),
            "own": {name: asdict(price) for name, price in self.own.items()},
            "timings": [_timing_entry(timing) for timing in self.timings],
            "own_timings": own_timings,
            "busy": self.busy,
            "free": self.free,
        }
        return json.dumps(data, indent=1) + "\n"

    @classmethod
    def of(cls, text: str, resolve: Resolve) -> Self:
        """The measurement that `text` wrote. Raises ValueError, KeyError or TypeError for another
        text, and for a sampler that `resolve` refuses.
        """
        data = parse_json(text, "it")
        if data["pbcore_prices"] != FORMAT:
            raise ValueError(f"format {data['pbcore_prices']!r}, not {FORMAT}")
        own = {}
        for name, entry in data["own"].items():
            if recorded(name) is not None:  # others were timed by an earlier version
                own[name] = _numbers(OwnPrice, entry)
        measurement = cls(
            model=str(data["model"]),
            dtype=str(data["dtype"]),
            shape=None if data["shape"] is None else ModelShape.of(data["shape"]),
            machine=dict(data["machine"]),
            timings=[_timing(entry) for entry in data["timings"]],
            own_timings=_own_timings(data["own_timings"]),
            fit=None if data["fit"] is None else _numbers(Fit, data["fit"]),
            own=own,
            busy=[float(cores) for cores in data.get("busy", [])],  # older lists don't say
            free=None if data.get("free") is None else float(data["free"]),
        )
        for name in measurement.own:
            resolve(name)
        return measurement


def _timing_entry(timing: Timing) -> dict[str, Any]:
    return {
        **asdict(timing.call),
        "batch": timing.batch,
        "refresh": timing.refresh,
        "seconds": timing.all_seconds,
    }


def _timing(data: Mapping[str, Any]) -> Timing:
    sizes = {item.name: data[item.name] for item in fields(CallShape)}
    timing = Timing(
        CallShape(**sizes), data["batch"], bool(data["refresh"]), _seconds(data["seconds"])
    )
    if timing.batch < 1:
        raise ValueError(f"a call of {timing.batch} answers")
    return timing


def _own_timings(data: Mapping[str, Any]) -> dict[str, list[OwnTiming]]:
    timings = {}
    for name, entries in data.items():
        timings[str(name)] = [_own_timing(entry) for entry in entries]
    return timings


def _own_timing(data: Mapping[str, Any]) -> OwnTiming:
    return OwnTiming(
        int(data["calls"]), int(data["logits"]), int(data["answers"]), _seconds(data["all_seconds"])
    )


def _seconds(values: Any) -> list[float]:
    seconds = [float(value) for value in values]
    wrong = [value for value in seconds if not 0 < value < math.inf]
    if wrong or not seconds:
        raise ValueError(f"timed {wrong or 'nothing'} s")
    return seconds


def _numbers(kind: Any, data: Mapping[str, Any]) -> Any:
    """An object whose fields are all numbers of at least 0."""
    values = {name: float(value) for name, value in data.items()}
    wrong = [name for name, value in values.items() if not 0 <= value < math.inf]
    if wrong:
        raise ValueError(f"{wrong[0]} is {values[wrong[0]]}")
    return kind(**values)


def read_measurement(path: Path, resolve: Resolve) -> Measurement:
    """The measurement in a file. Raises InputError for one that can't be read, or that has a
    sampler which `resolve` refuses.
    """
    try:
        return Measurement.of(path.read_text(encoding="utf-8"), resolve)
    except OSError as error:
        raise InputError(
            f"price list {path}: {error.strerror}; write one with pbcore price MODEL"
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        what = str(error).split("\n")[0] or type(error).__name__
        raise InputError(
            f"price list {path} is damaged or not one of pbcore price ({what[:200]}); measure it"
            " again with pbcore price MODEL --again"
        ) from error


def begun(fresh: Measurement, path: Path | None, resolve: Resolve) -> Measurement:
    """The measurement in a file, to go on with, if it is of the same model, dtype and machine as
    `fresh`; else `fresh`. Raises InputError for a file that can't be read.
    """
    if path is None or not path.is_file():
        return fresh
    kept = read_measurement(path, resolve)
    same = (kept.model, kept.dtype, kept.shape, kept.machine) == (
        fresh.model,
        fresh.dtype,
        fresh.shape,
        fresh.machine,
    )
    return kept if same else fresh


@dataclass(frozen=True, slots=True)
class MeasuredOwnWork:
    """The prices of own work that were timed, by sampler. A sampler that wasn't has the price of
    one with the same policy and modifiers, whatever their numbers; else of one with the same
    policy; else the median of all.
    """

    prices: Mapping[str, OwnPrice]

    def of(self, sampler: SamplerName) -> OwnPrice:
        near = self._near(sampler)
        return self.prices[near] if near else OwnPrice(0.0)

    def stand_in(self, sampler: SamplerName) -> str:
        near = self._near(sampler)
        return near if near and _policy(near) != sampler.policy else ""

    def _near(self, sampler: SamplerName) -> str:
        """The sampler whose price is this one's; empty where none was timed."""
        name = str(sampler.alone)
        if name in self.prices:
            return name
        for alike in (_kind, _policy):
            for other in self.prices:
                if alike(other) == alike(name):
                    return other
        by_call = sorted(self.prices.items(), key=lambda item: (item[1].call, item[1].logit))
        return by_call[len(by_call) // 2][0] if by_call else ""


def _policy(sampler: str) -> str:
    return parse(sampler).policy


def _kind(sampler: str) -> tuple[str, ...]:
    """A sampler's policy and modifiers without their numbers."""
    policy, *modifiers = sampler.split("+")
    return policy.split("-")[0], *sorted(part.rstrip("0123456789._-") for part in modifiers)
