"""How often a step waits for the device: `python -m benches.device_waits` prints these counts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from benches.device_waits import measure, of_looking_ahead
from pbcore.decoding import decode
from pbcore.models import load_model
from pbcore.tasks import load_task
from tests.gpu.test_decoding import CHECKPOINTS, PROMPTS, checkpoint
from tests.pseudo_gpu import PseudoGpu, pseudo_device

MOST = {  # waits a step; joint draws (recheck, +counts) choose tokens on the host
    "confidence-k2": 1,
    "random-k2": 1,
    "confidence-k2+t1.0": 1,
    "threshold": 1,
    "klass": 1,
    "dawn": 1,
    "clad": 3,
    "meanfield": 2,
    "confidence-k2+b8+dual": 2,
    "threshold-0.9+b8+prefix": 2,
    "confidence-k2+rcr": 2,
    "wino": 2,
    "t2m": 2,
    "joint": 2,
    "lopa": 3,
    "freedave": 3,
    "spec": 4,
    "punt": 9,
    "recheck": 7,
}
QUICK = ["confidence-k2", "threshold", "confidence-k2+b8+dual", "spec"]


@pytest.fixture(scope="module")
def gpu() -> Iterator[PseudoGpu]:
    with pseudo_device() as device:
        yield device


@pytest.fixture(scope="module")
def tiny(gpu: PseudoGpu) -> Any:
    return load_model("tiny", device="cuda", dtype="float32")


@pytest.mark.parametrize(
    "sampler",
    [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in MOST],
)
def test_waits_of_a_step(sampler: str, tiny: Any, gpu: PseudoGpu) -> None:
    """One packed copy ends a step; what-if rows and the host's choices take one or two more."""
    samples = load_task("waiting_line/shuffle", n=6, limit=4).samples
    found = measure(gpu, tiny, samples, sampler)
    assert found.steps > 2
    assert found.waits <= MOST[sampler], found.counts
    assert found.counts.waits(network=True) == 0, found.counts


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in ("llada-tiny", "sdar-tiny") else pytest.mark.slow)
        for name in CHECKPOINTS
    ],
)
def test_none_in_the_network(name: str, gpu: PseudoGpu) -> None:
    """Padding is known before a forward, so none waits to look for it."""
    model = checkpoint(name)("cuda")
    samplers = ["confidence-k2", "fast_dllm_v2+dual"]
    if model.block is None:
        samplers += ["threshold-0.5+b4+prefix", "joint"]
    with gpu.counting() as counts:
        for sampler in samplers:
            decode(model, PROMPTS, sampler, 8)
    assert counts.waits(network=True) == 0, counts
    assert counts.kernels(network=True) > 100


@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize("sampler", ["eb-0.1+ahead16", "threshold-0.9+ahead16", "slowfast+ahead16"])
def test_looking_ahead_is_few_kernels(sampler: str, rows: int, tiny: Any, gpu: PseudoGpu) -> None:
    """Whatever it guesses, a call and the steps that it serves take at most 150 kernels and 8 waits
    beside the network's and the sampler's own.
    """
    prompts = [sample.messages for sample in load_task("text_writing/w2s_easy", limit=rows).samples]
    work = of_looking_ahead(gpu, tiny, prompts, sampler)
    assert len(work) > 2
    assert max(call.kernels for call in work) <= 150
    assert max(call.waits for call in work) <= 8


def test_looking_ahead_in_blocks(gpu: PseudoGpu) -> None:
    """The same of a block model, whose canvases share their row's cache."""
    model = checkpoint("sdar-tiny")("cuda")
    work = of_looking_ahead(gpu, model, PROMPTS[:2], "confidence-k1+ahead16", tokens=16)
    assert len(work) > 2
    assert max(call.kernels for call in work) <= 150
    assert max(call.waits for call in work) <= 8
