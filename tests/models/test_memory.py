"""Peak memory."""

from __future__ import annotations

import time

import pytest
import torch

from pbcore.models.memory import keep_freed_memory, peak_memory


class TestKeepFreedMemory:
    def test_the_environment_decides(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A user who sets malloc's behaviour keeps it."""
        monkeypatch.setenv("MALLOC_ARENA_MAX", "2")
        assert not keep_freed_memory.__wrapped__()


class TestPeakMemory:
    """peak_memory."""

    def test_sees_what_was_freed_again(self) -> None:
        """128 MiB that live a moment within the block count, though they are gone at its end."""
        with peak_memory("cpu") as peak:
            block = torch.ones(1 << 25)
            time.sleep(0.1)
            del block
        assert peak.added >= 100 << 20

    def test_counts_memory_that_was_kept(self) -> None:
        """Memory that the C library kept from before counts again when the block takes it."""
        keep_freed_memory()
        torch.ones(1 << 25)
        with peak_memory("cpu") as peak:
            block = torch.ones(1 << 25)
            time.sleep(0.1)
            del block
        assert peak.added >= 100 << 20

    @pytest.mark.gpu
    @pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
    def test_allocator(self) -> None:
        """On a GPU the allocator's peak counts exactly."""
        with peak_memory("cuda") as peak:
            block = torch.ones(1 << 20, device="cuda")
            del block
        assert peak.added == 4 << 20
