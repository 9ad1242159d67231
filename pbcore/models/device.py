"""The device a model runs on."""

import torch

from pbcore.models.errors import ModelError


def network_device(name: str) -> torch.device:
    """Where a masked model's network computes. It may be `mps`, which lacks float64: predictions are then moved to the
    CPU, where `decoding_device` has samplers compute in it. Raises ModelError as `find_device`."""
    if name != "mps":
        return find_device(name)
    if not torch.backends.mps.is_available():
        built = "has no MPS" if not torch.backends.mps.is_built() else "sees no Apple GPU (macOS 14 or newer)"
        raise ModelError(f"device 'mps': torch {torch.__version__} {built}; use cpu")
    return torch.device(name)


def decoding_device(network: torch.device) -> torch.device:
    """Where samplers compute: beside the network, or on the CPU if it computes on MPS."""
    return torch.device("cpu") if network.type == "mps" else network


def find_device(name: str) -> torch.device:
    """A torch device by name. Raises ModelError for an unknown one, or for cuda without a GPU."""
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError) as error:
        raise ModelError(f"device {name!r} is not known to torch; try cpu, cuda or cuda:1") from error
    if device.type == "mps":
        raise ModelError("device 'mps': only masked models compute there; use cpu")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ModelError(
            f"device {name!r}: torch {torch.__version__} sees no GPU; use cpu, or install a CUDA build of torch"
        )
    return device
