"""A run on the pseudo-GPU: batches follow from the memory that is free, and the record says so."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.pseudo_gpu import environment
from tests.warm_python import warm_python

BENCHES = Path(__file__).parents[2] / "benches" / "test_waiting_line.py"


def batch_size(folder: Path, capacity: int, *more: str) -> int:
    """The batch size in the record of one cell of `tiny`."""
    words = ["--model", "tiny", "--task", "shuffle", "--sampler", "confidence-k4", "--limit", "4"]
    command = [warm_python(), "-m", "pytest", str(BENCHES), *words, "--gpu", "-q"]
    command += ["--dtype", "float32", "-p", "no:cacheprovider", "--out", str(folder / "run"), *more]
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment(folder, capacity),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (file,) = folder.glob("run/cells/*.json")
    cell = json.loads(file.read_text(encoding="utf-8"))
    size: int = cell["cell"]["conditions"]["batch_size"]
    return size


@pytest.mark.slow
class TestRecord:
    def test_it_is_the_size_that_memory_allowed(self, tmp_path: Path) -> None:
        """Neither the CPU's 8 nor a constant, and within what the device has."""
        assert 8 < batch_size(tmp_path, 32 << 20) < 100

    @pytest.mark.nightly
    def test_two_workers_take_half_each(self, tmp_path: Path) -> None:
        alone = tmp_path / "alone"
        both = tmp_path / "both"
        alone.mkdir()
        both.mkdir()
        size = batch_size(alone, 32 << 20)
        assert batch_size(both, 32 << 20, "-n", "2") in (size // 2, size // 2 - 1)

    def test_a_given_size_stays(self, tmp_path: Path) -> None:
        assert batch_size(tmp_path, 32 << 20, "--batch-size", "3") == 3
