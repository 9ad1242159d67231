"""This package's own loop as an engine."""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

from pbcore.decoding import decode
from pbcore.extras.check.engine.setting import Setting
from pbcore.models import load_model
from pbcore.models.device import find_device, find_dtype
from pbcore.names import SamplerNameError


@lru_cache(maxsize=4)
def _model(checkpoint: str, block: int | None, device: str, dtype: str) -> Any:
    options = {} if block is None else {"block": block}
    return load_model(checkpoint, device, dtype, **options)


def engine(place: str) -> Callable[..., list[dict[str, Any]]]:
    """`generate` on a device. Raises ModelError for an unknown device or dtype.

    Args:
        place: `cuda`, or `cuda:1,float16` with a dtype; empty: the CPU.
    """
    device, _, dtype = place.partition(",")
    found = find_device(device or "cpu")
    kind = str(find_dtype(dtype or None, found)).removeprefix("torch.")
    return partial(generate, device=str(found), dtype=kind)


def generate(
    checkpoint: str,
    prompts: Sequence[Sequence[int]],
    setting: Setting,
    device: str = "cpu",
    dtype: str = "float32",
) -> list[dict[str, Any]]:
    """Answers with their forwards.

    Args:
        checkpoint: the folder.
        prompts: ids.
        setting: how to decode.
        device: where the model computes.
        dtype: in what.

    Raises:
        NotImplementedError: for a setting that names no sampler of this package.
    """
    block = setting.block_length if setting.attention == "blocks" else None
    model = _model(checkpoint, block, device, dtype)
    try:
        name = setting.sampler()
    except SamplerNameError as error:
        raise NotImplementedError(str(error)) from error
    answers = decode(
        model,
        [list(ids) for ids in prompts],
        name,
        max_new_tokens=setting.gen_length,
        batch_size=setting.batch,
    )
    return [
        {"ids": list(answer.token_ids[: setting.gen_length]), "forwards": answer.nfe}
        for answer in answers
    ]
