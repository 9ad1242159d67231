"""Commands with `--gpu` on the pseudo-GPU, each in processes of its own: runs, their memory and
times, the harness, adapters, training.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from pbcore.models.memory import CUDA
from pbcore.results import load_cells
from tests.extras.lm_eval.harness import copy_task
from tests.extras.train.test_command import RECIPE
from tests.pseudo_gpu import CAPACITY, environment
from tests.warm_python import warm_python

ROOT = Path(__file__).parents[2]
CELLS = ["--model", "tiny", "--task", "copy", "--sampler", "confidence-k4", "--limit", "4"]
Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def command(tmp_path: Path) -> Command:
    """Runs a module with the pseudo-GPU: its arguments, the device's bytes, the status expected."""

    def run(
        *arguments: str | Path, capacity: int = CAPACITY, status: int = 0
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [warm_python(), "-m", *map(str, arguments)],
            cwd=tmp_path,
            env={**environment(tmp_path, capacity), "PBCORE_NO_DOWNLOAD": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done

    return run


@pytest.fixture
def benches(command: Command, tmp_path: Path) -> Callable[..., list[Any]]:
    """Runs cells and reads their records."""

    def run(*arguments: str, **settings: Any) -> list[Any]:
        out = tmp_path / f"run{len(list(tmp_path.glob('run*')))}"
        command("pytest", ROOT / "pbcore" / "benches", "-q", "--out", out, *arguments, **settings)
        return load_cells(out)

    return run


def facts(cells: list[Any]) -> list[Any]:
    """What must not depend on the device."""
    return sorted(
        (cell.task, cell.sampler, cell.nfe_mean, cell.scores["accuracy"].mean) for cell in cells
    )


@pytest.mark.slow
def test_a_cell(benches: Callable[..., list[Any]]) -> None:
    """A cell on the GPU has the CPU's answers, the device's name and its allocator's peak."""
    [cell] = benches("--gpu", "--dtype", "float32", *CELLS)
    assert cell.conditions.device == "cuda"
    assert cell.conditions.peak_memory_is == CUDA
    assert cell.peak_memory_bytes > 4_000_000


@pytest.mark.slow
class TestRuns:
    @pytest.mark.nightly
    def test_workers_share_the_device(self, benches: Callable[..., list[Any]]) -> None:
        """Two workers on one GPU give the answers of one process on the CPU."""
        more = [*CELLS, "--task", "shuffle", "--sampler", "threshold-0.9"]
        expected = benches("--dtype", "float32", *more)
        cells = benches("--gpu", "--dtype", "float32", "-n", "2", *more)
        assert facts(cells) == facts(expected)
        assert len(cells) == 4
        assert all(cell.conditions.shared_device for cell in cells)

    def test_factors(self, benches: Callable[..., list[Any]]) -> None:
        """Number formats and batch sizes are factors of a run on the GPU."""
        cells = benches(
            "--gpu",
            *("--factor", "dtype=float32,bfloat16", "--batch-size", "1,2"),
            *(*CELLS, "--limit", "2"),
        )
        assert len(cells) == 4

    def test_memory_runs_out(self, benches: Callable[..., list[Any]]) -> None:
        """A batch that doesn't fit is halved, and the record has the answers of the whole one."""
        settings = ["--gpu", "--dtype", "float32", "--batch-size", "8", *CELLS, "--limit", "8"]
        [whole] = benches(*settings)
        [halved] = benches(*settings, capacity=whole.peak_memory_bytes * 3 // 4)
        assert facts([halved]) == facts([whole])
        assert halved.peak_memory_bytes < whole.peak_memory_bytes * 3 // 4

    def test_interleaved_timing(self, benches: Callable[..., list[Any]], command: Command) -> None:
        """`--gate-time` with `--against` times both revisions on the GPU."""
        one = [*CELLS, "--limit", "1"]
        out = benches("--gpu", *one, "--gate-time", "900%", "--against", str(ROOT))
        assert len(out) == 1


@pytest.mark.slow
class TestOtherCommands:
    def test_doctor(self, command: Command) -> None:
        """`pbcore check machine` names the device and its memory."""
        said = command("pbcore", "check", "machine", capacity=24 << 30).stdout
        assert "Pseudo GPU" in said
        assert "24" in said

    @pytest.mark.nightly
    def test_the_harness(self, command: Command, tmp_path: Path) -> None:
        """`device=cuda:0` decodes there and scores as on the CPU."""
        tasks = copy_task(tmp_path / "tasks")
        scores = []
        for device in ("cpu", "cuda:0"):
            command(
                "pbcore",
                "lm-eval",
                *("--model_args", "pretrained=tiny,sampler=threshold-0.9,dtype=float32"),
                *("--tasks", "toy_copy", "--include_path", tasks, "--device", device),
                "--apply_chat_template",
            )
            [run] = (tmp_path / "reports").iterdir()
            [cell] = load_cells(run.rename(tmp_path / f"on-{device[:3]}"))
            scores.append({name: score.mean for name, score in cell.scores.items()})
        assert scores[0] == scores[1]

    @pytest.mark.nightly
    def test_training_an_adapter(self, command: Command, tmp_path: Path) -> None:
        """An adapter trained on the GPU loads, merged and beside the weights."""
        pytest.importorskip("peft")
        command(
            "pbcore.train",
            *("--adapt", "tiny", "--task", "waiting_line/copy", "--device", "cuda"),
            *("--train", "8", "--validation", "4", "--batch", "4", "--out", tmp_path / "adapter"),
        )
        assert json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())["r"]

    @pytest.mark.nightly
    def test_training_a_network(self, command: Command, tmp_path: Path) -> None:
        """The recipe's first steps have the CPU's losses."""
        recipe = f"objective: diffusion\n{RECIPE.replace('1000', '100')}"
        (tmp_path / "recipe.yaml").write_text(recipe)
        said = []
        for device in ("cpu", "cuda"):
            command(
                "pbcore.train",
                *("--recipe", tmp_path / "recipe.yaml", "--out", tmp_path / device),
                *("--steps", "2", "--device", device),
            )
            table = pd.read_csv(tmp_path / device / "checkpoint" / "loss.csv")
            said.append(table.drop(columns="seconds"))
        pd.testing.assert_frame_equal(*said, rtol=1e-4)
