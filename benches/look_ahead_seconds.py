"""Seconds of a sampler alone and with `+aheadN`, one answer at a time, in turns in one run, on a
model whose weights don't fit this CPU's caches:

    python -m benches.look_ahead_seconds [--model tiny-block] [--megabytes 256] [--limit 2]

A small model computes from its processor's caches, where every row costs what the first one does.
Large ones read their weights from memory in every call, and a few rows more come with it. So the
feed-forward layers of the model are widened until its weights have so many megabytes: the further
inner columns compute as any others, and enter the output with weights of 0. So the answers stay the
same, which is checked first.

Every round decodes the same questions under every sampler, one after the other; printed are the
medians over rounds of seconds per answer, and their ratio to the sampler alone.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

import pbcore
from pbcore.base.tabular import Code, Table, Value, markdown
from pbcore.models.base import Generation
from pbcore.tasks.base import Sample

TASKS = ("waiting_line/shuffle", "text_writing/w2s_easy", "text_writing/paraphrasing")
MEGABYTE = 1 << 20


@dataclass(slots=True)
class Spent:
    """What a sampler took: seconds per answer of each round, calls and rows per answer."""

    seconds: list[float] = field(default_factory=list)
    calls: float = 0.0
    rows: float = 0.0


def size(module: nn.Module) -> int:
    """Bytes of a module's weights."""
    weights = {weight.data_ptr(): weight for weight in module.parameters()}
    return sum(weight.numel() * weight.element_size() for weight in weights.values())


def widen(module: Any, least: int) -> None:
    """Adds inner columns to the feed-forward layers until the weights have `least` bytes, in place:
    gate and up random, down 0.
    """
    layers = [layer.mlp for layer in module.model.layers]
    width = layers[0].gate_proj.weight.shape[1]  # H
    missing = max(0, least - size(module))
    columns = -(-missing // (3 * 4 * width * len(layers)))
    columns = -(-columns // 64) * 64
    generator = torch.Generator().manual_seed(0)
    for mlp in layers:
        for linear in (mlp.gate_proj, mlp.up_proj):
            more = torch.randn(columns, width, generator=generator) / width**0.5  # (I', H)
            linear.weight = _with(linear.weight, more, dim=0)
        down = mlp.down_proj
        down.weight = _with(down.weight, torch.zeros(width, columns), dim=1)


def _with(weight: Tensor, more: Tensor, dim: int) -> nn.Parameter:
    """A weight with `more` behind."""
    return nn.Parameter(torch.cat([weight, more.to(weight.dtype)], dim), requires_grad=False)


def answers(model: Any, samples: Sequence[Sample], sampler: str) -> list[Generation]:
    """The samples' answers, one at a time."""
    return pbcore.decode(model, samples, sampler, batch_size=1)


def tokens(runs: Sequence[Generation]) -> list[tuple[int, ...]]:
    """The tokens of answers."""
    return [run.token_ids for run in runs]


def in_turns(
    model: Any, samples: Sequence[Sample], samplers: Sequence[str], rounds: int
) -> Mapping[str, Spent]:
    """What each sampler takes, after one answer to warm up. Raises SystemExit if an answer differs
    from the first sampler's.
    """
    spent = {sampler: Spent() for sampler in samplers}
    expected = tokens(answers(model, samples, samplers[0]))
    for number in range(rounds):
        for sampler in samplers if number % 2 == 0 else reversed(samplers):
            start = time.perf_counter()
            runs = answers(model, samples, sampler)
            taken = spent[sampler]
            taken.seconds.append((time.perf_counter() - start) / len(runs))
            taken.calls = sum(run.nfe or 0 for run in runs) / len(runs)
            taken.rows = sum(run.rows or 0 for run in runs) / len(runs)
            if tokens(runs) != expected:
                raise SystemExit(f"{sampler} gives other answers than {samplers[0]}")
    return spent


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="tiny-block")
    parser.add_argument("--megabytes", type=int, default=256, help="least size of the weights")
    parser.add_argument("--sampler", default="eb-0.1")
    parser.add_argument("--widths", type=int, nargs="+", default=[2, 3, 4, 6, 8, 16])
    parser.add_argument("--task", action="append", help="default: " + ", ".join(TASKS))
    parser.add_argument("--limit", type=int, default=2, help="questions of each task")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    model: Any = pbcore.load_model(options.model)
    samples = [
        sample
        for task in options.task or TASKS
        for sample in pbcore.load_task(task, limit=options.limit, seed=21).samples
    ]
    module = model.network.module
    before = tokens(answers(model, samples, options.sampler))
    had = size(module)
    widen(module, options.megabytes * MEGABYTE)
    if tokens(answers(model, samples, options.sampler)) != before:
        raise SystemExit("the widened model gives other answers")
    print(
        f"{options.model}: {had / MEGABYTE:.0f} MiB of weights, widened to"
        f" {size(module) / MEGABYTE:.0f}: the same {len(before)} answers;"
        f" {torch.get_num_threads()} threads"
    )
    samplers = [options.sampler, *(f"{options.sampler}+ahead{n}" for n in options.widths)]
    spent = in_turns(model, samples, samplers, options.rounds)
    alone = statistics.median(spent[options.sampler].seconds)
    heads = ["sampler", "calls", "rows", "ms an answer", "ms a call", "ratio of seconds"]
    rows: list[list[Value]] = []
    for sampler, taken in spent.items():
        seconds = statistics.median(taken.seconds)
        row: list[Value] = [Code(sampler), taken.calls, taken.rows, 1000 * seconds]
        rows.append([*row, 1000 * seconds / taken.calls, seconds / alone])
    print(markdown(Table(heads, rows, forms=("", ".2f", ".1f", ".1f", ".1f", ".2f"))))


if __name__ == "__main__":
    main()
