"""The device a model runs on."""

from __future__ import annotations

import torch

from pbcore.models.errors import ModelError


def find_device(name: str) -> torch.device:
    """A torch device by name. Raises ModelError for an unknown one, or for cuda without a GPU."""
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError) as error:
        raise ModelError(f"device {name!r} is not known to torch; try cpu, cuda or cuda:1") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ModelError(
            f"device {name!r}: torch {torch.__version__} sees no GPU; use cpu, or install a CUDA build of torch"
        )
    return device
