"""The tables of docs/which-sampler.md: `python benches/which_sampler.py --limit 50`.

Every registered sampler that the model can run, with its default parameters (two tokens a step
where it takes their number), and some with modifiers. `ideal-mi`, which differs by its oracle for
attention, runs those that `ideal` can't. Per model a row for each: accuracy in % and mean forwards
(calls) per task, and calls and rows added up. A winner is the sampler of fewest calls, or rows, of
those whose accuracy the paired 95 % interval doesn't tell from that of one token at a time from
below; those whose calls its interval doesn't tell from the winner's stand beside it.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from statistics import fmean

from tabulate import tabulate

import pbcore
from pbcore.analysis.paired import interval
from pbcore.decoding import resolve
from pbcore.decoding.cli import described
from pbcore.decoding.policies import policies
from pbcore.decoding.samplers import is_static
from pbcore.results.stats import graded_interval
from pbcore.tasks.base import Task
from pbcore.tasks.naming import short

BASE = "confidence-k1"
MOST = 4  # samplers named beside a winner
TASKS = (
    "waiting_line/copy",
    "waiting_line/shuffle",
    "waiting_line/replace_random",
    "puzzle/latin_square",
)
MODELS = ("ideal", "ideal-mi", "tiny")
FURTHER = (
    BASE,
    "confidence-k4",
    "confidence-k2+adas40",
    "confidence-k2+rcr",
    "confidence-k2+rcr-max",
    "confidence-k2+remdm1",
    "confidence-k2+remdm1-early",
    "threshold-0.6",
    "threshold-0.9+adas40",
    "threshold-0.9+counts",
    "threshold-0.0+counts+gap2",
    "eb-0.1+counts",
    "spec-8-lossless",
    "joint-0.7-edit0.5",
    "axon-1-cover",
)


@dataclass(frozen=True, slots=True)
class Measured:
    """One sampler on one task: score, calls and rows of each sample, in order."""

    scores: Sequence[float]
    calls: Sequence[float]
    rows: Sequence[float]


def samplers() -> list[str]:
    """What is measured: all policies but the decoders of block models' authors and those that need
    such models.
    """
    names = [item.name for item in described() if item.group not in ("blocks", "modifiers")]
    plain = [str(resolve(f"{name}-k2" if is_static(policies()[name]) else name)) for name in names]
    return list(dict.fromkeys([*(str(resolve(name)) for name in FURTHER), *plain]))


def measured(model: object, task: Task, sampler: str, batch_size: int) -> Measured:
    """Decodes and scores all samples of a task. Raises ValueError if the model can't run the
    sampler.
    """
    answers = pbcore.decode(model, task.samples, sampler, batch_size=batch_size)
    scored = zip(task.samples, answers, strict=True)
    scores = [
        task.score(answer.text, sample, metrics=[task.headline])[task.headline]
        for sample, answer in scored
    ]
    return Measured(scores, [one.nfe or 0 for one in answers], [one.rows or 0 for one in answers])


def table(
    name: str, tasks: Sequence[Task], chosen: Sequence[str], batch_size: int
) -> dict[str, list[Measured]]:
    """Measures the samplers that a model can run; prints their table."""
    model = pbcore.load_model(name)
    found = dict[str, list[Measured]]()
    refused = list[str]()
    for sampler in chosen:
        try:
            found[sampler] = [measured(model, task, sampler, batch_size) for task in tasks]
        except ValueError:
            refused.append(sampler)
    lines = [
        [
            sampler,
            *(f"{100 * fmean(one.scores):.0f} / {fmean(one.calls):.1f}" for one in each),
            *totals(each),
        ]
        for sampler, each in sorted(found.items(), key=lambda item: totals(item[1]))
    ]
    heads = [f"{name}: sampler", *(short(task.name) for task in tasks), "calls", "rows"]
    print("\n" + tabulate(lines, headers=heads, tablefmt="pipe", floatfmt=".1f"))
    print(f"\n{name} can't run {', '.join(refused) or 'none'} of these.\n", flush=True)
    return found


def totals(each: Sequence[Measured]) -> tuple[float, float]:
    """Mean calls and rows, added up over tasks."""
    return sum(fmean(one.calls) for one in each), sum(fmean(one.rows) for one in each)


def winners(found: Mapping[str, Sequence[Measured]], place: int) -> list[list[str]]:
    """Lines on the task in that place: the winner by calls and by rows, its score, and who stands
    beside it.
    """
    base = found[BASE][place]
    lines = []
    each = {sampler: measurements[place] for sampler, measurements in found.items()}
    good = {name: one for name, one in each.items() if change(one, base)[1] >= 0}
    for price in ("calls", "rows"):
        cost = attrgetter(price)
        name = min(good, key=lambda name: (fmean(cost(good[name])), len(name), name))
        one = good[name]
        low_high = change(good[name], base)
        beside = [
            other for other in good if other != name and not dearer(cost(good[other]), cost(one))
        ]
        lines.append(
            [
                price,
                name,
                (
                    f"{100 * fmean(one.scores):.0f},"
                    f" {100 * (fmean(one.scores) - fmean(base.scores)):+.0f}"
                    f" [{100 * low_high[0]:+.0f}, {100 * low_high[1]:+.0f}]"
                ),
                amount(cost(one)),
                ", ".join(beside[:MOST]) + f" and {len(beside) - MOST} more" * (len(beside) > MOST)
                or "–",
            ]
        )
    return [["both", *lines[0][1:]]] if lines[0][1:] == lines[1][1:] else lines


def change(head: Measured, base: Measured) -> tuple[float, float]:
    """The paired interval of the difference in accuracy."""
    differences = [a - b for a, b in zip(head.scores, base.scores, strict=True)]
    return interval(differences, binary=True)


def dearer(head: Sequence[float], base: Sequence[float]) -> bool:
    """Whether the paired interval of the difference of calls or rows is above 0."""
    differences = [a - b for a, b in zip(head, base, strict=True)]
    widest = max(1.0, *(abs(d) for d in differences))
    return graded_interval(differences, -widest, widest)[0] > 0


def amount(values: Sequence[float]) -> str:
    """A mean with its 95 % interval."""
    low, high = graded_interval(values, 0.0, 2 * max(values))
    return f"{fmean(values):.2f} [{low:.2f}, {high:.2f}]"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--limit", type=int, default=50, help="samples of each task")
    parser.add_argument(
        "--model", action="append", help=f"a model; several times for several (default: {MODELS})"
    )
    parser.add_argument(
        "--sampler", action="append", help="a sampler beside one token at a time (default: all)"
    )
    parser.add_argument("--batch-size", type=int, default=50)
    args = parser.parse_args(arguments)
    tasks = [pbcore.load_task(name, limit=args.limit) for name in TASKS]
    chosen = samplers() if args.sampler is None else [BASE, *args.sampler]
    lines = list[list[str]]()
    known = set[str]()
    for name in args.model or MODELS:
        new = [
            sampler
            for sampler in chosen
            if name != "ideal-mi" or sampler == BASE or sampler not in known
        ]
        found = table(name, tasks, new, args.batch_size)
        known |= set(found)
        for place, task in enumerate(tasks):
            lines += [[name, short(task.name), *line] for line in winners(found, place)]
    heads = (
        "model",
        "task",
        "fewest",
        "winner",
        "accuracy, against one token at a time",
        "of them",
        "not told apart",
    )
    print(tabulate(lines, headers=heads, tablefmt="pipe", disable_numparse=True))


if __name__ == "__main__":
    main()
