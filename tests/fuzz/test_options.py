"""Command lines of a run: every one makes a plan in which each option acts on a cell, or is refused
in one line; none ends in a traceback, takes for ever, or names an option that is not used.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from random import Random
from typing import Any, NoReturn

import pytest

from pbcore.base.errors import InputError
from pbcore.grid.needs import Use, acts, refuse_idle
from pbcore.grid.plan import make_plan
from pbcore.grid.profiles import with_preset
from pbcore.grid.settings import OPTIONS, Settings
from pbcore.grid.validate_settings import check as check_together
from pbcore.plugin.options import usage_errors
from pbcore.tasks import task_spec
from tests.fuzz.damage import damaged_text, noise
from tests.fuzz.outcomes import Silent, fuzz, one_line

COUNTS = (
    pytest.param(150, id="quick"),
    pytest.param(1_500, id="nightly", marks=pytest.mark.nightly),
)
OWN = """
kitchen/reverse:
  generator: reverse
  scorer: list_match
  lengths: [3]
  samples: 4
  max_new_tokens: 32
  prompt: "Reverse: {context}"
kitchen/flags:
  samples: flags.jsonl
  scorer: list_match
  max_new_tokens: 16
  prompt: "Colours of {country}?"
"""
ROWS = [{"input": {"country": "France"}, "answer": '["blue", "white", "red"]'}]
GOOD = {
    "model": [
        "ideal",
        "tiny",
        "tiny-block",
        "tiny-ar",
        "tiny-sedd",
        "llada-8b:dummy-l1",
        "mercury",
    ],
    "sampler": [
        "random-k1",
        "confidence-k2+b8",
        "threshold-0.9+prefix",
        "ar",
        "analytic-s4",
        "random-k4+t1.0+x2",
        "ar-draft5",
    ],
    "task": [
        "copy",
        "list_ops/shuffle",
        "w2s_easy",
        "summarization",
        "sudoku",
        "latin_square",
        "walk/graph",
        "questions/shuffle-x2",
        "kitchen/*",
        "kitchen/flags",
        "puzzle/*",
    ],
    "profile": ["quick", "ci"],
    "preset": ["parallelbench-tables-k2", "parallelbench-cot", "dparallel-dream"],
    "limit": ["1", "3", "50"],
    "device": ["cpu", "cuda", "mps"],
    "dtype": ["float32", "bfloat16", "float64"],
    "quantization": ["torchao-int8"],
    "batch_size": ["1", "8", "1,4"],
    "threads": ["1", "2"],
    "factor": ["threads=1,2", "dtype=float32,bfloat16"],
    "seed": ["0", "0-4", "3,5"],
    "n": ["5", "3-6", "15", "2,9", "61", "700"],
    "shots": ["0", "2", "8"],
    "max_new_tokens": ["16", "64", "65536"],
    "cot_answer": ["marked", "whole"],
    "sample": ["0", "2", "200"],
    "shard": ["1/2", "3/8"],
    "tasks": ["own.yaml", "none.yaml"],
    "draft": ["tiny-ar", "ideal"],
    "rounds": ["1", "3"],
    "gate_level": ["0.05", "1%"],
    "gate_time": ["10%"],
    "data_dir": [".", "nowhere"],
}
HUGE = ["9" * 5, "9" * 12, "9" * 5000, "0-" + "9" * 9, "1/" + "9" * 9, "1" + ",1" * 3000, "-1", ""]
LATER = ("out", "resume", "update_baseline", "ray", "ray_gpus", "ray_cpus", "ray_workers")


class Refusal(argparse.ArgumentParser):
    """A parser that raises what it would print."""

    def error(self, message: str) -> NoReturn:
        raise InputError(message)


def parser() -> Refusal:
    made = Refusal(add_help=False, allow_abbrev=False)
    for option in OPTIONS:
        option.add(made.add_argument, f"--{option.name}", "")
    return made


PARSER = parser()


def words(random: Random) -> list[str]:
    """A command line of up to seven options, most of them as they should be."""
    given = ["--task", random.choice(GOOD["task"])] if random.random() < 0.9 else []
    given += ["--limit", random.choice(GOOD["limit"])]
    if random.random() < 0.9:
        given += ["--model", random.choice(GOOD["model"])]
    for option in random.sample(OPTIONS, random.randint(0, 4)):
        if option.field in LATER or option.field.startswith("lm_eval"):
            continue
        given.append(f"--{option.name}")
        if option.kind is not None:
            value = random.choice(GOOD.get(option.field, ["x", "1", "."]))
            how = random.random()
            if how < 0.08:
                value = damaged_text(random, value)
            elif how < 0.12:
                value = noise(random)[:60]
            elif how < 0.2:
                value = random.choice(HUGE)
            given.append(value)
    return given


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "own.yaml").write_text(OWN)
    (tmp_path / "flags.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def check(given: list[str]) -> None:
    parsed = PARSER.parse_args(given)
    values: dict[str, Any] = {}
    for option in OPTIONS:
        value = getattr(parsed, option.dest)
        if value is not None:
            values[option.field] = tuple(value) if option.many else value
    with usage_errors():
        planned(values)


def planned(values: dict[str, Any]) -> None:
    """Plans a run as the plugin does, before it collects."""
    settings = check_together(Settings.of(**with_preset(values, OPTIONS)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plan = make_plan(settings)
        items = list(plan.items.values())
    if not items:
        raise InputError("no cell is left to measure")
    uses = [Use.of(settings, cell, plan.drilled) for cell in items]
    refuse_idle(values.keys(), uses, lambda option: f"--{option.name}")
    for field in ("n", "shots", "max_new_tokens", "data_seed"):
        if field in values:
            changed(field, values, uses, plan)


def changed(field: str, values: dict[str, Any], uses: list[Use], plan: Any) -> None:
    """Raises Silent where the questions of a cell on which an option acts don't show it, or those
    of another do.
    """
    for use in uses:
        task = plan.task(use.cell.task, use.cell.model)
        sample = task.samples[0]
        if field == "n" and acts("n", use):
            wrong = {one.length for one in task.samples} - set(values["n"])
        elif field == "n":
            wrong = {one.length for one in task.samples} & (
                set(values["n"]) - set(task_spec(use.cell.task).lengths or values["n"])
            )
        elif field == "shots" and acts("shots", use):
            wrong = {len(one.messages) for one in task.samples} - {1 + 2 * values["shots"]}
        elif field == "max_new_tokens" and acts("max_new_tokens", use):
            wrong = {one.max_new_tokens for one in task.samples} - {values["max_new_tokens"]}
        else:
            continue
        if wrong:
            raise Silent(f"{field} of {use.cell.item_id}: {wrong}, as in sample {sample.index}")


@pytest.mark.parametrize("count", COUNTS)
def test_options(folder: Path, count: int) -> None:
    """Options of all kinds, right, damaged and huge, in any company."""
    fuzz("options", count, words, check, (InputError, pytest.UsageError))


@pytest.mark.parametrize("option", [option for option in OPTIONS if option.kind is not None])
@pytest.mark.parametrize("value", HUGE)
def test_huge_values(option: Any, value: str) -> None:
    """A value that no run can mean is read or refused in one line, at once."""
    said = "read"
    try:
        PARSER.parse_args([f"--{option.name}={value}"])
    except InputError as error:
        said = str(error)
    assert "Kind(" not in said
    assert one_line(said)
