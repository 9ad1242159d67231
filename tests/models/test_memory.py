"""Peak memory."""

from __future__ import annotations

import time

import pytest
import torch

from pbcore.models import memory
from pbcore.models.architecture import architecture
from pbcore.models.checkpoints import empty_model
from pbcore.models.memory import keep_freed_memory, peak_memory
from pbcore.models.network import count_parameters


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


class TestKinds:
    """How the peak is measured."""

    @pytest.mark.parametrize(
        ("kind", "reported"), [(memory.CUDA, 30), (memory.GROWTH, 20), (memory.SAMPLED, 20)]
    )
    def test_what_is_reported(self, kind: str, reported: int) -> None:
        """The allocator's peak holds the model, a process's only what was added."""
        assert memory.Peak(kind, 10, 30).reported == reported
        assert memory.Peak(kind, 30, 10).added == 0

    def test_without_a_high_water_mark_it_is_sampled(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The largest of what was seen, also after the block's end."""
        seen = iter([100, 300, 200, *[150] * 10_000])
        monkeypatch.setattr(memory, "_reset_peak", lambda: False)
        monkeypatch.setattr(memory, "_resident", lambda: next(seen))
        with peak_memory("cpu") as peak:
            while peak.peak < 300:
                time.sleep(0.001)
        assert (peak.kind, peak.before, peak.peak) == (memory.SAMPLED, 100, 300)
        seen = iter([100, 400])
        monkeypatch.setattr(memory, "_INTERVAL", 60.0)
        with peak_memory("cpu") as peak:
            pass
        assert peak.peak == 400

    def test_the_high_water_mark(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """In bytes; none on other systems, or where it can't be reset."""
        text = "VmPeak:\t    9 kB\nVmHWM:\t    3 kB\n"
        written: list[str] = []
        monkeypatch.setattr(memory.Path, "read_text", lambda path, **options: text)
        monkeypatch.setattr(
            memory.Path, "write_text", lambda path, value, **options: written.append(value)
        )
        monkeypatch.setattr(memory.sys, "platform", "linux")
        assert (memory._peak(), memory._reset_peak(), written) == (3072, True, ["5"])
        text = "VmPeak: 9 kB\n"
        assert (memory._peak(), memory._reset_peak()) == (0, False)
        monkeypatch.setattr(memory.sys, "platform", "darwin")
        assert not memory._reset_peak()

    def test_parameters_of_a_shape(self) -> None:
        """Tied embeddings count once."""
        shape = {
            "model_type": "llama",
            "vocab_size": 100,
            "hidden_size": 8,
            "intermediate_size": 16,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
        }
        layer = 8 * 8 + 2 * 8 * 4 + 8 * 8 + 3 * 8 * 16 + 2 * 8
        for tied in (True, False):
            count = count_parameters(
                empty_model(architecture({**shape, "tie_word_embeddings": tied}, "x"))
            )
            assert count == 100 * 8 * (1 if tied else 2) + layer + 8
