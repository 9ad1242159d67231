"""This package's own loop as an engine."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from pbcore.decoding import decode
from pbcore.engine_check.setting import Setting, sampler_of
from pbcore.models import load_model
from pbcore.names import SamplerNameError


@lru_cache(maxsize=4)
def _model(checkpoint: str, block: int | None) -> Any:
    return load_model(checkpoint) if block is None else load_model(checkpoint, block=block)


def generate(
    checkpoint: str, prompts: Sequence[Sequence[int]], setting: Setting
) -> list[dict[str, Any]]:
    """Answers with their forwards.

    Args:
        checkpoint: the folder.
        prompts: ids.
        setting: how to decode.

    Raises:
        NotImplementedError: for a setting that names no sampler of this package.
    """
    block = setting.block_length if setting.attention == "blocks" else None
    model = _model(checkpoint, block)
    try:
        name = sampler_of(setting)
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
