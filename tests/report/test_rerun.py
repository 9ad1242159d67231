"""The commands that decode a sample again: exactly that cell and sample, off the default grid
too.
"""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from pbcore.report.rerun import rerun_of
from pbcore.results.rundir import StoredCell
from tests.results import factory


def stored(task: str = "waiting_line/insert_random", **facts: object) -> StoredCell:
    cell, samples = factory.cell(task=task, sampler="random-k3")
    return StoredCell(replace(cell, conditions=replace(cell.conditions, **facts)), tuple(samples))  # type: ignore[arg-type]


class TestCommand:
    def test_settings_of_the_run(self, tmp_path: Path) -> None:
        """Those of run.json that decide answers, zeros included; what selects cells is in the node
        id.
        """
        settings = {
            "profile": "quick",
            "limit": 4,
            "seed": [0, 1],
            "n": [3, 4],
            "shots": 0,
            "cot": True,
            "gpu": False,
        }
        settings |= {"tasks": ["a b.yaml", "c.yaml"], "dtype": "bfloat16"}
        words = shlex.split(
            rerun_of([stored()], {"settings": settings}, tmp_path)(
                "tiny/insert_random/random-k3", 2
            )
        )
        assert words[0] == "pytest"
        assert words[1].endswith("test_waiting_line.py::test_cell[tiny/insert_random/random-k3/2]")
        assert Path(words[1].partition("::")[0]).is_file()
        assert shlex.join(words[2:]) == "--seed 0,1 --n 3,4 --shots 0 --cot --dtype bfloat16"

    def test_a_model_that_is_not_on_this_machine(self, tmp_path: Path) -> None:
        """Its run was made elsewhere: all settings stay, since nobody knows which act on it."""
        cell, samples = factory.cell("ckpt/step=2000", "waiting_line/copy", "random-k3")
        entry = StoredCell(cell, tuple(samples))
        facts = {"settings": {"dtype": "bfloat16", "seed": [0]}}
        command = rerun_of([entry], facts, tmp_path)(cell.id, 2)
        assert command.endswith("--dtype bfloat16 --seed 0")

    def test_a_name_with_characters_that_shells_read(self, tmp_path: Path) -> None:
        """Is one word, with line breaks escaped as in node ids."""
        cell, samples = factory.cell("mü's [1]\n", "waiting_line/copy", "random-k3")
        command = rerun_of([StoredCell(cell, tuple(samples))], {}, tmp_path)(cell.id, 2)
        name = r"mü's [1]\x0a/copy/random-k3"
        assert shlex.split(command)[1].endswith(f"::test_cell[{name}/2]")

    def test_without_settings_the_record_tells(self, tmp_path: Path) -> None:
        """As in runs that were imported: device, seeds and options of the cell."""
        entry = stored(
            options={"limit": 4, "device": "cuda", "rounds": 1, "data_seed": 3},
            device="cuda",
            seeds=[5],
        )
        command = rerun_of([entry], {}, tmp_path)("tiny/insert_random/random-k3", 2)
        assert command.partition("]' ")[2] == "--data-seed 3 --gpu --seed 5"

    @pytest.mark.parametrize(
        ("task", "file"),
        [("puzzle/sudoku", "test_puzzles.py"), ("pantry/copy", "test_own_tasks.py")],
    )
    def test_the_file_of_the_task(self, tmp_path: Path, task: str, file: str) -> None:
        """In the project's own benches/ if it is there, and else in the package."""
        entry = stored(task)
        command = rerun_of([entry], {}, tmp_path)(entry.cell.id, 0)
        assert f"pbcore/benches/{file}::" in command
        (tmp_path / "benches").mkdir()
        (tmp_path / "benches" / file).touch()
        assert f" 'benches/{file}::test_cell[" in rerun_of([entry], {}, tmp_path)(entry.cell.id, 0)
