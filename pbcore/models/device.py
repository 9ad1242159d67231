"""Where a model computes."""

from __future__ import annotations

import torch

from pbcore.models.errors import ModelError


def find_device(name: str) -> torch.device:
    """A torch device. Raises ModelError for one that isn't here."""
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError) as error:
        raise ModelError(f"device {name!r} is not known to torch; try cpu, cuda or cuda:1") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ModelError(
            f"device {name!r}: torch {torch.__version__} sees no GPU here; take cpu, or install a CUDA build"
        )
    return device
