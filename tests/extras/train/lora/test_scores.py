"""SEDD models trained whole by --adapt: the paper's recipe, the loss, a checkpoint that loads,
resuming.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from pbcore.decoding import decode
from pbcore.extras.train.command import main
from pbcore.extras.train.lora import run as lora
from pbcore.extras.train.lora.settings import F4, LoraSettings
from pbcore.extras.train.sedd.model import Sedd
from pbcore.models import load_model, resolve_model
from pbcore.tasks import load_task
from tests.extras.train.lora.test_command import THREADS, errors

pytest.importorskip("accelerate")
KINDS = ("tiny-sedd", "tiny-sedd-uniform")
SMALL = [
    "--task",
    "list_ops/shuffle",
    "--train",
    "8",
    "--validation",
    "4",
    "--epochs",
    "2",
    "--batch",
    "4",
]
SMALL += ["--scored", "2", "--n", "3,4", "--sampler", "analytic-s2", *THREADS]


def settings(model: str, **changes: Any) -> LoraSettings:
    own = {
        "train": 8,
        "validation": 4,
        "epochs": 2,
        "batch": 4,
        "scored": 2,
        "n": (3, 4),
        "sampler": "analytic-s2",
    }
    return LoraSettings(model=model, task="list_ops/shuffle", **{**F4, **own, **changes})


def trained(until: int = 4, **changes: Any) -> lora.LoraRun:
    run = lora.start(settings("tiny-sedd", **changes))
    lora.train(run, until, lambda run: None)
    return run


class TestCommand:
    @pytest.mark.parametrize("model", KINDS)
    def test_trains_and_leaves_a_checkpoint(
        self,
        model: str,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """It loads by the name that the last line prints, decodes, and is another model than
        before; the card has the recipe's rate, batch and warm-up.
        """
        monkeypatch.chdir(tmp_path)
        assert main(["--adapt", model, *SMALL]) == 0
        output = capsys.readouterr().out
        assert "8 examples, 4 steps; all weights are trained" in output
        assert "before: validation" in output
        name = output.split()[-1]
        assert name == "adapters/list_ops-shuffle"
        made = load_model(name)
        assert isinstance(made, Sedd)
        assert resolve_model(name).loaded_as == "sedd"
        answers = decode(made, load_task("list_ops/shuffle", limit=2).samples, "analytic-s4")
        assert all(answer.text.startswith("[") for answer in answers)
        old = load_file(resolve_model(model).folder / "model.safetensors")  # type: ignore[operator]
        new = load_file(Path(name) / "model.safetensors")
        assert old.keys() == new.keys()
        assert sum(not torch.equal(old[key].float(), new[key]) for key in old) > 10
        card = (Path(name) / "README.md").read_text()
        assert f"# `{model}` fine-tuned on list_ops/shuffle" in card
        assert "rate: 0.0003\nwarmup: 0.25" in card
        assert "rank" not in card
        assert (Path(name) / "loss.png").stat().st_size > 1000

    def test_what_adapters_have_is_refused(self, capsys: pytest.CaptureFixture[str]) -> None:
        message = errors(
            capsys,
            "--adapt",
            "tiny-sedd",
            "--task",
            "list_ops/shuffle",
            "--rank",
            "8",
            "--dropout",
            "0",
        )
        assert (
            "--rank, --dropout: tiny-sedd is a SEDD model, which is trained whole; leave it out"
            in message
        )


class TestRun:
    def test_the_loss_falls(self) -> None:
        """On the same lists over and over, from random weights."""
        run = lora.start(settings("tiny-sedd", epochs=25, every=50, rate=3e-3))
        with torch.no_grad():
            for value in run.weights().values():
                value.copy_(torch.randn_like(value) * 0.05)
        lora.train(run, 50, lambda run: None)
        falling = [row["loss"] for row in run.log if "loss" in row]
        assert sum(falling[-10:]) < 0.7 * sum(falling[:10])

    def test_an_interrupted_run_ends_bit_identically(self, tmp_path: Path) -> None:
        whole = trained()
        first = trained(3)
        lora.save(first, tmp_path)
        second = lora.start(settings("tiny-sedd"))
        lora.resume(second, tmp_path)
        lora.train(second, 4, lambda run: None)
        assert all(
            torch.equal(value, second.weights()[name]) for name, value in whole.weights().items()
        )
        rows = zip(whole.log, second.log, strict=True)
        assert all(a["loss"] == b["loss"] for a, b in rows if "loss" in a)

    def test_a_step_shared_by_forwards_is_the_same_step(self) -> None:
        one = trained(1)
        two = trained(1, accumulate=2)
        assert one.log[-1]["loss"] == pytest.approx(two.log[-1]["loss"], rel=1e-5)
