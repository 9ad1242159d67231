"""The commands that decode a cell or a sample again: exactly that one, off the default grid too."""

from __future__ import annotations

import shlex
from dataclasses import replace

import pytest

from pbcore.grid.cellid import CellName
from pbcore.report.rerun import cell_command, recorded_command, rerun_of
from pbcore.results.rundir import StoredCell
from tests.results import factory

NAME = "tiny/insert_random/random-k3"


def stored(task: str = "waiting_line/insert_random", **facts: object) -> StoredCell:
    cell, samples = factory.cell(task=task, sampler="random-k3")
    return StoredCell(replace(cell, conditions=replace(cell.conditions, **facts)), tuple(samples))  # type: ignore[arg-type]


class TestCommand:
    def test_settings_of_the_run(self) -> None:
        """Those of run.json that decide answers and aren't the default, zeros included; what
        selects cells is in the name.
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
        words = shlex.split(rerun_of([stored()], {"settings": settings})(NAME, 2))
        assert words[:2] == ["pytest", f"{NAME}/2"]
        assert set(shlex.join(words[2:]).replace(" --", "|--").split("|")) == {
            "--seed 0,1",
            "--n 3,4",
            "--shots 0",
            "--cot",
            "--dtype bfloat16",
        }

    def test_defaults_are_left_out(self) -> None:
        """A seed of 0 as a record has it."""
        assert rerun_of([stored()], {"settings": {"seed": [0]}})(NAME, 2) == f"pytest {NAME}/2"

    def test_a_model_that_is_not_on_this_machine(self) -> None:
        """Its run was made elsewhere: all settings stay, since nobody knows which act on it."""
        cell, samples = factory.cell("ckpt/step=2000", "waiting_line/copy", "random-k3")
        entry = StoredCell(cell, tuple(samples))
        facts = {"settings": {"dtype": "bfloat16", "seed": [3]}}
        words = shlex.split(rerun_of([entry], facts)(cell.id, 2))  # type: ignore[arg-type]
        assert words[1] == "ckpt/step=2000/copy/random-k3/2"
        assert {*words[2:]} == {"--dtype", "bfloat16", "--seed", "3"}

    def test_a_name_with_characters_that_shells_read(self) -> None:
        """Is one word, with line breaks escaped as in node ids."""
        cell, samples = factory.cell("mü's [1]\n", "waiting_line/copy", "random-k3")
        command = rerun_of([StoredCell(cell, tuple(samples))], {})(cell.id, 2)
        assert shlex.split(command)[1] == r"mü's [1]\x0a/copy/random-k3/2"

    def test_without_settings_the_record_tells(self) -> None:
        """As in runs that were imported: device, seeds and options of the cell."""
        entry = stored(
            options={"limit": 4, "device": "cuda", "rounds": 1, "data_seed": 3},
            device="cuda",
            seeds=[5],
        )
        words = shlex.split(rerun_of([entry], {})(NAME, 2))
        assert {*words[2:]} == {"--data-seed", "3", "--gpu", "--seed", "5"}

    def test_a_whole_cell(self) -> None:
        """Has as many questions as were asked."""
        entry = stored(options={"n": [5]}, seeds=[0])
        command = recorded_command(entry.cell, {})
        assert command == f"pytest {NAME} --n 5 --limit {entry.cell.n_samples}"

    def test_a_level_is_an_option(self) -> None:
        """So that the name stays that of a cell; a word of a path is the path again."""
        entry = stored(
            level={"threads": 2, "shots": "default", "cot": "on", "adapter": "lora"},
            options={"cot": True, "adapter": "/else/where/lora"},
            seeds=[0],
        )
        command = recorded_command(replace(entry.cell, id=f"{NAME}/…"), {}, 1)
        assert command == f"pytest {NAME}/1 --adapter /else/where/lora --threads 2 --cot"

    @pytest.mark.parametrize("place", ["", "own/cells.py::test_mine"])
    def test_a_file_of_ones_own(self, place: str) -> None:
        """Its cells are named by their node id."""
        name = CellName("tiny", "waiting_line/copy", "random-k3", 1)
        word = f"{place}[tiny/copy/random-k3/1]" if place else "tiny/copy/random-k3/1"
        assert shlex.split(cell_command(name, {}, place=place)) == ["pytest", word]
