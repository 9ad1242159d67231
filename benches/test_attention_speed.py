"""What reading attention weights costs: seconds and memory of forwards with it beside forwards
without, interleaved.

pytest -m speed benches/test_attention_speed.py -s
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
from pbcore.models.base import Denoiser, Request
from pbcore.models.memory import peak_memory

PROMPT = 200
NEW = 64
ROWS = 4
ROUNDS = 3
PLAIN = "confidence-k4"


@pytest.mark.speed
@pytest.mark.parametrize("sampler", ["confidence-k4+adas0", "dapd_clad-1.0-high1.0", "dawn-0.0"])
def test_attention(
    random_llama: Denoiser, benchmark: Any, capsys: pytest.CaptureFixture[str], sampler: str
) -> None:
    """The last layer; the last four; the last four with all columns and what each receives."""
    ids = torch.randint(
        2, VOCABULARY, (ROWS, PROMPT), generator=torch.Generator().manual_seed(0)
    ).tolist()
    requests = [Request(tuple(row), (MASK,) * NEW, key) for key, row in enumerate(ids)]
    each: dict[str, list[float]] = {PLAIN: [], sampler: []}
    added: dict[str, list[int]] = {text: [] for text in each}

    def run() -> None:
        for text, seconds in each.items():
            name = resolve(text).name
            with peak_memory(random_llama.device) as memory:
                start = time.perf_counter()
                answers = denoise(random_llama, requests, of_name(name).policy, name)
                if random_llama.device.type == "cuda":
                    torch.cuda.synchronize()
                taken = time.perf_counter() - start
            seconds.append(taken / max(answer.nfe or 0 for answer in answers))
            added[text].append(memory.added)
            assert not {MASK} & {token for answer in answers for token in answer.token_ids}

    benchmark.pedantic(run, rounds=ROUNDS, warmup_rounds=1)
    ratio = statistics.median(each[sampler]) / statistics.median(each[PLAIN])
    plain, read = (
        max(added[text][1:]) / 2**20 for text in each
    )  # the first round loads what libraries need once
    with capsys.disabled():
        print(
            f"\n{sampler}: {ratio:.2f} times the seconds of a forward without attention; "
            f"decoding adds {read:.0f} MiB at its peak, without attention {plain:.0f}"
        )
