"""Runs in a folder without this repository's `benches`, as with an editable install: the package's
files stand below a conftest.py that isn't the folder's.
"""

from __future__ import annotations

import shutil

import pytest

from tests.plugin.conftest import Run

SHUFFLE = "ideal/shuffle/random-k8"
STOCK = "benches/test_waiting_line.py"


@pytest.fixture
def outside(project: pytest.Pytester, in_process: Run) -> Run:
    shutil.rmtree(project.path / "benches")
    return in_process


@pytest.mark.parametrize("workers", ["0", pytest.param("1", marks=pytest.mark.slow)])
def test_a_cells_name_runs(outside: Run, project: pytest.Pytester, workers: str) -> None:
    """As the page of each answer advises; with a worker, too, under the folder's own settings."""
    project.makeini("[pytest]\npbcore_limit = 2\n")
    outside(SHUFFLE, "-n", workers, "--out out").assert_outcomes(passed=1)
    assert (project.path / "out" / "samples.jsonl").read_text().count("\n") == 2


@pytest.mark.parametrize(
    ("typed", "instead"),
    [
        (["benches", "--limit", "2"], "--pyargs pbcore.benches --limit 2"),
        (["benches/"], "--pyargs pbcore.benches"),
        ([STOCK, "-x"], "--pyargs pbcore.benches.test_waiting_line -x"),
        (
            [f"{STOCK}::test_cell[{SHUFFLE}/0]"],
            f"--pyargs 'pbcore.benches.test_waiting_line::test_cell[{SHUFFLE}/0]'",
        ),
        (["benches", SHUFFLE], SHUFFLE),
    ],
)
def test_the_repositorys_folder_is_named_elsewhere(
    outside: Run, typed: list[str], instead: str
) -> None:
    """One line gives the command to type in its place."""
    told = outside(*typed)
    assert told.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = [line for line in told.errlines if line]
    command = line.partition(" any folder: pytest ")[2]
    assert command.replace("-p no:cacheprovider ", "") == instead


def test_that_command_runs(outside: Run) -> None:
    """A sample's node id, as a package's."""
    node = f"pbcore.benches.test_waiting_line::test_cell[{SHUFFLE}/0]"
    told = outside("--pyargs", node, "--limit 1")
    assert sum(told.parseoutcomes().get(word, 0) for word in ("passed", "failed")) == 1


@pytest.mark.parametrize("missing", ["benches/test_engine_speed.py", "benches/x/y.py", "bench"])
def test_other_places_are_pytests_to_refuse(outside: Run, missing: str) -> None:
    """What the package doesn't have."""
    outside(missing).stderr.fnmatch_lines([f"ERROR: file or directory not found: {missing}"])
