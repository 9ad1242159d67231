"""`project`: a fresh folder with the repository's own cells and fixtures, to run pytest in."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

# Imported before any run in this process: pytester forgets modules that a run imports, and torch can't be imported twice.
import pbcore.decoding
import pbcore.metrics
import pbcore.models.ideal
import pbcore.report.markdown
import pbcore.results.resume
import tests.plugin.toys  # noqa: F401

ROOT = Path(__file__).resolve().parents[2]
CONFTEST = """
pytest_plugins = ["fixtures.benchmark", "fixtures.cells", "fixtures.models"]
from tests.plugin.toys import register
register()
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """benches/ as they are in the repository, one list operation a run unless a test asks for more."""
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    pytester.syspathinsert(ROOT)
    pytester.makeconftest(CONFTEST)
    pytester.makeini("[pytest]\njunit_family = xunit1\nmarkers = quick: x\n")
    (pytester.path / "benches").mkdir()
    for file in (ROOT / "benches").glob("test_*.py"):
        if "mark.cells" in file.read_text():
            shutil.copy(file, pytester.path / "benches")
    return pytester


Run = Callable[..., pytest.RunResult]


@pytest.fixture
def run(project: pytest.Pytester) -> Run:
    """Runs `pytest benches …` in this process."""

    def go(*arguments: str) -> pytest.RunResult:
        return project.runpytest_inprocess("benches", "-p", "no:cacheprovider", *arguments)

    return go


SMALL = ("--model", "ideal", "--limit", "4", "--out", "out")
