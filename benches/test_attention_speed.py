"""What reading attention weights costs: seconds and memory of forwards with it beside forwards without, interleaved.

pytest -m speed benches/test_attention_speed.py -s
"""

from __future__ import annotations

import resource
import statistics
import time
from typing import Any

import pytest
import torch

from fixtures.llama import MASK, VOCABULARY
from pbcore.decoding import denoise, resolve
from pbcore.decoding.samplers import policy
from pbcore.models.base import Denoiser, Request

PROMPT, NEW, ROWS, ROUNDS = 200, 64, 4, 3
PLAIN = "confidence-k4"


@pytest.mark.speed
@pytest.mark.parametrize("sampler", ["confidence-k4+adas0", "dapd_clad-1.0-high1.0", "dawn-0.0"])
def test_attention(random_llama: Denoiser, benchmark: Any, capsys: pytest.CaptureFixture[str], sampler: str) -> None:
    """The last layer; the last four; the last four with all columns and what each receives."""
    ids = torch.randint(2, VOCABULARY, (ROWS, PROMPT), generator=torch.Generator().manual_seed(0)).tolist()
    requests = [Request(tuple(row), (MASK,) * NEW, key) for key, row in enumerate(ids)]
    each: dict[str, list[float]] = {PLAIN: [], sampler: []}
    peak = dict.fromkeys(each, 0)

    def run() -> None:
        for text, seconds in each.items():
            name = resolve(text)
            start = time.perf_counter()
            answers = denoise(random_llama, requests, policy(name), name)
            if random_llama.device.type == "cuda":
                torch.cuda.synchronize()
            seconds.append((time.perf_counter() - start) / max(answer.nfe or 0 for answer in answers))
            peak[text] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            assert not {MASK} & {token for answer in answers for token in answer.token_ids}

    benchmark.pedantic(run, rounds=ROUNDS, warmup_rounds=1)
    ratio = statistics.median(each[sampler]) / statistics.median(each[PLAIN])
    grown = (peak[sampler] - peak[PLAIN]) / 1024
    with capsys.disabled():
        print(
            f"\n{sampler}: {ratio:.2f} times the seconds of a forward without attention, {max(grown, 0):.0f} MiB more"
        )
