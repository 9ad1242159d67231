"""Memory on the CPU and the GPU: the peak of a block of code, and what the C library keeps of freed
memory.
"""

import ctypes
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psutil
import torch

CUDA = "peak bytes of the CUDA allocator, model included"
GROWTH = "peak growth of the process's resident memory while decoding"
SAMPLED = "peak growth of the process's resident memory while decoding, sampled every 10 ms"
ALLOCATED = "peak bytes that torch allocated beside what it had, by its profiler"
_INTERVAL = 0.01
KEPT = 256 << 20  # bytes that freed memory may have before the system gets it back
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # glibc's malloc.h


@dataclass(slots=True)
class Peak:
    """Bytes in use at the start and at the peak, filled in when the block ends; `kind` says how
    they were measured.
    """

    kind: str
    before: int = 0
    peak: int = 0

    @property
    def added(self) -> int:
        """Bytes at the peak beyond those at the start."""
        return max(0, self.peak - self.before)

    @property
    def reported(self) -> int:
        """Bytes as `kind` says."""
        return self.peak if self.kind == CUDA else self.added


@contextmanager
def peak_memory(device: torch.device | str) -> Iterator[Peak]:
    """Measures the peak memory on `device` while the block runs. CUDA: the allocator's exact peak,
    once the device has finished. CPU: the resident set, once freed memory has been given back; on
    Linux by its high-water mark, elsewhere sampled in a thread, so that a shorter peak can be
    missed. Both counters are reset.
    """
    device = torch.device(device)
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        result = Peak(CUDA, torch.cuda.memory_allocated(device))
        try:
            yield result
        finally:
            torch.cuda.synchronize(device)
            result.peak = torch.cuda.max_memory_allocated(device)
        return
    if (trim := getattr(_libc(), "malloc_trim", None)) is not None:
        trim(0)  # so that what is allocated next counts as growth
    marked = _reset_peak()
    result = Peak(GROWTH if marked else SAMPLED, before := _resident(), before)
    with nullcontext() if marked else _sampled(result):
        try:
            yield result
        finally:
            result.peak = _peak() if marked else max(result.peak, _resident())


@contextmanager
def allocated_memory(device: torch.device | str) -> Iterator[Peak]:
    """Measures the bytes that torch allocates on `device` while the block runs, exactly. CUDA: as
    `peak_memory`, by the allocator. CPU: by torch's profiler, which notes each allocation and each
    release of the CPU's allocator, also those within an operation; it slows the block down.
    """
    device = torch.device(device)
    if device.type == "cuda":
        with peak_memory(device) as result:
            yield result
        return
    result = Peak(ALLOCATED)
    kinds = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=kinds, profile_memory=True) as profiler:
        yield result
    events = profiler.profiler.kineto_results.events()
    changes = [event for event in events if event.name() == "[memory]"]
    held = 0
    for change in sorted(changes, key=lambda event: event.start_ns()):
        held += change.nbytes()
        result.peak = max(result.peak, held)


@cache
def keep_freed_memory() -> bool:
    """Lets glibc keep freed memory for the next forward, at most KEPT bytes of it: by default it
    returns every large tensor's pages to the system, which has to clear them when the next forward
    asks for them again. Does nothing with another C library, or where the environment sets malloc's
    behaviour. Returns whether it was done.
    """
    if any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ):
        return False
    mallopt = getattr(_libc(), "mallopt", None)
    return bool(mallopt and mallopt(_TRIM_THRESHOLD, KEPT) and mallopt(_MMAP_THRESHOLD, KEPT))


@cache
def _libc() -> ctypes.CDLL | None:
    return ctypes.CDLL(None) if sys.platform == "linux" else None


@contextmanager
def _sampled(result: Peak) -> Iterator[None]:
    """Raises the peak in a thread while the block runs."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(_INTERVAL):
            result.peak = max(result.peak, _resident())

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _resident() -> int:
    return int(psutil.Process().memory_info().rss)


def _reset_peak() -> bool:
    """Sets Linux's high-water mark of resident memory (VmHWM) back to the present; False where that
    can't be done.
    """
    if sys.platform != "linux":
        return False
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
        return _peak() > 0
    except OSError:
        return False


def _peak() -> int:
    """VmHWM in bytes, 0 if the system doesn't say."""
    for line in (
        Path("/proc/self/status").read_text(encoding="utf-8", errors="replace").splitlines()
    ):
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0
