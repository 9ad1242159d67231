"""Settings of the test suite itself."""

import os

from hypothesis import settings

os.environ["PBCORE_NO_DOWNLOAD"] = "1"  # what needs LanguageTool itself runs where it is installed
settings.register_profile("suite", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("suite")
