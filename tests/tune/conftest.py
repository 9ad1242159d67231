"""Every file here has a cache folder of its own, and starts runs that are no xdist worker's."""

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def _of_ones_own(own_cache: None) -> Iterator[None]:
    """Where measured prices are kept; a run that took itself for a worker would time nothing."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("PYTEST_XDIST")]:
            patch.delenv(name)
        yield
