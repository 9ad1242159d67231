"""What timings and results depend on beside the settings: versions of packages, and the machine."""

import os
import platform
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TypedDict

PACKAGES = (
    "pbcore",
    "torch",
    "transformers",
    "tokenizers",
    "numpy",
    "pytest",
    "pytest-benchmark",
    "pytest-xdist",
)


def versions() -> dict[str, str]:
    """Versions of what decides a result; packages that are not installed are left out."""
    return dict(_versions())  # a copy: callers may change theirs


@cache
def _versions() -> dict[str, str]:
    installed = {"python": platform.python_version()}
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            installed[name] = version(name)
    return installed


class Machine(TypedDict, total=False):
    """A machine, as run.json keeps it. Files may lack each."""

    system: str
    processor: str
    cpus: int | None
    gpus: list[str]


def machine(gpu: bool) -> Machine:
    """The machine, on which timings depend; its GPUs only where they are used."""
    gpus = []
    if gpu:
        import torch

        gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return {
        "system": platform.platform(),
        "processor": _processor(),
        "cpus": os.cpu_count(),
        "gpus": gpus,
    }


def _processor() -> str:
    """The processor's name."""
    facts = Path("/proc/cpuinfo")
    if facts.exists():
        for line in facts.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
