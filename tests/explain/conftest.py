"""Runs within a test are no xdist worker's, and take the package's cells, as any folder does."""

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def _of_a_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("anywhere"))
        for name in [name for name in os.environ if name.startswith("PYTEST_XDIST")]:
            patch.delenv(name)
        yield
