"""What only the loaded model knows: which samplers it lacks something for, and how long a forward
takes here. The model is dropped again, since the runs load it themselves.
"""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pbcore.base.errors import InputError, PbcoreError
from pbcore.decoding.checks import check_needs
from pbcore.decoding.samplers import sampler_of
from pbcore.grid.capabilities import is_served
from pbcore.grid.cost_estimate import forward_seconds
from pbcore.grid.plan import make_plan
from pbcore.grid.settings import Settings
from pbcore.models import load_model
from pbcore.models.base import BatchDecoder, OwnDecoder, complete
from pbcore.names import parse

OF_BLOCKS = "block_models"  # the module of the decoders of block models' authors


@dataclass(frozen=True, slots=True)
class Loaded:
    """Sampler → why the loaded model can't run it; seconds of a row's forward, None behind a
    server.
    """

    refused: dict[str, str]
    row_seconds: float | None


def load_for_race(settings: Settings, tasks: Sequence[str], samplers: Sequence[str]) -> Loaded:
    """Loads the model, finds out which samplers it can run, and times a forward.

    Args:
        settings: with the model and how to load it.
        tasks: their names; the first one's questions are forwarded.
        samplers: their names.

    Raises:
        InputError: for a model that can't be loaded, or that decodes by itself.
    """
    name = settings.model[0]
    if is_served(name):
        return Loaded({}, None)
    dtype = {} if settings.dtype is None else {"dtype": settings.dtype}
    try:
        model: Any = load_model(name, device=settings.place, **dtype, **settings.load_options)
    except PbcoreError as error:
        raise InputError(f"model {name} can't be loaded: {error}") from error
    if isinstance(model, OwnDecoder | BatchDecoder):
        raise InputError(f"{name} decodes by itself, so it has no sampler to choose")
    denoiser = complete(model)
    refused = {}
    for sampler in samplers:
        if denoiser.block is None and policy_module(sampler) == OF_BLOCKS:
            refused[sampler] = f"{name} has no blocks, for which these decoders are made"
            continue
        own = sampler_of(sampler)
        try:
            check_needs(denoiser, own.declared, own.name)
        except ValueError as error:
            reason = str(error).partition(": ")[2] or str(error)
            refused[sampler] = reason.removesuffix("; choose another sampler or model")
    plan = make_plan(replace(settings, task=tuple(tasks[:1]), sampler=()))
    samples = plan.task(tasks[0], name).samples
    seconds = forward_seconds(denoiser, samples, settings.rows)
    del model, denoiser
    gc.collect()
    if settings.gpu:
        import torch

        torch.cuda.empty_cache()
    return Loaded(refused, seconds)


def policy_module(sampler: str) -> str:
    """The last part of the name of the module that has a sampler's policy."""
    from pbcore.decoding.policies import policies

    return policies()[parse(sampler).policy].__module__.rpartition(".")[2]
