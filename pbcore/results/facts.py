"""Package versions and the machine, which results depend on beside the settings: for run.json and records."""

import os
import platform
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("pbcore", "torch", "transformers", "tokenizers", "numpy", "pytest", "pytest-benchmark", "pytest-xdist")


@cache
def versions() -> dict[str, str]:
    """Versions of what decides a result; packages that are not installed are left out."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def machine(gpu: bool) -> dict[str, Any]:
    """The machine, on which timings depend; its GPUs only where they are used."""
    gpus = []
    if gpu:
        import torch

        gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return {"system": platform.platform(), "processor": _processor(), "cpus": os.cpu_count(), "gpus": gpus}


def _processor() -> str:
    """The processor's name as the system gives it."""
    information = Path("/proc/cpuinfo")
    lines = information.read_text(encoding="utf-8", errors="replace").splitlines() if information.exists() else []
    named = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(named, "") or platform.processor() or platform.machine()
