"""`--adapter DIR` and `--model MODEL+DIR`: cells of a model with an adapter."""

from __future__ import annotations

from pathlib import Path

import pytest

import pbcore
from tests.models.shapes import checkpoint
from tests.models.test_adapter import write
from tests.plugin.conftest import Run

CELL = ("--task", "list_ops/shuffle", "--sampler", "random-k2", "--limit", "2")


@pytest.fixture
def model(project: pytest.Pytester) -> Path:
    write(project.path / "adapters").rename(project.path / "shuffle")
    return checkpoint(project.path / "model", "llada")


def test_the_record_says_which_adapter_and_the_key_depends_on_it(
    run: Run, model: Path, project: pytest.Pytester
) -> None:
    """A model beside itself with an adapter; the name splits at the task, whatever the folder is
    called.
    """
    run("--model model --model model+shuffle", *CELL, "--out", "a").assert_outcomes(passed=2)
    plain, adapted = pbcore.results.load(project.path / "a").to_dict("records")
    assert (plain["model"], adapted["model"]) == ("model", "model+shuffle")
    assert adapted["task"] == "list_ops/shuffle"
    assert "adapter" not in plain["model_identity"]
    assert adapted["model_info"]["lora"]["targets"] == ["q_proj"]
    assert plain["key"] != adapted["key"]
    before = adapted["model_identity"]["adapter"]
    write(project.path / "shuffle", lora_alpha=9)
    run("--model model --model model+shuffle", *CELL, "--resume", "a").assert_outcomes(passed=2)
    again = pbcore.results.load(project.path / "a").set_index("model")
    assert again.loc["model", "key"] == plain["key"]
    assert again.loc["model+shuffle", "key"] != adapted["key"]
    assert again.loc["model+shuffle", "model_identity"]["adapter"] != before


def test_the_option_is_recorded(run: Run, model: Path, project: pytest.Pytester) -> None:
    run("--model model --adapter shuffle", *CELL, "--out", "a").assert_outcomes(passed=1)
    row = pbcore.results.load(project.path / "a").iloc[0]
    assert row["options"]["adapter"] == "shuffle"
    assert row["model_info"]["lora"]["rank"] == 2


def test_a_gate_says_that_the_adapter_is_another(run: Run, model: Path) -> None:
    """The cell's name is the same, its weights are not: the gate judges them."""
    run("--model model", *CELL, "--out", "a").assert_outcomes(passed=1)
    output = run("--model model --adapter shuffle", *CELL, "--gate", "a")
    output.stdout.fnmatch_lines(
        ["gate * a (other weights): *", "of the model's files these differ: adapter"]
    )
    assert "refused" not in output.stdout.str().lower()


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (
            "--model model --adapter none",
            "*--adapter: model*there is no adapter in the folder 'none'*",
        ),
        ("--model model --model ideal --adapter shuffle", "*--adapter belongs to one model*"),
        ("--model model+none", "*--model: model*there is no adapter in the folder 'none'*"),
    ],
)
def test_wrong_options_are_told_before_anything_runs(
    run: Run, model: Path, given: str, line: str
) -> None:
    output = run(given, *CELL)
    assert output.ret == pytest.ExitCode.USAGE_ERROR
    output.stderr.fnmatch_lines([line])
