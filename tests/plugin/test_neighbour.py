"""Where pbcore is only installed, other projects run as if it weren't."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.plugin.conftest import Modules

CONFTEST = """
def pytest_addoption(parser):
    parser.addoption("--seed", default="none")
    parser.addoption("--model", action="append")
    parser.getgroup("own").addoption("--n", type=int)
"""
TESTS = """
import pytest

@pytest.mark.parametrize("url", ["GET/users/1", "a/b/c"])
def test_url(url, request):
    assert request.config.getoption("--seed") == "7"
    assert request.config.getoption("--n") == 3
    assert url != "GET/users/1"

@pytest.mark.parametrize("name", ["a/b/c"])
def test_cell(name):
    pass
"""


@pytest.fixture
def foreign(
    modules: Modules, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> pytest.Pytester:
    """A project with options and ids that look like ours."""
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "PYTEST_XDIST_TESTRUNUID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[2]))
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_foreign=TESTS)
    return pytester


class TestForeignProject:
    @pytest.mark.parametrize("workers", ["0", pytest.param("2", marks=pytest.mark.slow)])
    def test_its_options_and_ids_are_its_own(self, foreign: pytest.Pytester, workers: str) -> None:
        """Options of the same names are the project's, failures stand in the short summary, and
        nothing is written or shown.
        """
        arguments = [
            "--seed",
            "7",
            "--n",
            "3",
            "--model",
            "x",
            "-n",
            workers,
            "-p",
            "no:cacheprovider",
        ]
        result = foreign.runpytest_subprocess(*arguments)
        result.assert_outcomes(passed=2, failed=1)
        result.stdout.fnmatch_lines(["FAILED test_foreign.py::test_url?GET/users/1?*"])
        said = result.stdout.str().replace(sys.prefix, "")  # a failure's worker says its Python
        assert "pbcore" not in said.replace("pbcore-", "")
        assert not (foreign.path / "reports").exists()

    def test_ours_go_by_their_long_names_there(
        self, foreign: pytest.Pytester, modules: Modules
    ) -> None:
        """A cell runs beside such options, and commands are printed with the names that work."""
        foreign.makepyfile(
            test_own="""
            import pytest

            @pytest.mark.cells("waiting_line")
            def test_mine(cell, model, task, benchmark):
                cell.measure(model, task, benchmark)
            """
        )
        ours = [
            "--pbcore-model",
            "ideal",
            "--task",
            "shuffle",
            "--sampler",
            "random-k8",
            "--limit",
            "4",
        ]
        seed = ["--pbcore-seed", "2", "-x", "--seed", "7", "--n", "3"]
        result = foreign.runpytest_inprocess(
            "test_own.py",
            *ours,
            *seed,
            "-p",
            "no:cacheprovider",
            "-p",
            "no:hypothesispytest",
            plugins=[modules],
        )
        result.stdout.fnmatch_lines(["rerun this sample:  pytest *random-k8/* --pbcore-seed 2"])
