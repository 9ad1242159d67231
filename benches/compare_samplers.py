"""Samplers side by side on the same samples: `python benches/compare_samplers.py spec-8 recheck-4 --against eb-0.1`.

For each task a row per sampler: headline score, forwards (calls), canvases forwarded (rows), and the paired difference
of the score to that of `--against`, in points with its 95 % interval (Tango's for binary scores, else bootstrap). The
last row adds up calls and rows over all tasks. `--data-seed` picks the questions, so that a sampler tuned on some is
judged on others.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

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


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the table, a task as soon as it is measured."""
    args = parsed(arguments)
    model = pbcore.load_model(args.model)
    samplers = list(dict.fromkeys([args.against, *args.samplers]))
    total = dict.fromkeys(samplers, (0.0, 0.0))
    print(f"{'task':32} {'sampler':32} {'score':>6} {'calls':>7} {'rows':>7}  difference to {args.against} in points")
    for name in args.task or pbcore.task_names():
        task = pbcore.load_task(name, limit=args.limit, seed=args.data_seed, n=args.n)
        base = None
        for sampler in samplers:
            found = measured(model, task, sampler, args.seed, args.batch_size)
            base = base or found
            change = difference(found, base)
            total[sampler] = total[sampler][0] + found.calls, total[sampler][1] + found.rows
            print(
                f"{short(name):32} {sampler:32} {found.mean:6.3f} {found.calls:7.2f} {found.rows:7.1f}  {change}",
                flush=True,
            )
    for sampler, (calls, rows) in total.items():
        share = calls / total[args.against][0]
        print(f"{'all tasks, added up':32} {sampler:32} {'':6} {calls:7.2f} {rows:7.1f}  {share:.2f} of its calls")


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("samplers", nargs="+", help="sampler names")
    parser.add_argument("--against", default="eb-0.1", help="the sampler that the others are compared with")
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--task", action="append", help="a task; several times for several (default: all 17)")
    parser.add_argument("--limit", type=int, default=30, help="samples of each task")
    parser.add_argument("--n", type=int, help="list length (default: the task's own)")
    parser.add_argument("--data-seed", type=int, default=0, help="the seed of the questions")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the decoding")
    parser.add_argument("--batch-size", type=int, default=32)
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
