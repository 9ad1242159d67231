"""What the loop itself costs, and what batching brings, on a small random Llama: ratios measured side by side in one run."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor

from fixtures.llama import MASK, VOCABULARY
from pbcore.decoding import denoise, resolve
from pbcore.decoding.samplers import policy
from pbcore.models.base import Context, Denoiser, Query, Request

PROMPT, NEW = 120, 32


@dataclass
class Clock:
    """A denoiser whose forwards are timed; everything else is the loop."""

    model: Any
    seconds: float = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def prepare(self, requests: list[Request], *, cache: str | None, seed: int) -> Context:
        return TimedContext(self.model.prepare(requests, cache=cache, seed=seed), self)


@dataclass
class TimedContext:
    context: Context
    clock: Clock
    keep: Any = field(init=False)

    def __post_init__(self) -> None:
        self.keep = self.context.keep

    def logits(self, query: Query) -> Tensor:
        start = time.perf_counter()
        logits = self.context.logits(query)
        if logits.is_cuda:
            torch.cuda.synchronize()
        self.clock.seconds += time.perf_counter() - start
        return logits


def requests(count: int) -> list[Request]:
    """Rows of random token ids."""
    ids = torch.randint(2, VOCABULARY, (count, PROMPT), generator=torch.Generator().manual_seed(0)).tolist()
    return [Request(tuple(row), (MASK,) * NEW, key) for key, row in enumerate(ids)]


@pytest.mark.speed
@pytest.mark.parametrize("sampler", ["confidence-k1", "entropy-k4", "threshold-0.9", "klass-0.9"])
def test_loop_cost(random_llama: Denoiser, benchmark: Any, capsys: pytest.CaptureFixture[str], sampler: str) -> None:
    """Decoding's time over the time of its forwards alone: the loop adds little."""
    name = resolve(sampler)
    ratios = []

    def run() -> None:
        clock = Clock(random_llama)
        start = time.perf_counter()
        denoise(clock, requests(8), policy(name), name)  # type: ignore[arg-type]
        ratios.append((time.perf_counter() - start) / clock.seconds)

    benchmark.pedantic(run, rounds=3, warmup_rounds=1)
    ratio = statistics.median(ratios[1:])
    benchmark.extra_info["decoding_over_forwards"] = round(ratio, 3)
    with capsys.disabled():
        print(f"\n{sampler}, batch 8: decoding takes {ratio:.2f} × its bare forwards", end="")


@pytest.mark.speed
def test_batching(random_llama: Denoiser, benchmark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Samples per second by batch size, interleaved; the answers are the same."""
    name = resolve("confidence-k4")
    rows = requests(16)

    def decode(size: int) -> tuple[list[tuple[int, ...]], float]:
        start = time.perf_counter()
        parts = [denoise(random_llama, rows[i : i + size], policy(name), name) for i in range(0, len(rows), size)]
        return [generation.token_ids for part in parts for generation in part], len(rows) / (
            time.perf_counter() - start
        )

    rates: dict[int, list[float]] = {1: [], 4: [], 16: []}
    answers = {}

    def run() -> None:
        for size, seen in rates.items():
            answers[size], rate = decode(size)
            seen.append(rate)

    benchmark.pedantic(run, rounds=1, warmup_rounds=1)
    assert all(answer == answers[1] for answer in answers.values())
    ratios = {size: statistics.median(seen[1:]) / statistics.median(rates[1][1:]) for size, seen in rates.items()}
    benchmark.extra_info["samples_per_second_over_batch_1"] = {
        str(size): round(ratio, 2) for size, ratio in ratios.items()
    }
    with capsys.disabled():
        print(
            "\nsamples/s over batch 1: "
            + ", ".join(f"{ratio:.2f} × at {size}" for size, ratio in ratios.items() if size > 1),
            end="",
        )
