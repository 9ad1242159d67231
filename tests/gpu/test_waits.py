"""How often a step waits for the device: `python -m benches.device_waits` prints these counts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from benches import device_waits
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
def test_waits_of_a_step(
    sampler: str, tiny: Any, gpu: PseudoGpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One packed copy ends a step; what-if rows and the host's choices take one or two more."""
    monkeypatch.setattr(device_waits, "TOKENS", 16)
    samples = load_task("waiting_line/shuffle", n=6, limit=4).samples
    found = device_waits.measure(gpu, tiny, samples, sampler)
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
