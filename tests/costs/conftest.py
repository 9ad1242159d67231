"""Every file here has a cache folder of its own."""

import pytest


@pytest.fixture(scope="module", autouse=True)
def _own_cache(own_cache: None) -> None:
    """Where measured prices are kept."""
