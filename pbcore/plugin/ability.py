"""What a model can't do, said before it is loaded: such cells are left out of the grid and counted, not run into an error."""

from __future__ import annotations

from functools import cache

# What policies need that `ideal` has not.
UNABLE = {"joint": "no predictions for tokens in sight", "pc": "no table of token frequencies"}


@cache
def why_not(model: str, task: str, sampler: str) -> str | None:
    """Why `model` has no cell for this task and sampler; None where it has one."""
    from pbcore.models import resolve_model
    from pbcore.names import parse
    from pbcore.theory.distributions import supports

    if resolve_model(model).family != "ideal":
        return None
    if not supports(task):
        return f"{model} × {task.split('/')[0]}: the right answers can't be listed, so there is no ideal model of it"
    if parse(sampler).cache:
        return f"{model} × +{parse(sampler).cache}: it has no attention, so nothing to cache"
    if parse(sampler).policy in UNABLE:
        return f"{model} × {parse(sampler).policy}: it has {UNABLE[parse(sampler).policy]}"
    return None
