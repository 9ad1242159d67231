"""`project`: a fresh folder with the repository's own cells and fixtures, to run pytest in."""

from __future__ import annotations

import gc
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib.metadata import Distribution, PathDistribution
from pathlib import Path
from types import ModuleType

import pytest

from pbcore.plugin import run_lifecycle
from pbcore.report import markdown
from pbcore.report.page import write
from tests.warm_python import warm_workers

ROOT = Path(__file__).resolve().parents[2]
CONFTEST = """
from tests.plugin.toys import register
register()
"""


@pytest.fixture(scope="session", autouse=True)
def entry_points() -> Iterator[None]:
    """Every run inside asks all installed packages for their entry points; here each file is read
    once.
    """
    read = cache(lambda place: Distribution.entry_points.fget(PathDistribution(place)))  # type: ignore[attr-defined]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PathDistribution, "entry_points", property(lambda one: read(one._path)))
        yield


class Modules:
    """Remembers what a run imported: pytester forgets it, and C extensions such as numpy's can't be
    imported twice in a process.
    """

    def __init__(self) -> None:
        self.found: dict[str, ModuleType] = {}

    def pytest_unconfigure(self) -> None:
        self.found.update(sys.modules)

    def keep(self) -> None:
        """Puts them back, except those of the run's own folder."""
        for name, module in self.found.items():
            if name != "conftest" and not name.startswith("test_"):
                sys.modules.setdefault(name, module)


@pytest.fixture(scope="session", autouse=True)
def workers() -> Iterator[None]:
    """Workers of runs inside need not import torch and the like."""
    with warm_workers():
        yield


@pytest.fixture
def modules() -> Iterator[Modules]:
    """Set up before pytester and so ended after it, which forgets once more at its own end."""
    found = Modules()
    yield found
    found.keep()


@pytest.fixture
def project(
    modules: Modules,
    registries: None,
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
) -> pytest.Pytester:
    """benches/ as they are in the repository, one list operation a run unless a test asks for
    more.
    """
    gc.collect()
    # pytest collects garbage twice a run; looking through all modules takes half of a small run's
    # time
    gc.freeze()
    for name in ("CI", "BUILD_NUMBER"):
        monkeypatch.delenv(
            name, raising=False
        )  # there pytest repeats whole messages in its short summary
    for name in (
        "GITHUB_STEP_SUMMARY",
        "PYTEST_XDIST_WORKER",
        "PYTEST_XDIST_WORKER_COUNT",
        "PYTEST_XDIST_TESTRUNUID",
    ):
        monkeypatch.delenv(
            name, raising=False
        )  # a run inside must not take itself for a worker of the run outside
    monkeypatch.setattr(
        sys, "dont_write_bytecode", True
    )  # files of a run change within the second that it goes by
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv(
        "PYTEST_ADDOPTS", "-p no:hypothesispytest"
    )  # which every worker would import, for a second
    monkeypatch.setattr(
        "os.fsync", lambda descriptor: None
    )  # a tenth of a small run's time, for power cuts alone
    # Curves cost more than all else in a run of two cells; the test that looks for them puts them
    # back.
    monkeypatch.setattr(markdown, "write_plots", lambda cells, path, speed, chosen: [])
    monkeypatch.setattr(write, "_picture", lambda cells, axis, chosen: "")
    pytester.syspathinsert(ROOT)
    pytester.makeconftest(CONFTEST)
    pytester.makeini("[pytest]\njunit_family = xunit1\nmarkers = quick: x\n")
    (pytester.path / "benches").mkdir()
    for file in (ROOT / "benches").glob("test_*.py"):
        if "import test_cell" in file.read_text():
            shutil.copy(file, pytester.path / "benches")
    return pytester


Run = Callable[..., pytest.RunResult]


def words_of(text: str) -> list[str]:
    """The words of a piece of a command line that begins with an option; any other argument is one
    word.
    """
    return shlex.split(text) if text.startswith("-") and " " in text else [text]


@pytest.fixture
def in_process(project: pytest.Pytester, modules: Modules) -> Run:
    """Runs `pytest …` in this process; an argument such as `"--model ideal --limit 4"` holds
    several words.
    """

    def go(*arguments: str) -> pytest.RunResult:
        words = [word for text in arguments for word in words_of(text)]
        try:
            return project.runpytest_inprocess("-p", "no:cacheprovider", *words, plugins=[modules])
        finally:
            modules.keep()

    return go


@pytest.fixture
def run(in_process: Run) -> Run:
    """Runs `pytest benches …` in this process."""
    return lambda *arguments: in_process("benches", *arguments)


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupts of the run outside stay as they are."""
    monkeypatch.setattr(run_lifecycle, "listen_to_interrupts", lambda: None)


SMALL = ("--model", "ideal", "--limit", "4", "--out", "out")

# Columns of a run that two runs of the same cells need not share.
TIMES = [
    "seconds",
    "samples_per_second",
    "tokens_per_second",
    "peak_memory_bytes",
    "worker",
    "shared_device",
    "threads",
    "wait_policy",
]
