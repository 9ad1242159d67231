"""Costs of cells: forwards of a sampler, and the remaining time of a run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import sqrt
from statistics import median
from typing import TYPE_CHECKING

from pbcore.grid.cellid import CellName

if TYPE_CHECKING:
    from pbcore.decoding.protocol import Traits
    from pbcore.names import SamplerName


@dataclass(frozen=True, slots=True)
class Forwards:
    """Forwards of one sample: `low` and `high` bounds, equal where the sampler's rule fixes their number."""

    low: int
    high: int

    @property
    def exact(self) -> bool:
        return self.low == self.high

    @property
    def guess(self) -> float:
        """A number to begin with: the geometric mean of the bounds."""
        return sqrt(self.low * self.high)


def forwards(name: SamplerName, tokens: int) -> Forwards:
    """The forwards that a sampler takes for `tokens` masked tokens.

    A fixed k takes ⌈b/k⌉ a block of b, a schedule its steps. Policies that decide themselves take at least one a block,
    and at most one a token, or what they declare as their cap. `+eos_stop` can end any of them early. Samplers that ask
    about what-if rows (`asks`) may take further forwards in each step, up to one a slot and one; how many rows these
    have is up to the sampler. One that looks ahead takes at most what it takes without.
    """
    size = min(name.block or tokens, tokens)
    blocks = -(-tokens // size)
    steps = _steps(name, size)
    extra = name.remask_rounds if name.remask == "remdm" else 0
    if name.ahead:
        return Forwards(1, forwards(replace(name, ahead=0), tokens).high)
    if asks(name):
        moves = _cap(name, size) if steps is None else steps + extra
        return Forwards(1 if name.eos_stop else blocks, blocks * moves * (size + 2))
    if steps is None:
        return Forwards(blocks, blocks * _cap(name, size))
    most = blocks * (steps + extra)
    return Forwards(1 if name.eos_stop else most, most)


def _steps(name: SamplerName, size: int) -> int | None:
    """Steps in a block of `size`, if the sampler's rule fixes them."""
    if name.counts is not None:
        return min(len(name.counts), size)
    if name.schedule is not None:
        return min(name.schedule_steps, size)
    k = next((int(number) for word, number in name.arguments if word == "k"), None)
    return None if k is None else -(-size // k)


def asks(name: SamplerName) -> bool:
    """Whether a sampler asks about what-if rows or looks ahead, so that it forwards more canvases than its forwards."""
    declared = _traits(name)
    return bool(name.ahead) or (declared is not None and "probe" in declared.needs)


def _cap(name: SamplerName, size: int) -> int:
    declared = _traits(name)
    return size if declared is None or declared.cap is None else declared.cap(size)


def _traits(name: SamplerName) -> Traits | None:
    """What a sampler's policy declares; None for those of models that decode by themselves."""
    from pbcore.decoding.protocol import traits
    from pbcore.decoding.samplers import policy
    from pbcore.names import SamplerNameError

    try:
        return traits(policy(name))
    except SamplerNameError:
        return None


@dataclass
class Remaining:
    """Estimates the remaining time from the finished cells.

    A cell's `weight` is proportional to its cost as far as it is known beforehand. A cell takes what the same sampler
    took on other tasks of its model, scaled by their weights; where none is done, what its policy took a unit of
    weight; else its model, else any. So it holds for adaptive samplers, whose forwards nobody knows beforehand, and
    where cells share forwards and the later ones of a task are cheap.
    """

    weight: Callable[[CellName], float]
    _weights: dict[CellName, float] = field(default_factory=dict)
    _spent: dict[tuple[str, ...], list[float]] = field(default_factory=lambda: defaultdict(lambda: [0.0, 0.0]))

    def done(self, cell: CellName, seconds: float) -> None:
        """A cell has taken so many seconds."""
        for key in _keys(cell):
            spent = self._spent[key]
            spent[0] += seconds
            spent[1] += self._weight(cell)

    def seconds(self, cells: Iterable[CellName]) -> float | None:
        """Estimated seconds of these cells, one after another; None before any cell is done."""
        if not self._spent:
            return None
        return sum(self._of(cell) for cell in cells)

    def _of(self, cell: CellName) -> float:
        seconds, weight = next(self._spent[key] for key in _keys(cell) if key in self._spent)
        return seconds / weight * self._weight(cell)

    def _weight(self, cell: CellName) -> float:
        if cell not in self._weights:
            self._weights[cell] = max(self.weight(cell), 1e-9)
        return self._weights[cell]


def _keys(cell: CellName) -> tuple[tuple[str, ...], ...]:
    """Keys of cells similar to this one, from the closest to the farthest."""
    return (cell.model, cell.sampler), (cell.model, "", cell.sampler.partition("-")[0]), (cell.model, "", ""), ()


@dataclass
class Clock:
    """The time left of a run in which several cells may run at once. Seconds throughout."""

    remaining: Remaining
    _overheads: list[float] = field(default_factory=list)
    _at_once: int = 1

    def running(self, cells: int) -> None:
        """So many cells run now."""
        self._at_once = max(self._at_once, cells)

    def done(self, cell: CellName, whole: float, call: float) -> None:
        """A cell is done: `call` seconds of its test itself, `whole` with what came before and after it."""
        self.remaining.done(cell, call)
        self._overheads.append(max(0.0, whole - call))

    def left(self, waiting: Collection[CellName], running: Mapping[CellName, float]) -> float | None:
        """Time until all cells are done; `running` has how long each cell that runs has taken. None if unknown."""
        begun = {cell: self.remaining.seconds([cell]) for cell in running}
        rest = self.remaining.seconds(waiting)
        if rest is None:
            return None
        # The model's load and the first imports come once, so the usual overhead is the median.
        rest += median(self._overheads) * len(waiting) if self._overheads else 0.0
        rest += sum(max(0.0, (expected or 0.0) - running[cell]) for cell, expected in begun.items())
        return rest / min(self._at_once, max(1, len(waiting) + len(running)))
