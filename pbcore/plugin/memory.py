"""Peak memory of one decoding: the CUDA allocator's on a GPU, the growth of the process on a CPU. The name says which."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

CUDA = "peak bytes of the CUDA allocator, model included"
PEAK_GROWTH = "peak growth of the process's resident memory while decoding"
END_GROWTH = "growth of the process's resident memory by the end of decoding (this system can't reset its peak)"


@dataclass(frozen=True, slots=True)
class PeakMemory:
    """Started before a decoding, read after it. `kind` says what `read` gives."""

    device: torch.device
    kind: str
    before: int

    @classmethod
    def start(cls, device: torch.device) -> PeakMemory:
        if device.type == "cuda":
            import torch

            torch.cuda.reset_peak_memory_stats(device)
            return cls(device, CUDA, 0)
        return cls(device, PEAK_GROWTH if _reset_peak() else END_GROWTH, _resident())

    def read(self) -> int:
        """Bytes, as `kind` says."""
        if self.device.type == "cuda":
            import torch

            return int(torch.cuda.max_memory_allocated(self.device))
        now = _peak() if self.kind == PEAK_GROWTH else _resident()
        return max(0, now - self.before)


def _resident() -> int:
    import psutil  # at first use: every pytest run imports this module

    return int(psutil.Process().memory_info().rss)


def _reset_peak() -> bool:
    """Sets Linux's high-water mark of resident memory (VmHWM) back to the present; False where that can't be done."""
    if sys.platform != "linux":
        return False
    try:
        Path("/proc/self/clear_refs").write_text("5")
        return _peak() > 0
    except OSError:
        return False


def _peak() -> int:
    """VmHWM in bytes, 0 where the system doesn't say."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0
