"""How PyTorch's threads do beside what else runs: forwards of `tiny` with one thread and with all,
spinning and asleep.

docs/ci.md has a table of it; on an idle machine the numbers are others.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from typing import Any

import psutil
import pytest

from pbcore.plugin.omp_wait_policy import OPENMP

ROUNDS = 3
SECONDS = 2
FORWARDS = f"""
import time, torch
from pbcore.models import load_model
from pbcore.models.network import Columns
network = load_model("tiny").network
ids = torch.randint(2, 1000, (8, 160), generator=torch.Generator().manual_seed(0))  # (R, T)
places = torch.arange(160).expand(8, 160)
with torch.inference_mode():
    network.hidden(Columns(ids, places))
    start, rows = time.perf_counter(), 0
    while time.perf_counter() < start + {SECONDS}:
        network.hidden(Columns(ids, places))
        rows += len(ids)
    print(rows / (time.perf_counter() - start))
"""


def rate(threads: int, policy: str | None) -> float:
    """Forwards of a row a second in a process of its own."""
    kept = {name: value for name, value in os.environ.items() if name not in OPENMP}
    chosen = {
        "OMP_NUM_THREADS": str(threads),
        **({} if policy is None else {"OMP_WAIT_POLICY": policy}),
    }
    done = subprocess.run(
        [sys.executable, "-c", FORWARDS],
        env=kept | chosen,
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)


@pytest.mark.speed
def test_threads(benchmark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """One thread, all, and all asleep while they wait; medians of interleaved rounds."""
    cores = psutil.cpu_count() or 1
    settings: dict[str, tuple[int, str | None]] = {
        "one thread": (1, None),
        f"{cores} threads": (cores, None),
        f"{cores} threads, PASSIVE": (cores, "PASSIVE"),
    }
    rates: dict[str, list[float]] = {name: [] for name in settings}

    def run() -> None:
        for name, setting in settings.items():
            rates[name].append(rate(*setting))

    load = os.getloadavg()[0]
    benchmark.pedantic(run, rounds=ROUNDS)
    benchmark.extra_info.update(
        {name: [round(one) for one in found] for name, found in rates.items()}
    )
    with capsys.disabled():
        shown = "; ".join(
            f"{name} {statistics.median(found):.0f} ({min(found):.0f}–{max(found):.0f})"
            for name, found in rates.items()
        )
        print(f"\nload {load:.1f} at the start, row-forwards/s: {shown}", end="")
