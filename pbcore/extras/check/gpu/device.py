"""The device, its driver, and the libraries."""

import platform
import shutil
import subprocess
from collections.abc import Iterator
from importlib.metadata import version

import torch

from pbcore.base.printable import printable
from pbcore.extras.check.gpu.steps import Check, Setup

GIB = 1 << 30
_QUERY = "driver_version,power.limit,clocks.max.sm,ecc.mode.current"


def check_device(setup: Setup) -> Iterator[Check]:
    """What computes here: nothing is judged but that a GPU computes, and has bfloat16."""
    yield Check(
        "libraries", None, ", ".join(f"{name} {of}" for name, of in library_versions().items())
    )
    if setup.device.type != "cuda":
        threads = torch.get_num_threads()
        text = f"{platform.machine()}, {threads} threads: a rehearsal on the CPU, not a GPU"
        yield Check("device", None, text)
        return
    properties = torch.cuda.get_device_properties(setup.device)
    free, total = torch.cuda.mem_get_info(setup.device)
    text = (
        f"{properties.name}, compute capability {properties.major}.{properties.minor},"
        f" {properties.multi_processor_count} multiprocessors, {free / GIB:.1f} of"
        f" {total / GIB:.1f} GiB free"
    )
    figures = {"name": properties.name, "free_bytes": free, "total_bytes": total}
    yield Check("device", None, text, figures)
    yield Check("driver", None, driver())
    answer = int((torch.arange(8, device=setup.device) * 2).sum())
    yield Check("computes", answer == 56, f"2 · (0 + … + 7) = {answer}")
    low = torch.cuda.is_bf16_supported()
    yield Check("bfloat16", low, "supported" if low else "not supported; use --dtype float16")
    precision = torch.get_float32_matmul_precision()
    exact = precision == "highest" and not torch.backends.cuda.matmul.allow_tf32
    text = f"products in float32 have precision {precision!r}"
    yield Check("float32", exact, text if exact else f"{text}: TF32 changes answers, switch it off")


def library_versions() -> dict[str, str]:
    """Versions of Python, the libraries and CUDA."""
    named = {name: version(name) for name in ("pbcore", "torch", "transformers")}
    cuda = {"CUDA": str(torch.version.cuda)} if torch.version.cuda else {}
    system = {platform.system(): platform.release()}
    return {"Python": platform.python_version(), **named, **cuda, **system}


def driver() -> str:
    """The driver's version, power limit, clock and ECC, as nvidia-smi says."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return "nvidia-smi isn't on the path: driver not known"
    command = [program, f"--query-gpu={_QUERY}", "--format=csv,noheader"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    if done.returncode:
        return f"nvidia-smi ended with {done.returncode}: driver not known"
    return printable(f"{_QUERY}: {done.stdout.strip().splitlines()[0]}")
