"""Seconds of calls and of rows: a sampler with what-if rows beside one without, one answer at a
time and 32 together.

pytest -m speed benches/test_two_prices.py -s
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import pytest

import pbcore

PLAIN = "eb-0.1"
ASKING = "spec-8"
ROUNDS = 3
SAMPLES = 32


@pytest.mark.speed
@pytest.mark.parametrize("batch", [1, 32])
def test_seconds_per_call_and_per_row(
    batch: int, pytestconfig: pytest.Config, benchmark: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """`tiny` on shuffles, rounds interleaved: prints calls, rows and milliseconds of each per
    answer, and the ratio.
    """
    model = pbcore.load_model("tiny", device="cuda" if pytestconfig.getoption("--gpu") else "cpu")
    task = pbcore.load_task("waiting_line/shuffle", limit=SAMPLES)
    seconds: dict[str, list[float]] = {PLAIN: [], ASKING: []}
    calls = dict.fromkeys(seconds, 0.0)
    rows = dict.fromkeys(seconds, 0.0)

    def run() -> None:
        for sampler, spent in seconds.items():
            start = time.perf_counter()
            answers = pbcore.decode(model, task.samples, sampler, batch_size=batch)
            spent.append((time.perf_counter() - start) / len(answers))
            calls[sampler] = sum(answer.nfe or 0 for answer in answers) / len(answers)
            rows[sampler] = sum(answer.rows or 0 for answer in answers) / len(answers)

    benchmark.pedantic(run, rounds=ROUNDS, warmup_rounds=1)
    assert calls[ASKING] < calls[PLAIN]
    assert rows[ASKING] > rows[PLAIN]
    each = {sampler: 1000 * statistics.median(spent) for sampler, spent in seconds.items()}
    with capsys.disabled():
        print()
        for sampler, ms in each.items():
            print(
                f"batch {batch:2}  {sampler:8} {calls[sampler]:5.2f} calls  {rows[sampler]:5.1f}"
                f" rows  {ms:6.1f} ms an answer, {ms / calls[sampler]:5.1f} a call,"
                f" {ms / rows[sampler]:5.2f} a row"
            )
        print(
            f"batch {batch:2}  {ASKING} takes {each[ASKING] / each[PLAIN]:.2f} times the seconds of"
            f" {PLAIN}"
        )
