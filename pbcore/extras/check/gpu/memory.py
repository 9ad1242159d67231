"""What batches take beside what was estimated, and whether the default batch fits."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from pbcore.decoding import denoise, resolve
from pbcore.decoding.batch_size import batch_bytes, reads_of
from pbcore.decoding.run import batch_of
from pbcore.extras.check.gpu.models import random_prompts, release, timed_model
from pbcore.extras.check.gpu.steps import Check, Setup
from pbcore.models.memory import allocated_memory
from pbcore.models.sizes import held_shape

MIB = 1 << 20
BATCHES = (1, 4, 16, 64)
PROMPT = 96
CANVAS = 32
SAMPLERS = ("confidence-k16", "entropy-k16", "confidence-k4+b8+prefix", "wino")


def check_memory(setup: Setup) -> Iterator[Check]:
    """Bytes that batches take at their peak, of samplers that read more and less of a step; judged:
    that they are at most those estimated, and that the default batch decodes.
    """
    model = timed_model(setup)
    if model is None or (shape := held_shape(model)) is None:
        yield Check(setup.model, None, "a model whose batches aren't estimated")
        return
    batches = BATCHES if setup.device.type == "cuda" else BATCHES[:2]
    for sampler in SAMPLERS:
        own = resolve(sampler)
        name = own.name
        if model.block is not None and (name.block or name.cache or name.policy == "wino"):
            yield Check(sampler, None, f"not for {model.name}")
            continue
        taken = []
        within = True
        figures = {}
        for rows in batches:
            prompts = random_prompts(model, rows, PROMPT)
            requests = [model.encode(ids, CANVAS, key) for key, ids in enumerate(prompts)]
            estimated = batch_bytes(rows, shape, reads_of(model, own, requests, shape))
            try:
                allocated = _allocated(model, prompts, sampler, setup)
            except torch.OutOfMemoryError:
                taken.append(f"{rows} rows don't fit ({estimated / MIB:,.0f} MiB estimated)")
                break
            within = within and allocated <= estimated
            taken.append(f"{allocated / MIB:,.1f} of {estimated / MIB:,.1f} MiB at {rows} rows")
            figures[str(rows)] = {"allocated": allocated, "estimated": estimated}
        yield Check(sampler, within, f"taken of estimated: {', '.join(taken)}", figures)
    yield _default(model, setup)


def _allocated(model: Any, prompts: Sequence[Sequence[int]], sampler: str, setup: Setup) -> int:
    """Bytes that decoding the prompts together allocates at its peak. Raises OutOfMemoryError where
    `decode` would halve the batch.
    """
    release(setup.device)
    own = resolve(sampler)
    requests = [model.encode(ids, CANVAS, key) for key, ids in enumerate(prompts)]
    with allocated_memory(setup.device) as peak:
        denoise(model, requests, own.policy, own.name)
    return peak.added


def _default(model: Any, setup: Setup) -> Check:
    """The default batch, decoded in two steps without being halved."""
    release(setup.device)
    sampler = SAMPLERS[0]
    probe = random_prompts(model, 1, PROMPT)
    rows = batch_of(model, probe, sampler, CANVAS)
    prompts = random_prompts(model, rows, PROMPT)
    try:
        allocated = _allocated(model, prompts, sampler, setup)
    except torch.OutOfMemoryError:
        return Check("default batch", False, f"{rows} rows don't fit", {"rows": rows})
    text = f"{rows} rows of {PROMPT} + {CANVAS} tokens, {allocated / MIB:,.1f} MiB"
    return Check("default batch", True, text, {"rows": rows, "allocated": allocated})
