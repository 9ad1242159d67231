"""Settings of the test suite itself."""

import os

from hypothesis import settings

os.environ["PBCORE_NO_DOWNLOAD"] = "1"  # what needs LanguageTool itself runs where it is installed
if "PYTEST_XDIST_WORKER" in os.environ:  # workers of two threads each on two cores would wait for each other's barriers
    os.environ.setdefault("OMP_NUM_THREADS", "1")
settings.register_profile("suite", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("suite")
