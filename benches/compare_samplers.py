"""Samplers side by side on the same samples: `python benches/compare_samplers.py spec-8 recheck-4 --against eb-0.1`.

For each task a row per sampler: headline score, forwards (calls), canvases forwarded (rows), and the paired difference
of the score to that of `--against`, in points with its 95 % interval (Tango's for binary scores). The
last row adds up calls and rows over all tasks. `--data-seed` picks the questions, so that a sampler tuned on some is
judged on others. `--figure FILE.png` draws the mean score over calls and over rows, a row of panels per model.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pbcore
from pbcore.analysis.paired import interval
from pbcore.tasks.base import Task
from pbcore.tasks.naming import short


@dataclass(frozen=True, slots=True)
class Measured:
    """One sampler on one task: the score of each sample, mean calls and mean rows."""

    scores: dict[int, float]
    calls: float
    rows: float

    @property
    def mean(self) -> float:
        return sum(self.scores.values()) / len(self.scores)


@dataclass(frozen=True, slots=True)
class Total:
    """A sampler over all tasks: the mean score, and calls and rows added up."""

    score: float
    calls: float
    rows: float


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints a table per model, a task as soon as it is measured; draws the figure."""
    args = parsed(arguments)
    found = {name: table(name, args) for name in args.model or ["tiny"]}
    if args.figure:
        draw(found, args.figure)
        print(f"wrote {args.figure}")


def table(name: str, args: argparse.Namespace) -> dict[str, Total]:
    """Prints the table of one model, over the tasks that it can answer."""
    model = pbcore.load_model(name)
    supports = getattr(model, "supports", lambda task: True)
    samplers = list(dict.fromkeys([args.against, *args.samplers]))
    each: dict[str, list[Measured]] = {sampler: [] for sampler in samplers}
    head = f"{name + ': task':32} {'sampler':32} {'score':>6} {'calls':>7} {'rows':>7}"
    print(f"{head}  difference to {args.against} in points")
    for asked in filter(supports, args.task or pbcore.task_names()):
        task = pbcore.load_task(asked, limit=args.limit, seed=args.data_seed, n=args.n)
        for sampler in samplers:
            found = measured(model, task, sampler, args.seed, args.batch_size)
            each[sampler].append(found)
            change = difference(found, each[args.against][-1])
            print(
                f"{short(asked):32} {sampler:32} {found.mean:6.3f} {found.calls:7.2f} {found.rows:7.1f}  {change}",
                flush=True,
            )
    totals = {sampler: added(measurements) for sampler, measurements in each.items()}
    for sampler, one in totals.items():
        share = one.calls / totals[args.against].calls
        print(
            f"{'all tasks':32} {sampler:32} {one.score:6.3f} {one.calls:7.2f} {one.rows:7.1f}  {share:.2f} of its calls"
        )
    return totals


def added(each: Sequence[Measured]) -> Total:
    """Mean score over tasks; calls and rows added up."""
    return Total(
        sum(one.mean for one in each) / len(each), sum(one.calls for one in each), sum(one.rows for one in each)
    )


def draw(found: Mapping[str, Mapping[str, Total]], path: Path) -> None:
    """Score over calls and over rows, both added up over the tasks, log scale; a marker and colour per sampler."""
    from matplotlib.figure import Figure

    from pbcore.report.looks import COLOURS, MARKERS

    figure = Figure(figsize=(9, 3.4 * len(found)), layout="constrained")
    axes = figure.subplots(len(found), 2, sharey="row", squeeze=False)
    samplers = list(dict.fromkeys(sampler for totals in found.values() for sampler in totals))
    for (model, totals), pair in zip(found.items(), axes, strict=True):
        for axis, field in zip(pair, ("calls", "rows"), strict=True):
            for sampler, one in totals.items():
                number = samplers.index(sampler)
                look = {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)]}
                axis.plot(getattr(one, field), 100 * one.score, linestyle="", markersize=8, label=sampler, **look)
            axis.set_xscale("log", base=2)
            axis.xaxis.set_major_formatter("{x:g}")
            axis.set_xlabel(f"{field}, added up over tasks")
            axis.grid(alpha=0.3)
        pair[0].set_ylabel(f"{model}: mean score (%)")
    axes[0][1].legend(fontsize=7, loc="center left", bbox_to_anchor=(1.01, 0.5))
    figure.savefig(path, dpi=120)


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("samplers", nargs="+", help="sampler names")
    parser.add_argument("--against", default="eb-0.1", help="the sampler that the others are compared with")
    parser.add_argument("--model", action="append", help="a model; several times for several (default: tiny)")
    parser.add_argument("--task", action="append", help="a task; several times for several (default: all 17)")
    parser.add_argument("--limit", type=int, default=30, help="samples of each task")
    parser.add_argument("--n", type=int, help="list length (default: the task's own)")
    parser.add_argument("--data-seed", type=int, default=0, help="the seed of the questions")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the decoding")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--figure", type=Path, metavar="FILE.png", help="draw score over calls and over rows")
    return parser.parse_args(arguments)


def measured(model: object, task: Task, sampler: str, seed: int, batch_size: int) -> Measured:
    """Decodes and scores all samples of a task."""
    answers = pbcore.decode(model, task.samples, sampler, seed=seed, batch_size=batch_size)
    scores = {
        sample.index: task.score(answer.text, sample, metrics=[task.headline])[task.headline]
        for sample, answer in zip(task.samples, answers, strict=True)
    }
    count = len(answers)
    return Measured(scores, sum(one.nfe or 0 for one in answers) / count, sum(one.rows or 0 for one in answers) / count)


def difference(head: Measured, base: Measured) -> str:
    """The mean difference of the scores in points, with its paired 95 % interval."""
    changes = [head.scores[index] - base.scores[index] for index in base.scores]
    low, high = interval(changes, binary=set(changes) <= {-1.0, 0.0, 1.0})
    return f"{100 * (head.mean - base.mean):+6.1f} [{100 * low:+.1f}, {100 * high:+.1f}]"


if __name__ == "__main__":
    main()
