"""`python -m pbcore.train`: the whole command with a network far too small to learn."""

from __future__ import annotations

from pathlib import Path

import pytest

from pbcore.extras.train.command import main
from pbcore.models import load_model
from pbcore.tasks.registry import task_names

RECIPE = """
width: 16
layers: 1
heads: 2
inner: 32
seed: 1
vocabulary_samples: 1000
warmup: 2
phases:
- {steps: 4, rows: 2, rate: 0.003, end_rate: 0.0}
"""


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("objective", "name"), [("diffusion", "tiny"), ("block", "tiny-block"), ("causal", "tiny-ar")]
)
def test_trains_stops_goes_on_and_leaves_a_checkpoint_with_its_card(
    objective: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Half the steps, then the rest from where the first command stopped; the checkpoint loads, and
    its card has every task.
    """
    (tmp_path / "recipe.yaml").write_text(f"objective: {objective}\n{RECIPE}")
    command = [
        "--recipe",
        str(tmp_path / "recipe.yaml"),
        "--out",
        str(tmp_path / "run"),
        "--samples",
        "1",
    ]
    assert main([*command, "--steps", "2"]) == 0
    assert main(command) == 0
    output = capsys.readouterr().out
    assert "at step 2" in output
    assert "step 4/4" in output
    checkpoint = tmp_path / "run" / "checkpoint"
    assert load_model(str(checkpoint), dtype="float32").info.get("autoregressive", False) == (
        objective == "causal"
    )
    card = (checkpoint / "README.md").read_text()
    assert card.startswith(f"# {name}: ")
    assert all(f"| {task} |" in card for task in task_names())
    assert {"loss.csv", "loss.png"} <= {file.name for file in checkpoint.iterdir()}


def test_an_objective_chooses_one_of_the_recipes_only(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A recipe of one's own says its objective itself."""
    with pytest.raises(SystemExit):
        main(["--objective", "causal", "--recipe", "mine.yaml"])
    assert "has the key `objective`" in capsys.readouterr().err


def test_a_run_that_stops_early_is_not_scored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A try of two steps takes what two steps take; it leaves a checkpoint, and says how to go on
    and to score it.
    """
    (tmp_path / "recipe.yaml").write_text(f"objective: diffusion\n{RECIPE.replace('1000', '10')}")
    command = ["--recipe", str(tmp_path / "recipe.yaml"), "--out", str(tmp_path / "run")]
    assert main([*command, "--steps", "2"]) == 0
    checkpoint = tmp_path / "run" / "checkpoint"
    said = capsys.readouterr()
    assert (
        f"written to {checkpoint}, not scored, as step 2 is not the last of 4; the same command"
        in said.out
    )
    assert "waiting_line/" not in said.err
    assert (checkpoint / "model.safetensors").is_file()
    assert not (checkpoint / "README.md").exists()
