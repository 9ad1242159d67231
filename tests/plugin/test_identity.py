"""What counts as a cell is the same in every process, and a verdict that was requested is never
skipped in silence.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import pbcore
from tests.plugin.conftest import Run

CELLS = (
    "--model",
    "ideal",
    "--limit",
    "2",
    "--task",
    "copy",
    "--sampler",
    "random-k8",
    "--out",
    "out",
)
OWN = """
import pytest

@pytest.mark.cells("waiting_line")
def test_speed_of(cell, model, task, benchmark):
    cell.measure(model, task, benchmark)
"""
OTHER = """
import pytest

@pytest.mark.parametrize("text", ["ideal/copy/random-k8", "ideal/copy/random-k4", "a/b/c"])
def test_text(text):
    assert text
"""


def write(project: pytest.Pytester, name: str, text: str) -> str:
    (project.path / name).write_text(text)
    return name


class TestCells:
    def test_a_function_of_any_name_is_gated(
        self, in_process: Run, project: pytest.Pytester
    ) -> None:
        """What makes a cell is its mark and its name in the plan."""
        result = in_process(
            write(project, "test_own.py", OWN), *CELLS, "--floor 'ideal/copy/* accuracy>1'"
        )
        assert result.ret == pytest.ExitCode.TESTS_FAILED
        result.stdout.fnmatch_lines(["*FLOOR *ideal/copy/random-k8: * is 1 (floor *)"])
        assert pbcore.results.load(project.path / "out")["id"].tolist() == ["ideal/copy/random-k8"]

    def test_other_tests_with_such_parameters_are_no_cells(
        self, in_process: Run, project: pytest.Pytester
    ) -> None:
        """A test whose parameter reads like a cell of the run changes nothing about the cells."""
        file = write(project, "test_own.py", OWN)
        other = write(project, "test_other.py", OTHER)
        result = in_process(file, other, *CELLS)
        result.assert_outcomes(passed=4)
        assert "not finished" not in result.stdout.str()
        assert len(pbcore.results.load(project.path / "out")) == 1

    @pytest.mark.slow
    def test_a_worker_knows_cells_from_other_tests(
        self, in_process: Run, project: pytest.Pytester
    ) -> None:
        """What a worker ran counts as here: all tests run, one of them is a cell, and the floor
        judges that one.
        """
        file = write(project, "test_own.py", OWN)
        other = write(project, "test_other.py", OTHER)
        result = in_process(file, other, *CELLS, "--floor 'ideal/copy/* accuracy>1' -n 1")
        result.assert_outcomes(passed=4, failed=1)
        result.stdout.fnmatch_lines(["*FLOOR *ideal/copy/random-k8: accuracy is 1*"])
        assert "not finished" not in result.stdout.str()
        assert pbcore.results.load(project.path / "out")["id"].tolist() == ["ideal/copy/random-k8"]

    def test_a_cell_has_no_parameters_of_its_own(
        self, in_process: Run, project: pytest.Pytester
    ) -> None:
        """Its id could not say which variant it is."""
        own = OWN.replace(
            "@pytest.mark.cells", "@pytest.mark.parametrize('x', [1, 2])\n@pytest.mark.cells"
        )
        result = in_process(
            write(project, "test_own.py", own.replace("(cell,", "(x, cell,")), *CELLS
        )
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        assert "no parameters of its own" in result.stderr.str()

    @pytest.mark.parametrize("workers", ["0", pytest.param("1", marks=pytest.mark.slow)])
    def test_a_cell_is_collected_once(
        self, in_process: Run, project: pytest.Pytester, workers: str
    ) -> None:
        """Two files with the same cells would overwrite each other's records. No run is begun."""
        own = write(project, "test_own.py", OWN)
        result = in_process(own, "benches/test_waiting_line.py", *CELLS, "-n", workers)
        assert result.ret == (
            pytest.ExitCode.USAGE_ERROR if workers == "0" else pytest.ExitCode.INTERRUPTED
        )
        said = result.stderr.str() + result.stdout.str()
        assert "the same cell is collected twice" in said
        assert "no collected test" not in said
        assert "resume" not in said
        assert not (project.path / "reports").exists()

    @pytest.mark.parametrize(
        ("old", "new", "said"),
        [
            ("cell, model, task, benchmark)", "benchmark)", "does not take the fixture `cell`"),
            ('"waiting_line"', '"waiting_lane"', "no task has the category 'waiting_lane'"),
            ("@pytest.mark.cells", "# ", "is not marked"),
        ],
    )
    def test_half_a_cell_is_named(
        self, in_process: Run, project: pytest.Pytester, old: str, new: str, said: str
    ) -> None:
        """The mark without the fixture, or the fixture without the mark, is an error that says what
        is missing.
        """
        result = in_process(write(project, "test_own.py", OWN.replace(old, new)), *CELLS)
        assert result.ret != pytest.ExitCode.OK
        assert said in result.stdout.str() + result.stderr.str()


class TestNothingJudged:
    @pytest.mark.parametrize(
        ("workers", "options"),
        [
            ("0", ["--floor"]),
            ("0", ["--update-baseline"]),
            pytest.param("1", ["--floor", "--update-baseline"], marks=pytest.mark.slow),
        ],
    )
    def test_a_verdict_without_cells_fails(
        self, in_process: Run, project: pytest.Pytester, workers: str, options: list[str]
    ) -> None:
        """Other tests pass, but nothing was judged: exit code 1, and the screen says so."""
        values = {"--floor": "ideal/* accuracy>=0", "--update-baseline": "b.json"}
        requested = [word for option in options for word in (option, values[option])]
        result = in_process(
            write(project, "test_other.py", OTHER), *CELLS[:2], *requested, "-n", workers
        )
        assert result.ret == pytest.ExitCode.TESTS_FAILED
        result.stdout.fnmatch_lines([f"gate FAILED: {' and '.join(options)}: the run has no cell*"])
        assert not Path("b.json").exists()

    def test_an_empty_baseline_is_refused(self, run: Run, project: pytest.Pytester) -> None:
        """It would judge no cell; the error names the file before anything runs."""
        (project.path / "empty.json").write_text('{"schema": 2, "cells": {}}')
        result = run(*CELLS, "--gate empty.json")
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines(["ERROR: --gate: *empty.json has {} as cells*at least one*"])

    def test_gates_of_an_ini_file_leave_other_tests_alone(
        self, in_process: Run, project: pytest.Pytester
    ) -> None:
        """A project's unit tests pass under its settings; the screen says that no gate was
        applied.
        """
        project.makeini("[pytest]\npbcore_floor = ideal/* accuracy>=0\n")
        result = in_process(write(project, "test_other.py", OTHER))
        assert result.ret == pytest.ExitCode.OK
        result.stdout.fnmatch_lines(
            ["no cell in this run: the gates and floors that *tox.ini sets were not applied"]
        )

    def test_single_samples_are_not_judged(self, in_process: Run, project: pytest.Pytester) -> None:
        """A sample named in a node id with a gate on the command line is a usage error, not a gate
        that says nothing.
        """
        node = "benches/test_waiting_line.py::test_cell[ideal/copy/random-k8/1]"
        result = in_process(node, "--floor 'ideal/* accuracy>=0'")
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        assert "single samples can't be judged" in result.stderr.str()

    def test_collecting_alone_judges_nothing(
        self, in_process: Run, project: pytest.Pytester
    ) -> None:
        """`--co` lists tests, also where none of them is a cell; a requested verdict waits for a
        run.
        """
        result = in_process(
            write(project, "test_other.py", OTHER), "--co -q --floor 'ideal/* accuracy>=0'"
        )
        assert result.ret == pytest.ExitCode.OK
        assert "gate FAILED" not in result.stdout.str()

    def test_a_selection_that_leaves_no_cell_is_named(self, run: Run) -> None:
        """The screen counts the cells that -k, -m or --shard leaves out."""
        cells = CELLS[:-2]
        run(*cells, "-k nothing").stdout.fnmatch_lines(
            ["none of 1 cell matches 'nothing'; `--co -q` lists them"]
        )
        run(*cells, "-m ci").stdout.fnmatch_lines(["none of 1 cell matches 'ci'; *"])
        run(*cells, "--shard 2/2").stdout.fnmatch_lines(
            ["none of 1 cell matches 'the selection'; *"]
        )
        other = run("--model ideal --task summarization")
        other.stdout.fnmatch_lines(["no cell is left to measure"])
        assert "none of" not in other.stdout.str()
