"""Baselines across machines: other CPU kernels round differently, and the answers of the embedded
models stay.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import pbcore
from pbcore.models import model_names

ROOT = Path(pbcore.__file__).parents[1]
# torch's own kernels, oneDNN's and MKL's, as on a processor that has SSE 4 and nothing newer
OLD_CPU = {
    "ATEN_CPU_CAPABILITY": "default",
    "ONEDNN_MAX_CPU_ISA": "SSE41",
    "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
}


@pytest.mark.nightly
@pytest.mark.skipif(
    "tiny" not in model_names(), reason="the trained model tiny is not part of this installation"
)
def test_the_committed_baseline_holds_with_other_kernels(tmp_path: Path) -> None:
    """The cells of the ci profile pass their committed baseline, sample by sample, where vector
    instructions and threads are others.
    """
    command = [
        sys.executable,
        "-m",
        "pytest",
        "benches",
        "-q",
        "-p",
        "no:cacheprovider",
        "--profile",
        "ci",
        "--out",
        str(tmp_path / "run"),
        "--gate",
        "reports/baselines/embedded-cpu.json",
    ]
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTEST_", "GITHUB_"))
    }
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=kept | OLD_CPU | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "(same weights): all 900 answers repeat" in done.stdout
