"""Prints how often a step waits for the device, by sampler, and how many kernels it runs beside the
network's forward: `python -m benches.device_waits [--model tiny] [SAMPLER …] [--lines]`.

Counted on the pseudo-GPU of tests/pseudo_gpu.py, so any machine prints the same table. Each sampler
decodes four samples of a task; what a batch of one step takes is its start and end, and left out.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import NamedTuple

from pbcore.decoding import decode, resolve
from pbcore.decoding.policies import policies
from pbcore.decoding.protocol import traits
from pbcore.decoding.samplers import is_static
from pbcore.models import load_model
from pbcore.models.base import Generation, Model
from pbcore.tasks import load_task
from pbcore.tasks.base import Sample
from tests.pseudo_gpu import Counts, PseudoGpu, pseudo_device

TOKENS = 32
ROWS = 4
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
        few = decode(model, prompts, sampler, max_new_tokens=resolve(sampler).block or 1)
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("samplers", nargs="*", metavar="SAMPLER")
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--lines", action="store_true", help="list the lines that wait")
    options = parser.parse_args()
    samples = load_task("waiting_line/shuffle", n=6, limit=ROWS).samples
    print("| sampler | steps | waits a step | in the network | kernels beside it |")
    print("|---|---|---|---|---|")
    with pseudo_device() as gpu:
        model = load_model(options.model, device="cuda", dtype="float32")
        for sampler in options.samplers or every_sampler():
            found = measure(gpu, model, samples, sampler)
            print(
                f"| `{sampler}` | {found.steps} | {found.waits:.1f} | {found.network:.1f} |"
                f" {found.kernels:.0f} |",
                flush=True,
            )
            if options.lines:
                print(found.counts)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
