"""Quick settings of the harness."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

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


@pytest.fixture(scope="session", autouse=True)
def tasks_of_the_harness() -> Iterator[None]:
    """The harness reads all its tasks whenever it starts, which takes seconds; here each file of
    its own is read once.
    """
    if find_spec("lm_eval") is None:
        yield
        return
    index = import_module("lm_eval.tasks._index")
    plain = index.load_yaml
    kept = cache(lambda path, options: plain(path, **dict(options)))
    own = Path(index.__file__).parent

    def load(path: Path, **options: Any) -> Any:
        if not path.is_relative_to(own):
            return plain(path, **options)
        return deepcopy(kept(path, tuple(options.items())))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index, "load_yaml", load)
        yield
