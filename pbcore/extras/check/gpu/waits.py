"""How often a step waits for the device, and how many kernels it starts."""

import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

from pbcore.decoding import decode, resolve
from pbcore.decoding.checks import check_needs
from pbcore.extras.check.gpu.models import random_prompts, timed_model
from pbcore.extras.check.gpu.steps import Check, Setup
from pbcore.models.base import complete
from pbcore.models.device import wait_for

# A sampler of each kind, and the most waits a step that are meant.
GOALS = {
    "confidence-k1": 2,
    "random-k1": 2,
    "threshold-0.9": 3,
    "eb-0.1": 3,
    "confidence-k1+b8+prefix": 3,
    "confidence-k1+b8+dual": 3,
    "wino": 5,
    "lopa": 5,
}
LENGTHS = (8, 40)  # two answers, whose difference leaves out what is done once
PROMPT = 32
ROWS = 2
# Operations that a host waits for on a GPU, as they are called on a CPU.
WAITING = (
    "aten::_local_scalar_dense",
    "aten::nonzero",
    "aten::masked_select",
    "aten::equal",
    "aten::_unique2",
    "aten::bincount",
)
_KERNEL = ("cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel", "cuLaunchKernelEx")
_SYNCHRONIZE = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize")


class DeviceWaits(NamedTuple):
    """Waits and kernels while something ran. `kernels` is None on a CPU."""

    waits: int
    kernels: int | None


def check_waits(setup: Setup) -> Iterator[Check]:
    """Waits a step by sampler, judged on a GPU alone."""
    model = timed_model(setup)
    if model is None:
        yield Check(setup.model, None, "not a masked model: its own loop isn't counted")
        return
    for sampler, goal in GOALS.items():
        own = resolve(sampler)
        try:
            check_needs(complete(model), own.declared, own.name)
        except ValueError:
            yield Check(sampler, None, f"not for {model.name}")
            continue
        counted = [_decoded(model, sampler, length, setup) for length in LENGTHS]
        (few, steps), (many, more) = counted
        between = more - steps
        if between < 1:
            yield Check(sampler, None, f"as many steps for {LENGTHS[1]} tokens as for {LENGTHS[0]}")
            continue
        waits = (many.waits - few.waits) / between
        on_gpu = setup.device.type == "cuda"
        text = f"{waits:.1f} waits a step, at most {goal} are meant"
        if not on_gpu:
            text = (
                f"{waits:.1f} operations a step that a GPU's host would wait for, beside the copy"
                " that ends a step"
            )
        figures: dict[str, Any] = {"waits": waits, "goal": goal}
        if few.kernels is not None and many.kernels is not None:
            figures["kernels"] = (many.kernels - few.kernels) / between
            text += f"; {figures['kernels']:.0f} kernels a step"
        yield Check(sampler, waits <= goal if on_gpu else None, text, figures)


def _decoded(model: Any, sampler: str, length: int, setup: Setup) -> tuple[DeviceWaits, int]:
    """Counts of decoding two rows, and their steps."""
    prompts = random_prompts(model, ROWS, PROMPT)
    decode(model, prompts, sampler, max_new_tokens=length)  # what is done once
    answers = []

    def run() -> None:
        answers.extend(decode(model, prompts, sampler, max_new_tokens=length))

    counts = counted_on_gpu(run, setup) if setup.device.type == "cuda" else counted_on_cpu(run)
    return counts, max(answer.nfe or 0 for answer in answers)


def counted_on_gpu(run: Callable[[], None], setup: Setup) -> DeviceWaits:
    """What torch warns of (`torch.cuda.set_sync_debug_mode`), or what the profiler saw the driver
    wait for, whichever is more; and kernels, by the profiler.
    """
    kinds = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            run()
        finally:
            torch.cuda.set_sync_debug_mode(before)
    warned = sum("synchronizing CUDA operation" in str(warning.message) for warning in said)
    wait_for(setup.device)
    with torch.profiler.profile(activities=kinds) as profiler:
        run()
    calls = _calls(profiler)
    seen = sum(calls[name] for name in _SYNCHRONIZE)
    return DeviceWaits(max(warned, seen), sum(calls[name] for name in _KERNEL))


def counted_on_cpu(run: Callable[[], None]) -> DeviceWaits:
    """Operations that would wait on a GPU; copies to it don't show on a CPU."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        run()
    calls = _calls(profiler)
    return DeviceWaits(sum(calls[name] for name in WAITING), None)


def _calls(profiler: Any) -> Counter[str]:
    """How often each operation and each function of the driver was called."""
    return Counter(event.name() for event in profiler.profiler.kineto_results.events())
