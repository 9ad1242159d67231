"""Every file here has a cache folder of its own, and starts runs that are no xdist worker's and
draw no curves.
"""

import os
from collections.abc import Iterator

import pytest

from pbcore.report import markdown
from pbcore.report.page import write


@pytest.fixture(scope="module", autouse=True)
def _of_ones_own(own_cache: None) -> Iterator[None]:
    """Where measured prices are kept; a run that took itself for a worker would time nothing, and
    curves cost more than all else in a small one.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("PYTEST_XDIST")]:
            patch.delenv(name)
        patch.setattr(markdown, "write_plots", lambda cells, path, speed, chosen: [])
        patch.setattr(write, "_picture", lambda cells, axis, chosen: "")
        yield
