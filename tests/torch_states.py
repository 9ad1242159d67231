"""States of torch that a user may have set: default dtype, default device, autocast, gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


@contextmanager
def default_device(device: str) -> Iterator[None]:
    torch.set_default_device(device)
    try:
        yield
    finally:
        torch.set_default_device(None)


@contextmanager
def deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


STATES: Mapping[str, Callable[[], AbstractContextManager[Any]]] = {
    "bfloat16": lambda: default_dtype(torch.bfloat16),
    "float64": lambda: default_dtype(torch.float64),
    "meta": lambda: default_device("meta"),
    "within meta": lambda: torch.device("meta"),
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "inference": torch.inference_mode,
    "no_grad": torch.no_grad,
    "deterministic": deterministic,
}


def states() -> dict[str, Any]:
    """All of these states, and that of the global generator of random numbers."""
    return {
        "dtype": torch.get_default_dtype(),
        "device": torch.get_default_device(),
        "autocast": torch.is_autocast_enabled("cpu"),
        "autocast dtype": torch.get_autocast_dtype("cpu"),
        "gradients": torch.is_grad_enabled(),
        "inference": torch.is_inference_mode_enabled(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "random": bytes(torch.random.default_generator.get_state().numpy()),
    }
