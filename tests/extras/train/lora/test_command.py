"""`python -m pbcore.train --adapt`: the whole command, and an operation that `tiny` learns."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from statistics import fmean

import pytest
import torch

from pbcore.decoding import decode
from pbcore.extras.train.command import main
from pbcore.models import load_model
from pbcore.models.identity import identity
from pbcore.tasks.registry import add_tasks_file, load_task
from tests.models.shapes import checkpoint

pytest.importorskip("peft")

EXAMPLE = Path(__file__).parents[4] / "docs" / "examples" / "adapter"
SMALL = [
    "--task",
    "list_ops/shuffle",
    "--rank",
    "4",
    "--alpha",
    "8",
    "--train",
    "12",
    "--validation",
    "4",
]
SMALL += [
    "--epochs",
    "2",
    "--batch",
    "4",
    "--rate",
    "0.01",
    "--scored",
    "2",
    "--n",
    "3,4",
    "--sampler",
    "random-k2",
]
THREADS = ["--threads", str(torch.get_num_threads())]


def errors(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What the command says of wrong arguments."""
    with pytest.raises(SystemExit, match="2"):
        main([*arguments, *THREADS])
    return capsys.readouterr().err


class TestMain:
    def test_trains_stops_goes_on_and_leaves_an_adapter_with_its_card(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Four of six steps, then the rest from there; the adapter loads by the name that the last
        line prints, and its card has the digest that records have.
        """
        monkeypatch.chdir(tmp_path)
        command = ["--adapt", str(checkpoint(tmp_path / "model", "llada")), *SMALL, *THREADS]
        assert main([*command, "--steps", "4"]) == 0
        output = capsys.readouterr().out
        assert "12 examples, 6 steps" in output
        assert "stopped at step 4 of 6; the same command without --steps goes on" in output
        assert main(command) == 0
        output = capsys.readouterr().out
        assert "at step 4" in output
        assert "step 6/6" in output
        name = output.split()[-1]
        assert name == f"{tmp_path}/model+adapters/list_ops-shuffle"
        out = tmp_path / "adapters" / "list_ops-shuffle"
        digest = identity(load_model(name))["adapter"]
        assert (
            f"Adapter `{digest}`: rank 4, α 8, on q_proj, k_proj, v_proj"
            in (out / "README.md").read_text()
        )
        steps = [line.split(",")[0] for line in (out / "loss.csv").read_text().splitlines()]
        assert steps == ["step", *map(str, range(7))]
        assert (out / "loss.png").stat().st_size > 1000

    def test_wrong_arguments(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A usage error each, which says what is known."""
        monkeypatch.chdir(tmp_path)
        assert "unknown model 'tinny'" in errors(capsys, "--adapt", "tinny", "--task", "shuffle")
        assert "shufle" in errors(capsys, "--adapt", "tiny", "--task", "shufle")
        assert "rank 0 (at least 1)" in errors(
            capsys, "--adapt=tiny", "--task", "shuffle", "--rank", "0"
        )
        assert "--task" in errors(capsys, "--adapt", "tiny")
        assert not (tmp_path / "adapters").exists()


@pytest.mark.nightly
class TestLearned:
    def test_tiny_learns_a_list_operation_that_it_never_saw(
        self, tmp_path: Path, embedded: Path
    ) -> None:
        """The example of docs/train.md: from nothing to at least nine in ten of rows that it
        was not trained on.
        """
        shutil.copytree(EXAMPLE, tmp_path, dirs_exist_ok=True)
        subprocess.run([sys.executable, tmp_path / "rows.py"], check=True)
        add_tasks_file(tmp_path / "tasks.yaml")
        out = str(tmp_path / "rotate")
        asked = ["--adapt", "tiny", "--task", "line/rotate-train", "--out", out, *THREADS]
        assert main([*asked, *(EXAMPLE / "settings.txt").read_text().split()]) == 0
        assert self.score("tiny") < 0.1
        assert self.score(f"tiny+{out}") >= 0.9

    def score(self, name: str) -> float:
        task = load_task("line/rotate")
        texts = [answer.text for answer in decode(load_model(name), task.samples, "confidence-k1")]
        return fmean(one.scores["accuracy"] for one in task.score_many(texts, task.samples))


@pytest.mark.nightly
class TestSeveralProcesses:
    def test_learn_what_one_learns(self, tmp_path: Path) -> None:
        """`accelerate launch` with two processes on the CPU: without dropout the losses of each
        step are one's, up to rounding.
        """
        command = [
            "-m",
            "pbcore.train",
            "--adapt",
            str(checkpoint(tmp_path / "model", "llada")),
            *SMALL,
            "--threads=1",
        ]
        launch = [
            "-m",
            "accelerate.commands.launch",
            "--cpu",
            "--num_processes",
            "2",
            "--num_machines",
            "1",
        ]
        launch += ["--mixed_precision", "no", "--dynamo_backend", "no"]
        for out, start in (("one", []), ("two", launch)):
            arguments = [sys.executable, *start, *command, "--dropout", "0", "--out", out]
            subprocess.run(arguments, cwd=tmp_path, check=True)
        one, two = (self.losses(tmp_path / out / "loss.csv") for out in ("one", "two"))
        assert two == pytest.approx(one, rel=1e-5)

    def losses(self, path: Path) -> list[float]:
        return [float(line.split(",")[2]) for line in path.read_text().splitlines()[2:]]
