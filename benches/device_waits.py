"""Prints how often a step waits for the device, by sampler, and how many kernels it runs beside the
network's forward: `python -m benches.device_waits [--model tiny] [SAMPLER …] [--lines]`. With
`--write` the counts of a call become the table by which prices of GPUs are computed,
pbcore/costs/data/own_work.yaml; `--network` prints the kernels of a network's forward.

Counted on the pseudo-GPU of tests/pseudo_gpu.py, so any machine prints the same table. Each sampler
decodes four samples of a task; what a batch of one step takes is its start and end, and left out.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
import yaml

from pbcore.base.tabular import Code, Table, Value, markdown
from pbcore.decoding import decode, resolve
from pbcore.decoding.policies import policies
from pbcore.decoding.protocol import traits
from pbcore.decoding.samplers import is_static
from pbcore.models import load_model
from pbcore.models.architecture import architecture
from pbcore.models.base import Generation, Model
from pbcore.models.checkpoints import random_weights
from pbcore.models.families import read_config
from pbcore.models.network import NativeNetwork
from pbcore.tasks import load_task
from pbcore.tasks.base import Sample
from tests.pseudo_gpu import Counts, PseudoGpu, pseudo_device

TOKENS = 32
ROWS = 4
FEW = 3  # calls by which a longer answer must differ from a shorter one
WRITTEN = Path("pbcore/costs/data/own_work.yaml")
BLOCK_MODEL = Path("tests/reference/sdar-tiny")
BLOCK_IDS = {"mask_id": 510, "eos_id": 509}
# Counted for the table of prices beside `every_sampler`: each modifier on its base, and blocks
# of 8 where a cache needs them.
PRICED = [
    "confidence-k2+b8+prefix",
    "confidence-k2+b8+dual",
    *[
        f"confidence-k2+{modifier}"
        for modifier in (
            "adas1",
            "counts",
            "eos_last",
            "eos_stop",
            "gap2",
            "no_early_eos",
            "rcr",
            "rcr-max",
            "remdm2",
            "remdm2-early",
            "rounding+t1.0",
            "t1.0",
        )
    ],
]
MODIFIED = [
    "confidence-k2+t1.0",
    "confidence-k2+b8+prefix",
    "confidence-k2+b8+dual",
    "threshold-0.9+b8+dual",
    "confidence-k2+rcr",
    "confidence-k2+remdm2",
    "threshold-0.9+adas1",
    "threshold-0.9+eos_last",
]


class Waits(NamedTuple):
    """Of one sampler: its steps, and a step's waits, those in the network's forward, and kernels
    beside the network's.
    """

    steps: int
    waits: float
    network: float
    kernels: float
    counts: Counts


def measure(gpu: PseudoGpu, model: Model, samples: Sequence[Sample], sampler: str) -> Waits:
    """The mean over a batch's steps, without its start and end."""
    prompts = [sample.messages for sample in samples[:ROWS]]
    with gpu.counting() as ends:
        few = decode(model, prompts, sampler, max_new_tokens=resolve(sampler).name.block or 1)
    with gpu.counting() as whole:
        rows = decode(model, prompts, sampler, max_new_tokens=TOKENS)
    steps = _steps(rows)
    more = max(1, steps - _steps(few))
    return Waits(
        steps=steps,
        waits=(whole.waits() - ends.waits()) / more,
        network=(whole.waits(network=True) - ends.waits(network=True)) / more,
        kernels=(whole.kernels(network=False) - ends.kernels(network=False)) / more,
        counts=whole,
    )


def _steps(rows: Sequence[Generation]) -> int:
    """The steps of a batch."""
    return max(max(row.steps) for row in rows) + 1


def every_sampler() -> list[str]:
    """All policies with their default parameters, and some modifiers; none for block models."""
    plain = [
        name + ("-k2" if is_static(cls) else "")
        for name, cls in policies().items()
        if "causal" not in traits(cls).needs
    ]
    return [*plain, *MODIFIED]


def block_samplers() -> list[str]:
    """The policies that only block models run, with their default parameters."""
    return [name for name, cls in policies().items() if "causal" in traits(cls).needs]


def of_a_call(
    gpu: PseudoGpu, model: Model, prompts: Sequence[Any], sampler: str
) -> tuple[float, float]:
    """Kernels beside the network's and waits of one call: of a longer answer minus a shorter one,
    so that what a batch does once is left out.
    """
    name = resolve(sampler).name
    counts = []
    for length in (name.block or 8, TOKENS):
        with gpu.counting() as count:
            rows = decode(model, prompts, name, max_new_tokens=length)
        calls = max(row.nfe or 0 for row in rows)
        counts.append((calls, count.kernels(network=False), count.waits()))
    (few, *short), (many, *long) = counts
    if many - few < FEW:  # too few to tell start and end apart
        few, short = 0, [0, 0]
    between = max(1, many - few)
    kernels, waits = ((more - less) / between for less, more in zip(short, long, strict=True))
    return max(0.0, kernels), max(0.0, waits)


def own_work(gpu: PseudoGpu, samples: Sequence[Sample]) -> Iterator[tuple[str, float, float]]:
    """Sampler, kernels and waits of a call, of all that prices are computed from."""
    model = load_model("tiny", device="cuda", dtype="float32")
    prompts = [sample.messages for sample in samples[:ROWS]]
    for sampler in dict.fromkeys([*every_sampler(), *PRICED]):
        yield sampler, *of_a_call(gpu, model, prompts, sampler)
    del model
    block_model = load_model(str(BLOCK_MODEL), device="cuda", dtype="float32", **BLOCK_IDS)
    ids = [list(range(5, 37))] * ROWS
    for sampler in block_samplers():
        yield sampler, *of_a_call(gpu, block_model, ids, sampler)


def write_own_work(gpu: PseudoGpu, samples: Sequence[Sample]) -> None:
    """Writes the table of prices of own work."""
    rows = {
        str(resolve(sampler)): {"kernels": round(kernels, 1), "waits": round(waits, 1)}
        for sampler, kernels, waits in own_work(gpu, samples)
    }
    head = (
        "# Of one call of the network: kernels that the sampler runs beside it, and waits of the\n"
        "# host for the device. Counted by `python -m benches.device_waits --write`.\n"
    )
    text = yaml.safe_dump({"samplers": rows}, sort_keys=True)
    WRITTEN.write_text(head + text, encoding="utf-8")
    print(f"{len(rows)} samplers written to {WRITTEN}")


def print_network(gpu: PseudoGpu, samples: Sequence[Sample]) -> None:
    """Prints the kernels of a layer, and those of a forward beside its layers: of `tiny`'s shape
    with two and with four layers of random weights.
    """
    prompts = [sample.messages for sample in samples[:ROWS]]
    tiny: Any = load_model("tiny", device="cuda", dtype="float32")
    config = read_config(Path("pbcore/models/tiny"))
    kernels = []
    for layers in (2, 4):
        shaped = architecture(config, "tiny", layers)
        module = random_weights(shaped, tiny.device, torch.float32, None)
        model = replace(tiny, network=NativeNetwork(module))
        with gpu.counting() as count:
            rows = decode(model, prompts, "confidence-k4", max_new_tokens=TOKENS)
        kernels.append(count.kernels(network=True) / max(row.nfe or 1 for row in rows))
    few, many = kernels
    print(f"kernels of a layer: {(many - few) / 2:g}; of a call beside: {2 * few - many:g}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("samplers", nargs="*", metavar="SAMPLER")
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--lines", action="store_true", help="list the lines that wait")
    parser.add_argument("--write", action="store_true", help=f"write {WRITTEN}")
    parser.add_argument("--network", action="store_true", help="kernels of a network's forward")
    options = parser.parse_args()
    samples = load_task("waiting_line/shuffle", n=6, limit=ROWS).samples
    if options.write or options.network:
        with pseudo_device() as gpu:
            if options.write:
                write_own_work(gpu, samples)
            if options.network:
                print_network(gpu, samples)
        return
    heads = ["sampler", "steps", "waits a step", "in the network", "kernels beside it"]
    rows: list[list[Value]] = []
    with pseudo_device() as gpu:
        model = load_model(options.model, device="cuda", dtype="float32")
        for sampler in options.samplers or every_sampler():
            found = measure(gpu, model, samples, sampler)
            row = [Code(sampler), found.steps, found.waits, found.network, round(found.kernels)]
            rows.append(row)
            if options.lines:
                print(sampler, found.counts, flush=True)
    print(markdown(Table(heads, rows, forms=".1f")))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
