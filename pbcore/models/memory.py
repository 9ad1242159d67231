"""Peak memory of a block of code: the allocator's on a GPU, the process's resident set on the CPU."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psutil
import torch

_INTERVAL = 0.01  # seconds between samples of the resident set


@dataclass(slots=True)
class Peak:
    """Bytes in use at the start and at the peak, filled in when the block ends."""

    before: int = 0
    peak: int = 0

    @property
    def added(self) -> int:
        """Bytes at the peak beyond those at the start."""
        return max(0, self.peak - self.before)


@contextmanager
def peak_memory(device: torch.device | str) -> Iterator[Peak]:
    """Measures the peak memory on `device` while the block runs.

    CUDA: the allocator's exact peak; its peak counter is reset. CPU: resident set sampled every 10 ms in a thread, so a shorter peak
    can be missed and other threads' memory counts.
    """
    device = torch.device(device)
    result = Peak()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        result.before = torch.cuda.memory_allocated(device)
        try:
            yield result
        finally:
            torch.cuda.synchronize(device)
            result.peak = torch.cuda.max_memory_allocated(device)
        return
    process, done = psutil.Process(), threading.Event()
    result.before = result.peak = process.memory_info().rss

    def watch() -> None:
        while not done.wait(_INTERVAL):
            result.peak = max(result.peak, process.memory_info().rss)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield result
    finally:
        done.set()
        thread.join()
        result.peak = max(result.peak, process.memory_info().rss)
