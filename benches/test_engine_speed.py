"""What the loop itself costs, and what batching brings, on a small random Llama: ratios measured
side by side in one run.
"""

from __future__ import annotations

import random
import statistics
import time
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor

from fixtures.llama import MASK, VOCABULARY
from pbcore.decoding import decode, denoise, resolve
from pbcore.decoding.samplers import of_name
from pbcore.models import load_model, model_names
from pbcore.models.base import Context, Denoiser, Query, Request
from pbcore.tasks import Sample, load_task

PROMPT = 120
NEW = 32
ROWS = 64
ROUNDS = 3
SIZES = (1, 2, 4, 8, 16, 32, 64)


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
    ids = torch.randint(
        2, VOCABULARY, (count, PROMPT), generator=torch.Generator().manual_seed(0)
    ).tolist()
    return [Request(tuple(row), (MASK,) * NEW, key) for key, row in enumerate(ids)]


@pytest.mark.speed
@pytest.mark.parametrize("sampler", ["confidence-k1", "entropy-k4", "threshold-0.9", "klass-0.9"])
def test_loop_cost(
    random_llama: Denoiser, benchmark: Any, capsys: pytest.CaptureFixture[str], sampler: str
) -> None:
    """Decoding's time over the time of its forwards alone: the loop adds little."""
    name = resolve(sampler).name
    ratios = []

    def run() -> None:
        clock = Clock(random_llama)
        start = time.perf_counter()
        denoise(clock, requests(8), of_name(name).policy, name)  # type: ignore[arg-type]
        ratios.append((time.perf_counter() - start) / clock.seconds)

    benchmark.pedantic(run, rounds=3, warmup_rounds=1)
    ratio = statistics.median(ratios[1:])
    benchmark.extra_info["decoding_over_forwards"] = round(ratio, 3)
    with capsys.disabled():
        print(f"\n{sampler}, batch 8: decoding takes {ratio:.2f} × its bare forwards", end="")


@pytest.mark.speed
@pytest.mark.parametrize("which", ["random_llama", "tiny"])
def test_batch_size(
    request: pytest.FixtureRequest, benchmark: Any, capsys: pytest.CaptureFixture[str], which: str
) -> None:
    """Samples per second over those of batch 1, by batch size, interleaved; prompts are ragged, and
    the answers stay the same.

    The default of `decode` (pbcore.decoding.batch_size.CPU) is read off this table.
    """
    if which == "tiny" and which not in model_names():
        pytest.skip("the trained model tiny is not part of this installation")
    device = "cuda" if request.config.getoption("--gpu") else "cpu"
    model = load_model("tiny", device=device) if which == "tiny" else request.getfixturevalue(which)
    prompts = tasks("waiting_line/shuffle", "puzzle/sudoku") if which == "tiny" else ragged(ROWS)
    seconds: dict[int, list[float]] = {size: [] for size in SIZES}
    answers: dict[int, list[tuple[int, ...]]] = {}

    def run() -> None:
        for size, seen in seconds.items():
            start = time.perf_counter()
            found = decode(model, prompts, "confidence-k8", max_new_tokens=NEW, batch_size=size)
            if model.device.type == "cuda":
                torch.cuda.synchronize()
            seen.append(time.perf_counter() - start)
            answers[size] = [generation.token_ids for generation in found]

    benchmark.pedantic(run, rounds=ROUNDS, warmup_rounds=1)
    if model.device.type == "cpu":  # on a GPU kernels differ by shape, and so may the last bits
        assert all(answer == answers[1] for answer in answers.values())
    alone = statistics.median(seconds[1][1:])
    ratios = {size: round(alone / statistics.median(seen[1:]), 2) for size, seen in seconds.items()}
    benchmark.extra_info["samples_per_second_over_batch_1"] = {
        str(size): ratio for size, ratio in ratios.items()
    }
    with capsys.disabled():
        shown = ", ".join(f"{ratio:.2f} × at {size}" for size, ratio in ratios.items() if size > 1)
        print(f"\n{which}, {len(prompts)} ragged prompts, samples/s over batch 1: {shown}", end="")


def ragged(count: int) -> list[list[int]]:
    """Prompts of 40 to 120 random token ids."""
    draw = random.Random(0)
    return [
        [draw.randrange(2, VOCABULARY) for _ in range(draw.randint(40, PROMPT))]
        for _ in range(count)
    ]


def tasks(*names: str) -> list[Sample]:
    """The same number of samples of each task, in turns: their prompts differ in length."""
    each = [load_task(name, limit=ROWS // len(names)).samples for name in names]
    return [sample for group in zip(*each, strict=True) for sample in group]
