"""pbcore.ruling: what a whole run is judged by, and what that says on the screen, in JUnit and in Markdown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pbcore.errors import InputError
from pbcore.grid.plan import make_plan
from pbcore.grid.settings import Settings
from pbcore.report.gates import rerun_command
from pbcore.results import RunDir, create
from pbcore.results.baseline import write_baseline
from pbcore.ruling import Ruling, check_gates, nothing_to_judge, rule
from tests.results import factory

NAME = "tiny/shuffle/confidence-k2"
BELOW = "* accuracy>=0.98"


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    """A run of one cell, 18 of 20 right."""
    made = factory.write(create(tmp_path, "run"), [factory.cell()])
    made.write_run({"machine": {"cpu": "x"}})
    return made


def ruled(run: RunDir, complete: bool = True, **settings: Any) -> Ruling:
    plan = make_plan(Settings(model=("ideal",), task=("copy",), **settings))
    return rule(plan, run, complete, rerun_command, print)


def baseline(path: Path, **facts: Any) -> Path:
    run = factory.write(create(path.parent, f"run of {path.stem}"), [factory.cell(**facts)])
    return write_baseline(path, run.read_cells())


class TestGates:
    def test_each_baseline_is_judged_and_names_its_failures(self, run: RunDir, tmp_path: Path) -> None:
        """The same cell passes against the one and fails against the other; both stand in text and Markdown."""
        same, faster = baseline(tmp_path / "same.json"), baseline(tmp_path / "faster.json", nfe=8)
        ruling = ruled(run, gate=(same, faster))
        assert [text.split(":")[0] for text in ruling.text] == [
            f"gate PASSED against {same}",
            f"gate FAILED against {faster}",
        ]
        assert len(ruling.markdown) == 2
        ((name, reason),) = ruling.failures
        assert name == f"{faster}::{NAME}"
        assert reason.startswith("slower: greedy decoding must repeat exactly")

    def test_floors_are_judged_once_beside_several_baselines(self, run: RunDir, tmp_path: Path) -> None:
        """With the first of them."""
        both = (baseline(tmp_path / "a.json"), baseline(tmp_path / "b.json"))
        assert [name for name, _ in ruled(run, gate=both, floor=(BELOW,)).failures] == [f"{both[0]}::{NAME}"]

    def test_floors_alone_say_nothing_of_comparisons(self, run: RunDir) -> None:
        """Title and broken cells on the screen, in Markdown and in JUnit."""
        ruling = ruled(run, floor=(BELOW, "* nfe<=16"))
        assert ruling.text[0] == "floors BROKEN: 2 asked for, 1 cells below"
        assert ruling.text[1].startswith(f"  FLOOR    {NAME}: accuracy is 0.9")
        assert [name for name, _ in ruling.failures] == [f"floors::{NAME}"]
        assert ruling.markdown == [f"### {ruling.text[0]}\n\n- `{NAME}`: accuracy is 0.9 (floor '* accuracy>=0.98')\n"]
        kept = ruled(run, floor=("* nfe<=16",))
        assert (kept.text, kept.failures) == (["floors kept: 1 asked for, 0 cells below"], [])

    def test_a_baseline_of_other_cells_fails(self, run: RunDir, tmp_path: Path) -> None:
        """Its rows are missing, the run's are new: nothing passed."""
        other = baseline(tmp_path / "other.json", sampler="random-k1")
        assert [reason.split(":")[0] for _, reason in ruled(run, gate=(other,)).failures] == ["missing"]

    def test_a_run_without_settings_to_judge_by_passes(self, run: RunDir) -> None:
        """Nothing is said."""
        assert ruled(run) == Ruling()


class TestTime:
    def test_cells_that_are_slower_fail_and_are_named(self, run: RunDir, tmp_path: Path) -> None:
        """A time gate that could judge no cell fails as a whole: here a run has one round only."""
        earlier = factory.write(create(tmp_path, "earlier"), [factory.cell()])
        earlier.write_run({"machine": {"cpu": "x"}})
        ruling = ruled(run, gate=(earlier.path,), gate_time=0.1)
        assert ruling.failures == [("time", "no cell's time could be judged, for the reasons given with each base")]
        assert "1 and 1 rounds" in "\n".join(ruling.text)
        assert ruling.text[-1].startswith("timing FAILED: ")
        assert ruling.markdown[-1].startswith(f"### timing against {earlier.path}:")


class TestUpdate:
    def test_a_complete_run_becomes_the_baseline(self, run: RunDir, tmp_path: Path) -> None:
        """The screen says where it is."""
        file = tmp_path / "new.json"
        ruling = ruled(run, update_baseline=file)
        assert (ruling.text, ruling.failures) == ([f"baseline written: {file} (1 cells)"], [])
        assert ruled(run, gate=(file,)).failures == []

    def test_a_part_of_a_run_does_not(self, run: RunDir, tmp_path: Path) -> None:
        """Rows that are missing would be missing in every later gate; a file that can't be written fails, too."""
        file = tmp_path / "new.json"
        ruling = ruled(run, complete=False, update_baseline=file)
        assert ruling.text == ["no baseline written: the run is not complete"]
        assert ruling.failures == [(f"update of {file}", ruling.text[0])]
        assert not file.exists()
        assert [name for name, _ in ruled(run, update_baseline=tmp_path).failures] == [f"update of {tmp_path}"]


class TestNothingToJudge:
    def test_what_the_command_line_requests_fails(self) -> None:
        """With the options as written."""
        ruling = nothing_to_judge(["--gate", "--floor"], None)
        assert ruling.failures[0][1].startswith("--gate and --floor: the run has no cell")
        assert ruling.markdown == [f"### gate FAILED\n\n{ruling.failures[0][1]}\n"]

    def test_what_the_ini_file_sets_is_told(self) -> None:
        """A project's other tests run under it, too."""
        ruling = nothing_to_judge([], Path("pytest.ini"))
        assert (ruling.failures, ruling.markdown) == ([], [])
        assert "pytest.ini sets were not applied" in ruling.text[0]


class TestCheckGates:
    @pytest.mark.parametrize(
        ("settings", "said"),
        [
            ({"gate": (Path("no.json"),)}, "--gate: no baseline at no.json"),
            ({"floor": ("x",)}, "--floor: floor 'x' can't be parsed"),
            ({"against": "no-such-branch"}, "--against: 'no-such-branch' is neither"),
        ],
    )
    def test_what_cannot_be_read_is_named_before_the_run(self, settings: dict[str, Any], said: str) -> None:
        """With the option that gave it."""
        with pytest.raises(InputError) as raised:
            check_gates(Settings(**settings))
        assert str(raised.value).startswith(said)
