"""Settings of the test suite itself."""

import os

import pytest

try:
    from hypothesis import settings
except ModuleNotFoundError:  # without the extra dev; other runs in this folder read this file, too
    settings = None  # type: ignore[assignment, misc]

os.environ["PBCORE_NO_DOWNLOAD"] = "1"  # what needs LanguageTool itself runs where it is installed
if "PYTEST_XDIST_WORKER" in os.environ:  # workers of two threads each on two cores would wait for each other's barriers
    os.environ.setdefault("OMP_NUM_THREADS", "1")
if settings is not None:
    settings.register_profile("suite", deadline=None, derandomize=True, max_examples=50)
    settings.load_profile("suite")


def pytest_pycollect_makemodule() -> None:
    """Ends a run of the suite that lacks its packages."""
    if settings is None:
        pytest.exit("the tests need the extra dev: pip install -c constraints.txt -e '.[dev]'", returncode=4)
