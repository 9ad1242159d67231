"""Cost estimate of a grid without the model's weights: download, memory and hours on devices that
may not be here, by the model's shape and computed prices.

Prompts are as long as words, digits and signs, about a tokenizer's tokens. Calls of caches and
blocks count with the mean context of an answer.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import inf, isnan, nan
from textwrap import indent
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pbcore.base.printable import counted, duration, printable
from pbcore.base.tabular import MISSING, Table, terminal
from pbcore.costs.calls import CallShape
from pbcore.costs.devices import devices
from pbcore.costs.price_list import PriceList
from pbcore.costs.shape import ModelShape
from pbcore.decoding.batch_size import CPU, SHARE, Reads, batch_bytes, reads_of, rows_within
from pbcore.decoding.samplers import Sampler
from pbcore.grid.cellid import CellName
from pbcore.grid.cost import counted_bounds
from pbcore.grid.cost_estimate import EstimatedCost, count_lines
from pbcore.grid.plan import Plan
from pbcore.models.base import BatchDecoder, Request
from pbcore.models.sizes import SizedModel
from pbcore.names import longest_block
from pbcore.results.seconds import list_or_why
from pbcore.tasks.base import Sample

DEFAULT = ("rtx4090", "h100")  # where no --price names others: a desktop's GPU and a cluster's
FITS_NOT = "doesn't fit"


@dataclass(frozen=True, slots=True)
class PricedMachine:
    """Where the cells may be run: the name of a price list, the bytes of its device's memory (None
    where a list doesn't say), and the prices, or why there are none.
    """

    name: str
    memory: float | None
    prices: PriceList | str


@dataclass(frozen=True, slots=True)
class CellWork:
    """What a cell asks of a network.

    - `answers`: how many it has;
    - `forwards`: (3,) of all answers: about, least and most;
    - `exact`: whether these are one number;
    - `reads`: what its memory depends on;
    - `prompt`, `canvas`: tokens in the mean;
    - `block`: of a block model.
    """

    sampler: Sampler
    answers: int
    forwards: NDArray[np.float64]
    exact: bool
    reads: Reads
    prompt: int
    canvas: int
    block: int | None

    @property
    def rows(self) -> int:
        """Rows of one answer in a forward."""
        return 1 + self.reads.what_if

    def calls(self, forwards: float) -> dict[CallShape, int]:
        """So many forwards by the shape of their calls."""
        whole = self.prompt + self.canvas
        logits = min(self.block or longest_block(self.sampler.name, self.canvas), self.canvas)
        number = max(1, round(forwards))
        if self.block is not None:
            context = self.prompt + self.canvas // 2
            return {
                CallShape(1, self.prompt, 0, 0, prefill=True): self.answers,
                CallShape(self.rows, self.block, context, self.block): number,
            }
        full = CallShape(self.rows, whole, 0, logits)
        if self.sampler.name.cache is None:
            return {full: number}
        filled = min(number, self.answers * -(-self.canvas // logits))
        run = logits if self.sampler.name.cache == "dual" else (self.canvas + logits) // 2
        rest = CallShape(self.rows, run, whole - run, logits)
        return {full: filled, **({rest: number - filled} if number > filled else {})}


def priced_machines(texts: Sequence[str], model: str, dtype: str | None) -> list[PricedMachine]:
    """The machines that `--price` names, or two usual ones.

    Args:
        texts: what `--price` was given; none: `DEFAULT`.
        model: its name.
        dtype: what the model computes in; None: any.
    """
    found = []
    for text in texts or DEFAULT:
        device = devices().get(text.partition(":")[0])
        memory = None if device is None else device.memory * 1e9
        found.append(PricedMachine(text, memory, list_or_why(text, model, dtype)))
    return found


def bill_by_price(
    plan: Plan, sized: SizedModel, cells: Sequence[CellName], here: bool
) -> Iterator[str]:
    """The bill of one model's cells in words, without its weights.

    Args:
        plan: what will be run.
        sized: the model.
        cells: the model's.
        here: whether its weights are on this machine.
    """
    name = cells[0].model
    yield f"  {size_text(sized, here)}"
    shape = sized.shape
    if shape is None:
        yield "  its working memory and hours aren't known: its config lacks a size"
        return
    work = cell_work(plan, sized.model, cells, shape)
    yield from count_lines(_counts(work), len(cells), "the middle")
    known = priced_machines(plan.settings.price, name, plan.settings.dtype)
    yield _memory_table(known, work, sized, shape, plan)
    for machine in known:
        if isinstance(machine.prices, str):
            yield f"  {printable(machine.name, 200)}: {printable(machine.prices, 400)}"
            continue
        if told := machine.prices.assumed(cell.sampler.name for cell in work):
            yield f"  {printable(machine.name, 200)}: {printable(told, 400)}"
    yield "  computed from the model's shape and each device's peaks; scoring comes on top"


def run_text(plan: Plan, sized: SizedModel, cells: Sequence[CellName], here: bool) -> str:
    """What a model's cells take, in a line.

    Args:
        plan: what will be run.
        sized: the model, in the dtype of the run.
        cells: the model's.
        here: whether its weights are on this machine.
    """
    parts = [size_text(sized, here), f"{gigabytes(sized.weights)} of weights in memory"]
    shape = sized.shape
    if shape is not None:
        work = cell_work(plan, sized.model, cells, shape)
        most = inf if plan.settings.gpu else CPU
        rows = [cell.sampler.name.at_once or plan.settings.rows or most for cell in work]
        parts[-1] += f" and {gigabytes(_working(work, rows, shape))} while it decodes"
        forwards = sum(cell.forwards[0] for cell in work)
        parts.append(counted(len(cells), "cell"))
        if not isnan(forwards):
            parts[-1] += f", about {forwards:,.0f} forwards"
    return "; ".join(parts)


def size_text(sized: SizedModel, here: bool) -> str:
    """`8.02 billion parameters, 16.0 GB to download`."""
    download = "on this machine" if here else f"{gigabytes(sized.download)} to download"
    number = sized.parameters / 1e9
    count = f"{number:.3g} billion" if number >= 1 else f"{1000 * number:.3g} million"
    return f"{count} parameters, {download}"


def gigabytes(bytes_: float) -> str:
    """`16.0 GB` of 10⁹ bytes, `0.71 GB`, `28 MB`."""
    value = bytes_ / 1e9
    if value < 0.1:
        return f"{1000 * value:.2g} MB"
    return f"{value:.2f} GB" if value < 1 else f"{value:,.1f} GB"


def cell_work(
    plan: Plan, model: Any, cells: Sequence[CellName], shape: ModelShape
) -> list[CellWork]:
    """What each cell asks of the network.

    Args:
        plan: what will be run.
        model: without weights.
        cells: the model's.
        shape: of it as it is held.
    """

    @cache
    def requests(task: str, level: str) -> list[Request]:
        samples = plan.at(level).task(task, cells[0].model).samples
        return [model.encode(sample, None, key) for key, sample in enumerate(samples)]

    seeds = len(plan.settings.seed)
    block = getattr(model, "block", None)
    work = []
    for cell in cells:
        rows = requests(cell.task, cell.level)
        samples = plan.task_of(cell).samples
        forwards = np.full(3, nan)
        exact = False
        if not isinstance(model, BatchDecoder):
            forwards, exact = _forwards(cell.sampler, samples, block)
        work.append(
            CellWork(
                cell.sampler,
                seeds * len(samples),
                seeds * forwards,
                exact,
                reads_of(model, cell.sampler, rows, shape),
                round(sum(len(row.prompt_ids) for row in rows) / len(rows)),
                round(sum(len(row.canvas) for row in rows) / len(rows)),
                block,
            )
        )
    return work


def _forwards(
    sampler: Sampler, samples: Sequence[Sample], block: int | None
) -> tuple[NDArray[np.float64], bool]:
    """Forwards about, least and most, and whether they are exact; `block` is a block model's. Of
    samplers that ask, those that take a step each.
    """
    total = np.zeros(3)
    exact = True
    for tokens, bounds, count in counted_bounds(sampler, samples, block):
        if sampler.asks:
            size = block or min(longest_block(sampler.name, tokens), tokens)
            bounds = replace(bounds, high=max(bounds.low, bounds.high // (size + 2)))
        exact = exact and bounds.exact
        total += count * np.array([bounds.guess, bounds.low, bounds.high])
    return total, exact


def _counts(work: Sequence[CellWork]) -> EstimatedCost:
    """The cells' answers and forwards."""
    fixed = sum(round(cell.forwards[0]) for cell in work if cell.exact)
    adaptive = sum((cell.forwards for cell in work if not cell.exact), np.zeros(3))
    return EstimatedCost(sum(cell.answers for cell in work), fixed, adaptive)


def _memory_table(
    known: Sequence[PricedMachine],
    work: Sequence[CellWork],
    sized: SizedModel,
    shape: ModelShape,
    plan: Plan,
) -> str:
    """A row per machine: memory, weights, hours; or that weights and one answer don't fit."""
    rows = []
    for machine in known:
        free = inf if machine.memory is None else machine.memory - sized.weights
        memory = MISSING if machine.memory is None else f"{machine.memory / 1e9:.0f} GB"
        weights = gigabytes(sized.weights)
        time = MISSING
        if free < _working(work, [1] * len(work), shape):
            time = FITS_NOT
        elif not isinstance(machine.prices, str):
            fitting = [_rows(cell, free, shape, plan) for cell in work]
            time = _hours(work, fitting, machine.prices)
        rows.append([printable(machine.name, 24), memory, weights, time])
    heads = ["device", "memory", "weights", "decoding (bounds)"]
    return indent(terminal(Table(heads, rows, "lrrl")), "  ")


def _working(work: Sequence[CellWork], rows: Sequence[float], shape: ModelShape) -> float:
    """The most bytes that a cell takes while so many of its answers are decoded together."""
    return max(
        batch_bytes(int(min(number, cell.answers)), shape, cell.reads)
        for number, cell in zip(rows, work, strict=True)
    )


def _rows(cell: CellWork, free: float, shape: ModelShape, plan: Plan) -> int:
    """The rows that a cell decodes together where so many bytes are free."""
    given = cell.sampler.name.at_once or plan.settings.rows
    if given:
        return given
    if free == inf:
        return plan.settings.price_batch
    return rows_within(SHARE * free, shape, cell.reads)


def _hours(work: Sequence[CellWork], fitting: Sequence[int], prices: PriceList) -> str:
    """`about 2.1 h (1.2 h to 3.4 h)` of all cells; – where forwards aren't known."""
    seconds = np.zeros(3)
    for cell, rows in zip(work, fitting, strict=True):
        for place, forwards in enumerate(cell.forwards):
            if isnan(forwards):
                return MISSING
            seconds[place] += cell.answers * prices.answer_seconds(
                cell.calls(forwards), cell.answers, cell.sampler.name, min(rows, cell.answers)
            )
    about, least, most = map(duration, seconds)
    return about if least == most else f"{about} ({least} to {most})"
