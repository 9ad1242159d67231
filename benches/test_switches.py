"""What two switches of pbcore save, each on and off in turns: oneDNN's matrix products, and the
garbage collector, which is off until a run has collected its cells.

All times are processor time of one thread, so that what else runs on the machine matters less.
`pytest -m speed benches/test_switches.py -s` prints them.
"""

from __future__ import annotations

import copy
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from pbcore.decoding import decode
from pbcore.models import load_model
from pbcore.models.onednn import onednn_is_faster, with_onednn
from pbcore.tasks import load_task

ROUNDS = 11
STARTS = 3
COLLECT = """
import gc, sys, time
if sys.argv[1] == "off":
    gc.disable = lambda: None  # pbcore's switch does nothing
import pytest
code = pytest.main(["benches", "--collect-only", "-qq", "-p", "no:cacheprovider"])
print(time.process_time(), file=sys.stderr)
sys.exit(code)
"""

pytestmark = pytest.mark.speed


def turns(without: Callable[[], object], switched: Callable[[], object]) -> str:
    """Seconds without the switch and with it, medians of rounds in turns after one to warm up."""
    seconds: dict[bool, list[float]] = {False: [], True: []}
    for number in range(ROUNDS + 1):
        for on in (False, True) if number % 2 else (True, False):
            start = time.process_time()
            (switched if on else without)()
            if number:
                seconds[on].append(time.process_time() - start)
    times = [off / on for off, on in zip(seconds[False], seconds[True], strict=True)]
    off, on = (1000 * statistics.median(seconds[on]) for on in (False, True))
    return f"without {off:.1f} ms, with {on:.1f} ms: {statistics.median(times):.2f} times"


@pytest.fixture
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("one_thread")
def test_onednn(capsys: pytest.CaptureFixture[str]) -> None:
    """Decoding with `tiny`, and forwards of a Llama of width 1024 and four layers."""
    if not onednn_is_faster():
        pytest.skip("not an x86 processor of another maker than Intel")
    with torch.backends.mkldnn.flags(enabled=False):
        plain = load_model("tiny")
    tiny = load_model("tiny")
    samples = list(load_task("waiting_line/shuffle").samples)[:16]
    lines = []
    for rows in (1, 8, 16):
        part = samples[:rows]
        sides = (
            lambda model=model, part=part: decode(model, part, "confidence-k4", batch_size=16)
            for model in (plain, tiny)
        )
        lines.append(f"tiny, batches of {rows}: {turns(*sides)}")
    config = LlamaConfig(
        hidden_size=1024, intermediate_size=2816, num_hidden_layers=4, num_attention_heads=16
    )
    wide = LlamaForCausalLM(config).eval()
    fused = with_onednn(copy.deepcopy(wide))
    with torch.inference_mode():
        for rows in (1, 8):
            ids = torch.randint(0, 1000, (rows, 180))
            sides = (lambda model=model, ids=ids: model(ids) for model in (wide, fused))
            lines.append(f"width 1024, forwards of {rows} rows: {turns(*sides)}")
    with capsys.disabled():
        print("", *lines, sep="\n")


def test_collector(capsys: pytest.CaptureFixture[str]) -> None:
    """The start of a run of cells, until all are collected, in processes of their own."""
    seconds: dict[str, list[float]] = {"off": [], "on": []}
    for _ in range(STARTS):
        for switch, taken in seconds.items():
            done = subprocess.run(
                [sys.executable, "-c", COLLECT, switch],
                cwd=Path(__file__).parents[1],
                env={**os.environ, "OMP_NUM_THREADS": "1"},
                capture_output=True,
                text=True,
                check=True,
            )
            taken.append(float(done.stderr.split()[-1]))
    off, on = (statistics.median(taken) for taken in seconds.values())
    with capsys.disabled():
        print(f"\nstart of a run: without {off:.2f} s, with {on:.2f} s: {off / on:.2f} times")
