"""How long a grid takes on many workers, by simulation: `python benches/makespan.py --plot
docs/makespan.png`.

The scheduler is the real one, and its workers only pretend. A cell takes its forwards × the seconds
of one. Forwards that its sampler decides itself are drawn between their bounds (log-uniform,
seeded), or taken from a recorded run with `--recorded`; beforehand only the bounds are known, and
long cells are those that can take most. The bound on the makespan is what no order of whole cells
can beat: the greater of total / workers and the longest cell, after the model is loaded.
"""

from __future__ import annotations

import argparse
import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import exp, log
from operator import attrgetter
from pathlib import Path
from random import Random

import pandas as pd

from pbcore.base.tabular import MarkdownText, Table, markdown
from pbcore.decoding.samplers import resolve
from pbcore.grid.cellid import CellName
from pbcore.grid.cost import LEAST, forward_bounds, weights
from pbcore.grid.plan import make_plan, masked_tokens
from pbcore.grid.settings import Settings
from pbcore.plugin.collection import shard_of
from pbcore.plugin.scheduling import ModelScheduling
from pbcore.results import load

Cost = dict[CellName, float]  # seconds


@dataclass(eq=False)
class Pretended:
    """A worker: it runs an item once it knows the next one, or that there is none, as the
    scheduler's `ahead` asks.
    """

    ahead: int
    queue: list[int] = field(default_factory=list)
    running: bool = False
    shutting_down: bool = False

    def send_runtest_some(self, indices: Sequence[int]) -> None:
        self.queue += indices

    def shutdown(self) -> None:
        self.shutting_down = True

    @property
    def ready(self) -> bool:
        return (
            not self.running
            and bool(self.queue)
            and (len(self.queue) >= self.ahead or self.shutting_down)
        )


def scheduled(
    cells: Sequence[CellName], cost: Cost, workers: int, load: float, ahead: int
) -> float:
    """Seconds until the last cell is done, by the scheduler of -n (`ahead` 2) and --ray (1)."""
    ids = [str(number) for number in range(len(cells))]
    scheduler = ModelScheduling(
        workers, lambda node_id: (cells[int(node_id)].model, ""), print, ahead=ahead
    )
    nodes = [Pretended(ahead) for _ in range(workers)]
    for node in nodes:
        scheduler.add_node(node)
        scheduler.add_node_collection(node, ids)
    scheduler.schedule()
    ends: list[tuple[float, int]] = []
    clock = [load] * workers

    def start() -> None:
        for number, node in enumerate(nodes):
            if node.ready:
                node.running = True
                clock[number] += cost[cells[node.queue[0]]]
                heapq.heappush(ends, (clock[number], number))

    start()
    while ends:
        now, number = heapq.heappop(ends)
        nodes[number].running = False
        for idle, node in enumerate(nodes):
            if not node.running:
                clock[idle] = max(clock[idle], now)
        scheduler.mark_test_complete(nodes[number], nodes[number].queue.pop(0))
        start()
    return max(clock[number] for number in range(workers))


def sharded(cells: Sequence[CellName], cost: Cost, workers: int, load: float) -> float:
    """The same with --shard I/N: who runs what is fixed beforehand."""
    shards = (shard_of(cells, number, workers) for number in range(1, workers + 1))
    return load + max(sum(cost[cell] for cell in shard) for shard in shards)


def bound(cost: Cost, workers: int, load: float) -> float:
    return load + max(sum(cost.values()) / workers, max(cost.values()))


def costs(model: str, forward: float) -> tuple[Cost, Cost]:
    """The paper's grid for a model: what its cells take, and what they can take at most."""
    plan = make_plan(Settings(profile="paper", model=(model,)))
    most = weights(plan, attrgetter("high"))
    chance = Random(0)
    high = {name: most(name) / LEAST * forward for name in plan.items.values()}
    true = {}
    for name, seconds in high.items():
        rule = forward_bounds(name.sampler, masked_tokens(plan.task(name.task, model).samples[0]))
        true[name] = seconds * exp(chance.uniform(log(rule.low), log(rule.high))) / rule.high
    return true, high


def recorded(path: Path, hours: float) -> tuple[Cost, Cost]:
    """The cells of a run directory, or of a CSV file with the columns model, task, sampler and
    seconds, scaled to `hours` in all, and what they could take at most, on a scale of its own.
    """
    table = pd.read_csv(path) if path.suffix == ".csv" else load(path)
    names = [CellName(row.model, row.task, resolve(row.sampler)) for row in table.itertuples()]
    plan = make_plan(Settings(profile="paper", model=tuple(dict.fromkeys(table["model"]))))
    most = weights(plan, attrgetter("high"))
    scale = hours * 3600 / table["seconds"].sum()
    return dict(zip(names, table["seconds"] * scale, strict=True)), {
        name: most(name) for name in names
    }


def ways(cost: Cost, high: Cost, load: float) -> dict[str, Callable[[int], float]]:
    cells = list(cost)
    longest = sorted(cells, key=lambda cell: -high[cell])
    return {
        "one worker per model": lambda workers: load + sum(cost.values()),
        "`--shard I/N`": lambda workers: sharded(cells, cost, workers, load),
        "`-n N`": lambda workers: scheduled(cells, cost, workers, load, ahead=2),
        "one cell at a time, in the grid's order": lambda workers: scheduled(
            cells, cost, workers, load, ahead=1
        ),
        "`--ray`: one at a time, long cells first": lambda workers: scheduled(
            longest, cost, workers, load, ahead=1
        ),
        "samples of a cell split, too": lambda workers: load + sum(cost.values()) / workers,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0].strip())
    parser.add_argument("--model", default="llada-1.5", help="whose grid (default: llada-1.5)")
    parser.add_argument(
        "--forward",
        type=float,
        default=0.03,
        help="seconds of a forward of one row (default: 0.03)",
    )
    parser.add_argument(
        "--recorded",
        type=Path,
        metavar="RUN",
        help="take the cells' seconds from a run or a CSV file",
    )
    parser.add_argument(
        "--hours", type=float, default=50.0, help="what those are scaled to in all (default: 50)"
    )
    parser.add_argument(
        "--load", type=float, default=60.0, help="seconds to load the model (default: 60)"
    )
    parser.add_argument(
        "--workers", type=int, nargs="+", default=[1, 8, 64, 512], help="how many workers"
    )
    parser.add_argument(
        "--plot", type=Path, help="PNG to write: makespan over bound by the number of workers"
    )
    options = parser.parse_args()
    given = options.recorded
    cost, high = recorded(given, options.hours) if given else costs(options.model, options.forward)
    total = sum(cost.values())
    longest = max(cost.values())
    hours = f"{total / 3600:.1f} hours on one worker, the longest {longest:.0f} s"
    print(f"{given or options.model}: {len(cost):,} cells, {hours}\n")
    heads = ["hours until the last cell", *(f"{workers} workers" for workers in options.workers)]
    bounds = {workers: bound(cost, workers, options.load) for workers in options.workers}
    rows = [["bound", *(f"{bounds[workers] / 3600:.2f}" for workers in options.workers)]]
    for name, seconds in ways(cost, high, options.load).items():
        found = [(seconds(workers), bounds[workers]) for workers in options.workers]
        rows.append([MarkdownText(name), *(f"{s / 3600:.2f} ({s / b:.2f})" for s, b in found)])
    print(markdown(Table(heads, rows, "l" + "r" * len(options.workers))))
    if options.plot:
        draw(cost, high, options.load, options.plot)


def draw(cost: Cost, high: Cost, load: float, path: Path) -> None:
    from matplotlib.figure import Figure

    counts = [2**power for power in range(11)]
    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.subplots()
    for name, seconds in list(ways(cost, high, load).items())[1:5]:
        label = name.replace("`", "")
        axes.plot(
            counts,
            [seconds(n) / bound(cost, n, load) for n in counts],
            marker="o",
            markersize=3,
            label=label,
        )
    axes.set_xscale("log", base=2)
    axes.set_xticks(counts, [str(n) for n in counts])
    axes.set_xlabel("workers")
    axes.set_ylabel("makespan / bound")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
