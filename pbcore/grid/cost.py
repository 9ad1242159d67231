"""Costs of cells: forwards of a sampler, a cell's relative cost by name and samples, the remaining
time of a run.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from math import sqrt
from operator import attrgetter
from statistics import median

from pbcore.decoding.samplers import Sampler
from pbcore.decoding.schedule import steps_of
from pbcore.grid.capabilities import Capabilities
from pbcore.grid.cellid import CellName
from pbcore.grid.plan import Plan, longest_canvas, masked_tokens
from pbcore.models import resolve_model
from pbcore.models.shape import stored_parameters
from pbcore.tasks.base import Sample
from pbcore.tasks.naming import category

SPEED = 6.9e10  # floating-point operations a second: only the ratio between models matters
FEW = 3  # cells whose median is no single cell's
LEAST = 2e-4  # seconds of a forward whatever the model, about
# Words, digits, runs of signs, line ends: about a tokenizer's tokens.
TOKEN = re.compile(r"[^\W\d_]+|\d|_|[^\w\s]+|\n")
SEEN = 20  # samples of a task that are looked at


@dataclass(frozen=True, slots=True)
class ForwardBounds:
    """Forwards of one sample: `low` and `high` bounds, equal where the sampler's rule fixes their
    number.
    """

    low: int
    high: int

    @property
    def exact(self) -> bool:
        return self.low == self.high

    @property
    def guess(self) -> float:
        """A number to begin with: the geometric mean of the bounds."""
        return sqrt(self.low * self.high)


def bounds_of(sampler: Sampler, sample: Sample, block: int | None) -> ForwardBounds:
    """The forwards that a sampler takes for a sample; `block` is a block model's."""
    return forward_bounds(sampler, masked_tokens(sample), block, longest_canvas(sample))


def counted_bounds(
    sampler: Sampler, samples: Iterable[Sample], block: int | None
) -> Iterator[tuple[int, ForwardBounds, int]]:
    """The masked tokens of samples, the forwards that each with so many takes, and how many samples
    these are.
    """
    sizes = Counter((masked_tokens(sample), longest_canvas(sample)) for sample in samples)
    for (tokens, length), count in sizes.items():
        yield tokens, forward_bounds(sampler, tokens, block, length), count


def forward_bounds(
    sampler: Sampler, tokens: int, block: int | None = None, length: int | None = None
) -> ForwardBounds:
    """The forwards that a sampler takes for one answer.

    A policy of k tokens a step, or with a schedule, takes in each block what the loop's own
    schedule says. That many are exact unless something makes a step reveal fewer (`+gap2`,
    `+no_early_eos`, `+eos_last`, parts of blocks): then each step reveals at least one. Policies
    that decide themselves take at least one a block, and at most one a token, or what they declare
    as their cap. `+eos_stop` can end any of them early. Samplers that ask about what-if rows
    (`Sampler.asks`) may take further forwards in each step, up to one a slot and one; how many rows
    these have is up to the sampler.

    In a block model the prompt's end may stand in the answer's first block, any block may be the
    last, and each one that is followed by another takes one more forward, which stores it.

    Args:
        sampler: of the cell.
        tokens: masked ones.
        block: the length of a block model's blocks.
        length: the most tokens of the canvas, where some are given.
    """
    name = sampler.name
    if not tokens:
        return ForwardBounds(0, 0)
    if name.prophet:
        whole = forward_bounds(sampler.but(prophet=False), tokens, block, length)
        return ForwardBounds(1, whole.high)
    if name.adaptive:
        return _of_chosen_blocks(sampler, tokens)
    if block is None:
        size = min(name.block or tokens, tokens)
        blocks = -(-tokens // size)
        steps = _block_bounds(sampler, size)
        least = 1 if name.eos_stop else blocks * steps.low
        return ForwardBounds(least, blocks * steps.high)
    blocks = min(tokens, -(-((length or tokens) + block - 1) // block))
    most = max(_block_bounds(sampler, size).high for size in range(1, block + 1))
    stored = blocks - (not sampler.in_the_loop or sampler.declared.course.store == "needed")
    return ForwardBounds(1, blocks * most + stored)


def _block_bounds(sampler: Sampler, size: int) -> ForwardBounds:
    """The forwards of one block of `size` masks."""
    bounds = _step_bounds(sampler, size)
    if sampler.asks:
        return ForwardBounds(1, bounds.high * (size + 2))
    return bounds


def _of_chosen_blocks(sampler: Sampler, tokens: int) -> ForwardBounds:
    """The forwards of a sampler whose blocks are chosen while decoding: from those of one block to
    those of blocks of one token each.
    """
    one = sampler.but(block=None, ada=None, blocks="")
    single = one.but(block=1)
    return ForwardBounds(
        forward_bounds(one, tokens).low,
        max(forward_bounds(one, tokens).high, forward_bounds(single, tokens).high),
    )


def _step_bounds(sampler: Sampler, size: int) -> ForwardBounds:
    """The steps of one block of `size` masks. The loop ends each block at a declared cap."""
    name = sampler.name
    declared = sampler.declared if sampler.in_the_loop else None
    cap = None if declared is None or declared.cap is None else declared.cap(size)
    k = sampler.k
    if k is None and name.counts is None and name.schedule is None:
        return ForwardBounds(1, size if cap is None else cap)
    steps = steps_of(name, k, size)
    rounds = name.remask_rounds if name.remask == "remdm" else 0
    low = high = steps.taken + rounds
    if name.remask_variant == "early":  # a round has no step of its own
        low = steps.taken
        high += steps.idle
    in_parts = declared is not None and declared.part is not None
    if name.gap or name.no_early_eos or name.eos_last or in_parts:
        low = steps.taken
        high = size + steps.idle if cap is None else cap
    if cap is not None:
        low = min(low, cap)
        high = min(high, cap)
    return ForwardBounds(low, high)


def weights(
    plan: Plan, number: Callable[[ForwardBounds], float] = attrgetter("guess")
) -> Callable[[CellName], float]:
    """Cell → samples × forwards × what a forward of its model costs over prompt and answer.
    `number` says which number of forwards is meant where the sampler decides it itself.
    """

    def weight(cell: CellName) -> float:
        samples = plan.task_of(cell).samples
        if cell.sample is not None or not samples:
            return 1.0
        block = Capabilities(cell.model).block
        total = 0.0
        for sample, columns in zip(samples, prompts(cell.task, cell.model), strict=False):
            tokens = max(1, masked_tokens(sample))
            # Two operations a parameter and column; attention is small beside it.
            seconds = LEAST + 2 * parameters(cell.model) * (columns + tokens) / SPEED
            total += number(bounds_of(cell.sampler, sample, block)) * seconds
        return total * len(samples) / len(samples[:SEEN]) * len(plan.settings.seed)

    @cache
    def prompts(task: str, model: str) -> list[int]:
        """Tokens of the first samples' prompts, about."""
        lengths = []
        for sample in plan.task(task, model).samples[:SEEN]:
            contents = [message["content"] for message in sample.messages]
            lengths.append(sum(len(TOKEN.findall(content)) for content in contents))
        return lengths

    return weight


@cache
def parameters(model: str) -> int:
    """The number of parameters; 0 for a model without weights, or whose size isn't known before it
    is loaded.
    """
    folder = resolve_model(model).folder
    return 0 if folder is None else stored_parameters(folder)


class TimeLeft:
    """Estimates the time left of a run, in which several cells may run at once, from the finished
    cells. Seconds throughout.

    A cell's `weight` is proportional to its cost as far as it is known beforehand. A cell takes
    what the same sampler took on other tasks of its model, scaled by their weights; where none is
    done, what its policy took a unit of weight; else its model, else any. So it holds for adaptive
    samplers, whose forwards nobody knows beforehand, and where cells share forwards and the later
    ones of a task are cheap. What a cell takes beside its decoding (scores, ceilings, files) is the
    median of its category's, so that a grammar server that starts counts once.
    """

    def __init__(self, weight: Callable[[CellName], float]) -> None:
        self._weight = cache(lambda cell: max(weight(cell), 1e-9))
        self._spent: dict[tuple[str, ...], tuple[float, float]] = {}  # seconds, weight
        self._overheads: list[float] = []
        self._besides: dict[str, list[float]] = {}  # category → seconds beside decoding
        self._at_once = 1

    def running(self, cells: int) -> None:
        """So many cells run now."""
        self._at_once = max(self._at_once, cells)

    def done(self, cell: CellName, whole: float, call: float, decoding: float) -> None:
        """A cell is done.

        Args:
            cell: its name.
            whole: seconds with what came before and after it.
            call: seconds of its test itself.
            decoding: those of them in which it decoded.
        """
        for key in _keys(cell):
            seconds, weight = self._spent.get(key, (0.0, 0.0))
            self._spent[key] = seconds + decoding, weight + self._weight(cell)
        beside = max(0.0, call - decoding)
        self._besides.setdefault(category(cell.task), []).append(beside)
        self._overheads.append(max(0.0, whole - call))

    def expected(self, cell: CellName) -> float:
        """Seconds of a cell's test, once one is done."""
        seconds, weight = next(self._spent[key] for key in _keys(cell) if key in self._spent)
        besides = self._besides.get(category(cell.task), [])
        if len(besides) < FEW:  # one of them may have started something
            besides = [seconds for of_kind in self._besides.values() for seconds in of_kind]
        beside = median(besides)
        return seconds / weight * self._weight(cell) + beside

    def left(
        self, waiting: Collection[CellName], running: Mapping[CellName, float]
    ) -> float | None:
        """Time until all cells are done, None before any is; `running`: how long each cell that
        runs has taken.
        """
        if not self._overheads:
            return None
        # The first imports come with the first cell, and each model's load once, so the usual
        # overhead is the median of the others'.
        overhead = median(self._overheads[1:] or [0.0])
        rest = sum(map(self.expected, waiting)) + overhead * len(waiting)
        rest += sum(max(0.0, self.expected(cell) - taken) for cell, taken in running.items())
        return rest / min(self._at_once, max(1, len(waiting) + len(running)))


def _keys(cell: CellName) -> tuple[tuple[str, ...], ...]:
    """Keys of cells similar to this one, from the closest to the farthest."""
    return (
        (cell.model, str(cell.sampler)),
        (cell.model, "", cell.sampler.name.policy),
        (cell.model, "", ""),
        (),
    )
