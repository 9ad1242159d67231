"""What oneDNN's matrix products save: decoding with `tiny` and forwards of a wider model, with and
without them, in turns.

All times are processor time of one thread, so that what else runs on the machine matters less.
`pytest -m speed benches/test_onednn_speed.py -s` prints them.
"""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Callable, Iterator

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from pbcore.decoding import decode
from pbcore.models import load_model
from pbcore.models.onednn import onednn_is_faster, with_onednn
from pbcore.tasks import load_task

ROUNDS = 5

pytestmark = pytest.mark.speed


def turns(without: Callable[[], object], switched: Callable[[], object]) -> str:
    """Seconds without and with the products, medians of rounds in turns after one to warm up."""
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
        hidden_size=1024,
        intermediate_size=2816,
        num_hidden_layers=4,
        num_attention_heads=16,
        vocab_size=1000,
    )
    wide = LlamaForCausalLM(config).eval()
    fused = with_onednn(copy.deepcopy(wide))
    with torch.inference_mode():
        for rows in (1, 4):
            ids = torch.randint(0, 1000, (rows, 180))
            sides = (lambda model=model, ids=ids: model(ids) for model in (wide, fused))
            lines.append(f"width 1024, forwards of {rows} rows: {turns(*sides)}")
    with capsys.disabled():
        print("", *lines, sep="\n")
