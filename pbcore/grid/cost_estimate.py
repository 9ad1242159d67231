"""Cost estimate of a grid: cells, forwards, and hours at this machine's time per forward.

Forwards are known exactly where a sampler's rule fixes them. For the others a probe decodes one
sample of each category with every sampler; the bounds that hold in any case stand beside what it
gives. What-if rows count as the forwards of rows that they are. Nothing is recorded.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import isnan, nan
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pbcore.base.printable import counted, duration
from pbcore.decoding import decode
from pbcore.decoding.run import batch_of
from pbcore.decoding.samplers import Sampler
from pbcore.decoding.sharing import ForwardStore, shareable
from pbcore.grid.cellid import CellName
from pbcore.grid.cost import bounds_of, counted_bounds
from pbcore.grid.plan import Plan, masked_tokens
from pbcore.models.base import Denoiser, Generation, complete
from pbcore.tasks.base import Sample

TIMED = 3  # timed decodings of a task's first batch
STEPS = 4  # in each of them
PATIENCE = 60.0  # seconds for the probe of one category


class ProbedSample(NamedTuple):
    """What one sample of a category took: sampler → forwards and rows for each masked token, and
    tokens forwarded for each forward; and the share of the forwards that a store leaves to be
    computed (1 without one).
    """

    rates: dict[Sampler, float]
    rows: dict[Sampler, float]
    tokens: dict[Sampler, float]
    computed: float
    shareable: frozenset[Sampler]


class EstimatedCost(NamedTuple):
    """Estimated cost of a cell, or of several together. Forwards are those of single rows, seconds
    those of decoding alone. `fixed` forwards are exact; of the others, and of the seconds, there
    are three numbers: what the probe gives, and the bounds, least and most.
    """

    answers: int
    fixed: int
    adaptive: NDArray[np.float64]  # (3,)
    calls: float = 0.0  # of samplers with what-if rows, by the probe; not among those above
    rows: float = 0.0  # canvases in those
    tokens: float = nan  # tokens forwarded; NaN where the model doesn't count them
    computed: float = 0.0  # forwards expected to be left where cells share them
    seconds: NDArray[np.float64] = np.zeros(3)  # (3,)
    unprobed: int = 0


def bill(
    plan: Plan,
    model: Any,
    cells: Sequence[CellName],
    batch: str,
    progress: Callable[[str], None] = lambda text: None,
) -> Iterator[str]:
    """The bill of one loaded model's cells in words, with how its forwards are run.

    Args:
        plan: what will be run.
        model: loaded.
        cells: the model's.
        batch: how its forwards are run, in words.
        progress: is told what it is at; "" at its end.

    Raises:
        ValueError: for a model that doesn't decode in the loop.
    """
    cost, forward = _measured_cost(plan, complete(model), cells, progress)
    progress("")
    asked = cost.fixed + cost.adaptive[0] + cost.rows
    yield from count_lines(cost, len(cells), "a probe")
    if cost.rows:
        yield (
            f"  what-if rows: samplers that ask take about {cost.calls:,.0f} forwards in sequence,"
            f" of {cost.rows:,.0f} rows (a probe, no bound holds); time is estimated as if each"
            " row cost the same"
        )
    if not isnan(cost.tokens):
        yield (
            f"  tokens forwarded: about {cost.tokens:,.0f}, the positions that the network"
            " computes (a probe)"
        )
    if plan.settings.sharing and asked:
        yield (
            f"  forwards expected with sharing: about {cost.computed:,.0f}, "
            f"{100 * cost.computed / asked:.0f} % of those asked (a probe of one sample a category)"
        )
    if cost.unprobed:
        unprobed = counted(cost.unprobed, "cell")
        yield (
            f"  not probed: {unprobed} with adaptive samplers, for which the middle of their bounds"
            " counts"
        )
    yield (
        f"  a forward takes {1000 * min(forward):.2f} to {1000 * max(forward):.2f} ms a row"
        f" ({batch})"
    )
    about, low, high = map(duration, cost.seconds)
    yield f"  decoding: about {about}; bounds {low} to {high}. Scoring comes on top"


def count_lines(cost: EstimatedCost, cells: int, basis: str) -> Iterator[str]:
    """Cells, answers and forwards in words.

    Args:
        cost: of all cells.
        cells: how many.
        basis: where the number of adaptive forwards comes from.
    """
    yield f"  {counted(cells, 'cell')}, {counted(cost.answers, 'answer')}"
    expected, least, most = cost.adaptive
    if isnan(expected):
        yield "  forwards: it decodes by itself, so they are not known beforehand"
        return
    yield f"  forwards of fixed schedules: {cost.fixed:,}, exact"
    if most:
        yield (
            f"  forwards of adaptive samplers: about {expected:,.0f} ({basis}), bounds"
            f" {least:,.0f} to {most:,.0f}"
        )


def _measured_cost(
    plan: Plan, model: Denoiser, cells: Sequence[CellName], progress: Callable[[str], None]
) -> tuple[EstimatedCost, list[float]]:
    """The cost of a model's cells together, and for each task the seconds of a forward for each
    row.
    """
    costs = []
    forward = []
    for category in dict.fromkeys(cell.category for cell in cells):
        of_category = [cell for cell in cells if cell.category == category]
        probe = _probe(plan, model, of_category, progress)
        for asked in _asked_apart(of_category):
            task = asked[0].task
            progress(f"timing forwards of {task}")
            samples = plan.task_of(asked[0]).samples
            seconds, tokens = _forward_cost(model, samples, plan.settings.rows)
            forward.append(seconds)
            for cell in asked:
                seeds = len(plan.settings.seed)
                costs.append(
                    _cost(cell.sampler, samples, model.block, seeds, probe, seconds, tokens)
                )
    return EstimatedCost(*(sum(parts) for parts in zip(*costs, strict=True))), forward


def _asked_apart(cells: Iterable[CellName]) -> list[list[CellName]]:
    """The cells of each task at each level of the run's factors, which may ask it differently."""
    apart: dict[tuple[str, str], list[CellName]] = {}
    for cell in cells:
        apart.setdefault((cell.task, cell.level), []).append(cell)
    return list(apart.values())


def _cost(
    sampler: Sampler,
    samples: Sequence[Sample],
    block: int | None,
    seeds: int,
    probe: ProbedSample,
    each: float,
    whole: float,
) -> EstimatedCost:
    """The cost of a cell.

    Args:
        block: of a block model.
        seeds: how many answers each sample gets.
        probe: what a sample of its category took.
        each: seconds of a forward for each row.
        whole: tokens that a forward computes for each row where the sampler was not probed.
    """
    rate = probe.rates.get(sampler)
    fixed = 0
    adaptive = np.zeros(3)
    calls = 0.0
    rows = 0.0
    for tokens, bounds, count in counted_bounds(sampler, samples, block):
        answers = seeds * count
        if sampler.asks:
            calls += answers * probe.rates[sampler] * tokens
            rows += answers * probe.rows[sampler] * tokens
        elif bounds.exact:
            fixed += answers * bounds.low
        else:
            guess = bounds.guess
            if rate is not None:
                guess = min(max(rate * tokens, bounds.low), bounds.high)
            adaptive += answers * np.array([guess, bounds.low, bounds.high])
    left = probe.computed if sampler in probe.shareable else 1.0
    # At most, nothing is shared.
    computed = np.array([left, left, 1.0]) * (fixed + adaptive) + rows
    unprobed = bool(adaptive.any()) and rate is None
    tokens = probe.tokens.get(sampler, whole) * (fixed + adaptive[0] + calls)
    return EstimatedCost(
        seeds * len(samples),
        fixed,
        adaptive,
        calls,
        rows,
        tokens,
        computed[0],
        computed * each,
        unprobed,
    )


def _probe(
    plan: Plan, model: Denoiser, cells: Sequence[CellName], progress: Callable[[str], None]
) -> ProbedSample:
    """Decodes the first sample of the category's first task with each of its samplers, sharing
    forwards, for at most PATIENCE seconds; without sharing those alone whose forwards aren't known.
    Samplers that ask about what-if rows are decoded in any case, as no bound holds for their rows,
    and those with a cache for their tokens forwarded.
    """
    settings = plan.settings
    first = dict[Sampler, CellName]()
    for cell in cells:
        if cell.task == cells[0].task or cell.sampler.asks:
            first.setdefault(cell.sampler, cell)
    shared = [one for one in first if shareable(model, one.policy, one.name)]
    store = ForwardStore(model) if shared else None
    rates = {}
    rows = {}
    forwarded = {}
    begun = perf_counter()
    for sampler, cell in first.items():
        if perf_counter() - begun > PATIENCE and not sampler.asks:
            continue
        progress(f"a question of {cell.task} with {sampler}")
        sample = plan.task_of(cell).samples[0]
        tokens = max(1, masked_tokens(sample))
        cached = sampler.name.cache is not None
        exact = bounds_of(sampler, sample, model.block).exact
        if settings.sharing or cached or not exact:
            (answer,) = decode(model, [sample], sampler, seed=settings.seed[0], store=store)
            rates[sampler] = (answer.nfe or 0) / tokens
            rows[sampler] = (answer.rows or 0) / tokens
            forwarded[sampler] = _tokens_a_forward([answer])
    if store is None or not settings.sharing:
        return ProbedSample(rates, rows, forwarded, 1.0, frozenset())
    asked = store.shared + store.computed
    left = store.computed / asked if asked else 1.0
    return ProbedSample(rates, rows, forwarded, left, frozenset(shared))


def forward_seconds(model: Denoiser, samples: Sequence[Sample], batch_size: int | None) -> float:
    """Seconds of a forward for each row, the loop included, as `_forward_cost` measures them.

    Args:
        model: loaded.
        samples: their canvases are forwarded.
        batch_size: rows of a forward; None: as `decode` chooses.
    """
    seconds, _ = _forward_cost(model, samples, batch_size)
    return seconds


def _tokens_a_forward(answers: Sequence[Generation]) -> float:
    """Tokens forwarded for each forward of a row; NaN where the model doesn't count them."""
    tokens = 0
    nfe = 0
    for answer in answers:
        if answer.tokens_forwarded is None:
            return nan
        tokens += answer.tokens_forwarded
        nfe += answer.nfe or 0
    return tokens / nfe if nfe else nan


def _forward_cost(
    model: Denoiser, samples: Sequence[Sample], batch_size: int | None
) -> tuple[float, float]:
    """Seconds of a forward for each row, the loop included (the median of TIMED times), and its
    tokens forwarded, of a batch of the run's size decoded in about STEPS steps.
    """
    from pbcore.models.device import wait_for

    batch = samples[: batch_size or batch_of(model, samples, "confidence-k1")]
    sampler = f"confidence-k{-(-max(map(masked_tokens, batch)) // STEPS) or 1}"
    decode(model, batch[:1], sampler)  # what is done once: kernels chosen, memory taken
    taken = []
    for _ in range(TIMED):
        start = perf_counter()
        answers = decode(model, batch, sampler, batch_size=batch_size)
        wait_for(model.device)
        taken.append((perf_counter() - start) / sum(answer.nfe or 1 for answer in answers))
    return median(taken), _tokens_a_forward(answers)
