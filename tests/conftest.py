"""Settings of the test suite itself."""

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

try:
    from hypothesis import settings
except ModuleNotFoundError:  # without the extra dev; other runs in this folder read this file, too
    settings = None  # type: ignore[assignment, misc]

if TYPE_CHECKING:
    from tests.canonical import CanonicalRun
    from tests.pseudo_gpu import PseudoGpu

os.environ["PBCORE_NO_DOWNLOAD"] = "1"  # what needs LanguageTool itself runs where it is installed
if (
    "PYTEST_XDIST_WORKER" in os.environ
):  # workers of two threads each on two cores would wait for each other's barriers
    os.environ.setdefault("OMP_NUM_THREADS", "1")
THREADS = os.environ.get("OMP_NUM_THREADS", "")  # torch's at the start; empty: as it likes
os.environ.pop("COLUMNS", None)  # of the controller's terminal: outputs have one width everywhere
# Containers often forbid bytecode; the workers and a hundred processes of tests would each compile
# the same files.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
pd.set_option(
    "mode.string_storage", "python"
)  # as where pyarrow is missing; small tables take less time so
if settings is not None:
    # Few examples, the same each time; at night `--hypothesis-profile thorough` draws others.
    settings.register_profile("suite", deadline=None, derandomize=True, max_examples=15)
    settings.register_profile("thorough", deadline=None, max_examples=100)
    settings.load_profile("suite")


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Gives each file to one worker, so that its tests share their runs."""
    from xdist.scheduler import LoadFileScheduling

    config.option.loadscopereorder = False
    return LoadFileScheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The files that take longest come first, so that two workers end together: those of the whole
    repository, of runs inside, of Chromium, and of the GPU. Windows skips what needs POSIX.
    """
    here = Path(__file__).parent  # what lies here tests the whole repository
    long = ("plugin", "page", "gpu")
    items.sort(key=lambda item: (item.path.parent != here, item.path.parent.name not in long))
    for item in items if os.name == "nt" else ():
        if item.get_closest_marker("posix"):
            item.add_marker(pytest.mark.skip(reason="needs POSIX"))


def pytest_sessionstart() -> None:
    """Importing makes no garbage: the collector would look through all modules again and again."""
    gc.disable()


def pytest_collection_finish() -> None:
    """What is imported by now stays, and the collector no longer looks at it; of the rest tests
    leave little. Networks have PyTorch's own products, as they have on Intel's processors: oneDNN
    compiles a product for each new shape, a quarter of the time of networks as small as the
    tests'. tests/models/test_onednn.py holds the two against each other.
    """
    if "torch" in sys.modules:
        from pbcore.models import onednn

        onednn.onednn_is_faster = wraps(onednn.onednn_is_faster.__wrapped__)(lambda: False)
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


def pytest_pycollect_makemodule() -> None:
    """Ends a run of the suite that lacks its packages."""
    if settings is None:
        pytest.exit(
            "the tests need the extra dev: pip install -c constraints.txt -e '.[dev]'", returncode=4
        )


@pytest.fixture(autouse=True)
def _own_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks that a test adds, by itself or by a run inside, leave with it."""
    from pbcore.tasks import registry

    for added in ("_ADDED", "_FILES"):
        monkeypatch.setattr(registry, added, dict(getattr(registry, added)))


@pytest.fixture(autouse=True)
def _own_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """So do models of files."""
    from pbcore.models import registry

    monkeypatch.setattr(registry, "_CHECKPOINTS", dict(registry._CHECKPOINTS))
    with suppress(ModuleNotFoundError):  # the core alone
        from pbcore.extras.servers.declared import MODELS

        for added in ("added", "files"):
            monkeypatch.setattr(MODELS, added, dict(getattr(MODELS, added)))


@pytest.fixture(autouse=True)
def _own_block_rules() -> Iterator[None]:
    """Rules for blocks that a test or a page's code registers leave with it; before the first
    import of their module there are none.
    """
    from pbcore.decoding.block_rules import BLOCKS  # imports no torch

    with BLOCKS.restored():
        yield


@pytest.fixture(autouse=True)
def _own_threads() -> Iterator[None]:
    """Threads that a run inside chooses end with its test: in a worker beside others all later
    tests would take several times as long.
    """
    yield
    threads = getattr(sys.modules.get("torch"), "get_num_threads", None)
    if threads and THREADS.isdigit() and threads() != int(THREADS):
        sys.modules["torch"].set_num_threads(int(THREADS))


@pytest.fixture(scope="module")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A cache folder of a test file's own: prices that the user measured change what commands do,
    and tests leave none there.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PBCORE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def canonical(tmp_path_factory: pytest.TempPathFactory) -> "CanonicalRun":
    """The run that has all that screens tell of (tests/canonical.py), for reading alone; workers of
    xdist share it, and so do sessions with the same $TESTS_CANONICAL.
    """
    from tests.canonical import shared

    base = tmp_path_factory.getbasetemp()
    given = os.environ.get("TESTS_CANONICAL")
    if given is not None:
        return shared(Path(given))
    return shared(base.parent if "PYTEST_XDIST_WORKER" in os.environ else base)


@pytest.fixture
def registries() -> Iterator[None]:
    """Policies, models and scorers that a run inside adds stay with it; so do tasks, in every
    test.
    """
    from pbcore.decoding.policies.registry import POLICIES
    from pbcore.models.registry import FACTORIES
    from pbcore.tasks.scoring import SCORERS

    with POLICIES.restored(), FACTORIES.restored(), SCORERS.restored():
        yield


@pytest.fixture
def pseudo_gpu() -> "Iterator[PseudoGpu]":
    """A CUDA device that isn't there (tests/pseudo_gpu.py says what it shows)."""
    from tests.pseudo_gpu import pseudo_device  # imports torch

    with pseudo_device() as gpu:
        yield gpu
