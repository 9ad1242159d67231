"""The commands that decode a cell or a sample again: exactly that one, off the default grid too."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from pbcore.grid.cellid import CellText
from pbcore.report.rerun import cell_command, recorded_command, rerun_of
from pbcore.results.rundir import RunFacts, StoredCell
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

    def test_an_ini_file_states_another_value(self) -> None:
        """What was typed against it is printed though it is the default; a switch that is off has
        no word.
        """
        facts: RunFacts = {"settings": {"seed": [0]}, "commands": {"stated": ["seed", "n", "cot"]}}
        assert recorded_command(stored().cell, facts, 1) == f"pytest {NAME}/1 --seed 0"

    def test_names_that_another_plugin_took(self) -> None:
        """Have their long form."""
        facts: RunFacts = {"settings": {"seed": [3], "n": [4]}, "commands": {"long": ["seed"]}}
        assert recorded_command(stored().cell, facts, 1) == f"pytest {NAME}/1 --pbcore-seed 3 --n 4"

    def test_paths_begin_here(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Of files, folders, checkpoints and test functions; what isn't there stays as it is."""
        for name in ("a b/müller", "below"):
            (tmp_path / name).mkdir(parents=True)
        for name in ("a b/own.yaml", "a b/test_mine.py"):
            (tmp_path / name).touch()
        cell, samples = factory.cell("müller", "waiting_line/copy", "random-k3")
        facts: RunFacts = {
            "settings": {"data_dir": "gone", "seed": [0]},
            "commands": {
                "folder": str(tmp_path / "a b"),
                "files": {cell.id: "test_mine.py::test_mine"},
            },
        }
        monkeypatch.chdir(tmp_path / "below")
        words = shlex.split(rerun_of([StoredCell(cell, tuple(samples))], facts)(cell.id, 2))
        place = "../a b/test_mine.py::test_mine[../a b/müller/copy/random-k3/2]"
        assert words == ["pytest", place, "--data-dir", "gone"]
        facts = {"settings": {"tasks": ["own.yaml"]}, "commands": {"folder": str(tmp_path / "a b")}}
        own = replace(cell, task="kitchen/own", id="müller/kitchen/own/random-k3")
        words = shlex.split(recorded_command(own, facts, 2))
        assert words[1:] == ["../a b/müller/kitchen/own/random-k3/2", "--tasks", "../a b/own.yaml"]

    def test_a_merged_run(self) -> None:
        """A cell has the options of a part that has its model."""
        parts = [
            {"settings": {"n": [4]}, "planned": {"models": ["ideal"]}},
            {"settings": {"n": [6]}, "planned": {"models": ["tiny"]}},
        ]
        assert (
            recorded_command(stored().cell, {"merged_from": parts}, 1) == f"pytest {NAME}/1 --n 6"
        )

    def test_chosen_questions(self) -> None:
        """A whole cell has those of its task in place of a number."""
        chosen = ["insert_random=3,5", "copy=0-9"]
        command = recorded_command(stored().cell, {"settings": {"questions": chosen}})
        assert command == f"pytest {NAME} --questions insert_random=3,5"

    def test_a_cell_that_failed(self) -> None:
        """As many questions as it was to answer."""
        cell = replace(stored(options={"limit": 7}).cell, n_samples=0, status="error")
        assert recorded_command(cell, {"settings": {"n": [4]}}) == f"pytest {NAME} --n 4 --limit 7"

    def test_a_directory_that_an_ini_file_names(self) -> None:
        """Is taken: a whole cell gets another, a sample writes nothing."""
        facts: RunFacts = {"settings": {"n": [4]}, "commands": {"stated": ["out"]}}
        assert recorded_command(stored().cell, facts).endswith(" --out reports/again")
        assert recorded_command(stored().cell, facts, 1) == f"pytest {NAME}/1 --n 4"

    @pytest.mark.parametrize("place", ["", "own/cells.py::test_mine"])
    def test_a_file_of_ones_own(self, place: str) -> None:
        """Its cells are named by their node id."""
        name = CellText("tiny", "waiting_line/copy", "random-k3", 1)
        word = f"{place}[tiny/copy/random-k3/1]" if place else "tiny/copy/random-k3/1"
        assert shlex.split(cell_command(name, {}, place=place)) == ["pytest", word]
