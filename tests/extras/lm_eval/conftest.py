"""Quick settings of the harness."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch.utils.collect_env


@pytest.fixture(scope="session", autouse=True)
def environment_of_the_machine() -> Iterator[None]:
    """The harness describes the machine in each of its results; the programs it asks take longer
    than most tests.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.utils.collect_env, "get_pretty_env_info", lambda: "not asked here")
        yield
