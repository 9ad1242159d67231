"""Samplers side by side on the same samples: `python benches/compare_samplers.py spec-8 recheck-4
--against eb-0.1`.

For each task a row per sampler: headline score, forwards (calls), canvases forwarded (rows), and
the paired difference of the score to that of `--against`, in points with its 95 % interval (Tango's
for binary scores). The last row adds up calls and rows over all tasks. `--data-seed` picks the
questions, so that a sampler tuned on some is judged on others. `--verdict` says whether each
sampler can replace `--against` (on every task a score whose difference has its interval above −3
points, at most ⅔ of the calls in total, on each task at most 1.05 times them), and where it needs
fewer calls than all others without an error. `--figure FILE.png` draws the mean score over calls
and over rows, a row of panels per model.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pbcore
from pbcore.analysis.paired import interval
from pbcore.tasks.base import Task
from pbcore.tasks.naming import short
from pbcore.theory import supports

WORST, SHARE, MOST = (
    -0.03,
    2 / 3,
    1.05,
)  # of a fair replacement: lower ends of differences, calls in total, on a task


@dataclass(frozen=True, slots=True)
class Measured:
    """One sampler on one task: the score and the tokens of each sample, mean calls and mean
    rows.
    """

    scores: dict[int, float]
    answers: tuple[tuple[int, ...], ...]
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
    tasks = args.task or pbcore.task_names()
    if name.startswith("ideal"):
        tasks = [task for task in tasks if supports(task)]
    samplers = list(dict.fromkeys([args.against, *args.samplers]))
    each: dict[str, list[Measured]] = {sampler: [] for sampler in samplers}
    head = f"{name + ': task':32} {'sampler':32} {'score':>6} {'calls':>7} {'rows':>7}"
    print(f"{head}  difference to {args.against} in points")
    for task_name in tasks:
        task = pbcore.load_task(task_name, limit=args.limit, seed=args.data_seed, n=args.n)
        for sampler in samplers:
            found = measured(model, task, sampler, args.seed, args.batch_size)
            each[sampler].append(found)
            change = difference(found, each[args.against][-1])
            print(
                f"{short(task_name):32} {sampler:32} {found.mean:6.3f} {found.calls:7.2f}"
                f" {found.rows:7.1f}  {change}",
                flush=True,
            )
    totals = {sampler: added(measurements) for sampler, measurements in each.items()}
    for sampler, one in totals.items():
        share = one.calls / totals[args.against].calls
        print(
            f"{'all tasks':32} {sampler:32} {one.score:6.3f} {one.calls:7.2f} {one.rows:7.1f} "
            f" {share:.2f} of its calls"
        )
    for sampler in samplers[1:] if args.verdict else []:
        print(*verdict(sampler, args.against, [short(task) for task in tasks], each), sep="\n")
    return totals


def verdict(
    sampler: str, against: str, tasks: Sequence[str], each: Mapping[str, Sequence[Measured]]
) -> tuple[str, ...]:
    """Whether a sampler can replace `against`, and on which tasks no sampler without an error needs
    as few calls.
    """
    head = each[sampler]
    base = each[against]
    lowest = min((paired(*pair)[0], task) for *pair, task in zip(head, base, tasks, strict=True))
    share = sum(one.calls for one in head) / sum(one.calls for one in base)
    most = max(
        (one.calls / other.calls, task) for one, other, task in zip(head, base, tasks, strict=True)
    )
    fair = lowest[0] > WORST and share <= SHARE and most[0] <= MOST
    best = [  # fewest calls of another sampler without an error
        min(
            (runs[i].calls for name, runs in each.items() if name != sampler and runs[i].mean == 1),
            default=float("inf"),
        )
        for i in range(len(tasks))
    ]
    gaps = {
        task: one.calls - other
        for task, one, other in zip(tasks, head, best, strict=True)
        if one.mean == 1
    }
    fewer, more = ([task for task, gap in gaps.items() if sign * gap > 0] for sign in (-1, 1))
    same = sum(
        one == other
        for a, b in zip(head, base, strict=True)
        for one, other in zip(a.answers, b.answers, strict=True)
    )
    return (
        (
            f"{sampler} {'can' if fair else 'can not'} replace {against}: lower ends of differences"
            f" from {100 * lowest[0]:+.1f} points ({lowest[1]}), {share:.2f} of its calls, at most"
            f" {most[0]:.2f} of them on a task ({most[1]})"
        ),
        (
            f"{sampler}: {same} of {sum(len(one.answers) for one in head)} answers are those of"
            f" {against}; errors on {sum(one.mean < 1 for one in head)} of {len(tasks)} tasks;"
            f" fewer calls than all others without an error on {', '.join(fewer) or 'none'}, more"
            f" on {', '.join(more) or 'none'}"
        ),
    )


def added(each: Sequence[Measured]) -> Total:
    """Mean score over tasks; calls and rows added up."""
    return Total(
        sum(one.mean for one in each) / len(each),
        sum(one.calls for one in each),
        sum(one.rows for one in each),
    )


def draw(found: Mapping[str, Mapping[str, Total]], path: Path) -> None:
    """Score over calls and over rows, both added up over the tasks, log scale. Colour and marker
    are the policy's, as in every report; samplers of one policy differ in how their markers are
    filled.
    """
    from matplotlib.figure import Figure

    from pbcore.report.looks import marker_looks

    figure = Figure(figsize=(9, 3.4 * len(found)), layout="constrained")
    axes = figure.subplots(len(found), 2, sharey="row", squeeze=False)
    samplers = list(dict.fromkeys(sampler for totals in found.values() for sampler in totals))
    known = marker_looks(("", sampler) for sampler in samplers)
    for (model, totals), pair in zip(found.items(), axes, strict=True):
        for axis, field in zip(pair, ("calls", "rows"), strict=True):
            for sampler, one in totals.items():
                drawn = {"linestyle": "", "markersize": 8, "label": sampler, **known["", sampler]}
                axis.plot(getattr(one, field), 100 * one.score, **drawn)
            prices = [math.log2(getattr(one, field)) for one in totals.values()]
            axis.set_xscale("log", base=2)
            axis.set_xlim(2 ** (math.floor(min(prices)) - 0.1), 2 ** (math.ceil(max(prices)) + 0.1))
            axis.xaxis.set_major_formatter("{x:g}")
            axis.set_xlabel(f"{field}, added up over tasks")
            axis.grid(alpha=0.3)
        pair[0].set_ylabel(f"{model}: mean score (%)")
    axes[0][1].legend(fontsize=7, loc="center left", bbox_to_anchor=(1.01, 0.5))
    figure.savefig(path, dpi=120)


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("samplers", nargs="+", help="sampler names")
    parser.add_argument(
        "--against", default="eb-0.1", help="the sampler that the others are compared with"
    )
    parser.add_argument(
        "--model", action="append", help="a model; several times for several (default: tiny)"
    )
    parser.add_argument(
        "--task", action="append", help="a task; several times for several (default: all 17)"
    )
    parser.add_argument("--limit", type=int, default=30, help="samples of each task")
    parser.add_argument("--n", type=int, help="list length (default: the task's own)")
    parser.add_argument("--data-seed", type=int, default=0, help="the seed of the questions")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the decoding")
    parser.add_argument(
        "--verdict", action="store_true", help="say whether each sampler can replace --against"
    )
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument(
        "--figure", type=Path, metavar="FILE.png", help="draw score over calls and over rows"
    )
    return parser.parse_args(arguments)


def measured(model: object, task: Task, sampler: str, seed: int, batch_size: int) -> Measured:
    """Decodes and scores all samples of a task."""
    answers = pbcore.decode(model, task.samples, sampler, seed=seed, batch_size=batch_size)
    scores = {
        sample.index: task.score(answer.text, sample, metrics=[task.headline])[task.headline]
        for sample, answer in zip(task.samples, answers, strict=True)
    }
    calls, rows = (
        sum(getattr(one, price) or 0 for one in answers) / len(answers) for price in ("nfe", "rows")
    )
    return Measured(scores, tuple(one.token_ids or () for one in answers), calls, rows)


def difference(head: Measured, base: Measured) -> str:
    """The mean difference of the scores in points, with its paired 95 % interval."""
    low, high = paired(head, base)
    return f"{100 * (head.mean - base.mean):+6.1f} [{100 * low:+.1f}, {100 * high:+.1f}]"


def paired(head: Measured, base: Measured) -> tuple[float, float]:
    """The paired 95 % interval of the difference of the scores."""
    changes = [head.scores[index] - base.scores[index] for index in base.scores]
    return interval(changes, binary=set(changes) <= {-1.0, 0.0, 1.0})


if __name__ == "__main__":
    main()
