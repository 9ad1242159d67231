"""The device a model runs on, its free memory, and the dtype that it computes in."""

import torch

from pbcore.models.errors import ModelError

_DTYPES = ("float32", "bfloat16", "float16", "float64")


def network_device(name: str) -> torch.device:
    """Where a masked model's network computes. It may be `mps`, which lacks float64: predictions
    are then moved to the CPU, where samplers compute in it. Raises ModelError as `find_device`.
    """
    if name != "mps":
        return find_device(name)
    if not torch.backends.mps.is_available():
        built = (
            "has no MPS"
            if not torch.backends.mps.is_built()
            else "sees no Apple GPU (macOS 14 or newer)"
        )
        raise ModelError(f"device 'mps': torch {torch.__version__} {built}; use cpu")
    return torch.device(name)


def find_device(name: str) -> torch.device:
    """A torch device by name. Raises ModelError for an unknown one, or for cuda without a GPU."""
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError) as error:
        raise ModelError(
            f"device {name!r} is not known to torch; try cpu, cuda or cuda:1"
        ) from error
    if device.type == "mps":
        raise ModelError("device 'mps': only masked models compute there; use cpu")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ModelError(
            f"device {name!r}: torch {torch.__version__} sees no GPU; use cpu, or install a CUDA"
            " build of torch"
        )
    return device


def free_memory(device: torch.device) -> int:
    """Bytes of a GPU that are free for this process: those that nobody has, and those that torch
    keeps without using them.
    """
    free, _ = torch.cuda.mem_get_info(device)
    return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)


def wait_for(device: torch.device) -> None:
    """Waits for what a device still computes."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def find_dtype(name: str | None, device: torch.device) -> torch.dtype:
    """A dtype by name, by default bfloat16 on a GPU and float32 on the CPU. Raises ModelError for
    an unknown one.
    """
    name = name or ("bfloat16" if device.type == "cuda" else "float32")
    if name not in _DTYPES:
        raise ModelError(f"dtype {name!r} is not known; choose from {', '.join(_DTYPES)}")
    if name == "float64" and device.type == "mps":
        raise ModelError("dtype 'float64': MPS has none; use float32, or --device cpu")
    kind: torch.dtype = getattr(torch, name)
    return kind
