"""What KV caches bring, and what they change: cached against uncached decoding of 64 new tokens
after a prompt of 200, side by side.

Random weights are sure of nothing, so the share of tokens that stay the same is a lower bound for a
trained model.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import pytest
import torch

from fixtures.llama import MASK, VOCABULARY
from pbcore.decoding import denoise, resolve
from pbcore.decoding.samplers import of_name
from pbcore.models.base import Denoiser, Generation, Request

PROMPT = 200
NEW = 64
ROWS = 4
ROUNDS = 3
CACHES = ("", "+prefix", "+dual")


def requests() -> list[Request]:
    """Rows of random token ids."""
    ids = torch.randint(
        2, VOCABULARY, (ROWS, PROMPT), generator=torch.Generator().manual_seed(0)
    ).tolist()
    return [Request(tuple(row), (MASK,) * NEW, key) for key, row in enumerate(ids)]


def agreement(ours: list[Generation], theirs: list[Generation]) -> float:
    """The share of positions with the same token."""
    pairs = [
        (a, b)
        for one, other in zip(ours, theirs, strict=True)
        for a, b in zip(one.token_ids, other.token_ids, strict=True)
    ]
    return sum(a == b for a, b in pairs) / len(pairs)


@pytest.mark.speed
@pytest.mark.parametrize("sampler", ["confidence-k2+b8", "confidence-k4+b32"])
def test_caches(
    random_llama: Denoiser, benchmark: Any, capsys: pytest.CaptureFixture[str], sampler: str
) -> None:
    """Speed over no cache (medians of interleaved rounds), and how many tokens stay the same;
    forwards are as many.
    """
    seconds: dict[str, list[float]] = {cache: [] for cache in CACHES}
    answers: dict[str, list[Generation]] = {}

    def run() -> None:
        for cache, seen in seconds.items():
            name = resolve(sampler + cache).name
            start = time.perf_counter()
            answers[cache] = denoise(random_llama, requests(), of_name(name).policy, name)
            if random_llama.device.type == "cuda":
                torch.cuda.synchronize()
            seen.append(time.perf_counter() - start)

    benchmark.pedantic(run, rounds=ROUNDS, warmup_rounds=1)
    for cache in CACHES[1:]:
        assert [answer.nfe for answer in answers[cache]] == [answer.nfe for answer in answers[""]]
        assert not {MASK} & {token for answer in answers[cache] for token in answer.token_ids}
    bare = statistics.median(seconds[""][1:])
    facts = {
        cache: {
            "speed_over_no_cache": round(bare / statistics.median(seconds[cache][1:]), 2),
            "same_tokens": round(agreement(answers[cache], answers[""]), 3),
        }
        for cache in CACHES[1:]
    }
    benchmark.extra_info.update(
        {"caches": facts, "prompt": PROMPT, "new_tokens": NEW, "rows": ROWS}
    )
    with capsys.disabled():
        for cache, fact in facts.items():
            speed = fact["speed_over_no_cache"]
            same = fact["same_tokens"]
            print(
                f"\n{sampler}{cache}, prompt {PROMPT}, {NEW} new tokens: {speed:.2f} × no cache,"
                f" {same:.1%} same tokens",
                end="",
            )
