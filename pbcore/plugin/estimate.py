"""`--estimate`: the grid's bill instead of the grid. Models are loaded and timed; nothing is measured or recorded."""

from collections.abc import Iterable
from typing import Any

import pytest

from pbcore.errors import PbcoreError
from pbcore.grid.cellid import CellName
from pbcore.plugin.options import given
from pbcore.plugin.state import cell_name, plan, say, settings
from pbcore.printable import counted


def pytest_configure(config: pytest.Config) -> None:
    """Raises pytest.UsageError for options that an estimate has no use for."""
    if not estimated(config):
        return
    requested = settings(config)
    if config.getoption("numprocesses", None):
        raise pytest.UsageError("--estimate times forwards in one process; leave -n out, and divide by the workers")
    if requested.gated or requested.per_sample or requested.sample or config.getoption("maxfail", 0) == 1:
        raise pytest.UsageError(
            "--estimate measures no answers: leave gates, floors, --sample, --per-sample and -x out"
        )


def estimated(config: pytest.Config) -> bool:
    """Whether this run only estimates."""
    return given(config) and settings(config).estimate


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """In place of the tests: a bill for each model."""
    config = session.config
    if not estimated(config) or config.getoption("collectonly", False):
        return None
    from pbcore.grid.cost_estimate import by_model

    cells = [name for item in session.items if (name := cell_name(item)) is not None]
    for model, mine in by_model(cells).items():
        for text in _bill(config, model, mine):
            say(config, text)
    return True


def _bill(config: pytest.Config, model: str, cells: list[CellName]) -> Iterable[str]:
    from pbcore.grid.capabilities import served
    from pbcore.grid.cost_estimate import bill, lines
    from pbcore.models.base import BatchDecoder, OwnDecoder

    if served(model):
        return [f"{model}: {counted(len(cells), 'cell')} behind a server; `--collect-only` says what they can cost"]
    try:
        loaded = _load(config, model)
    except PbcoreError as error:
        raise pytest.UsageError(f"--estimate: model {model} can't be loaded: {error}") from error
    if isinstance(loaded, OwnDecoder | BatchDecoder):
        return [
            f"{model}: {counted(len(cells), 'cell')}; it decodes by itself, so its forwards are not known beforehand"
        ]
    return lines(bill(plan(config), loaded, cells), _how(config, loaded))


def _load(config: pytest.Config, model: str) -> Any:
    from pbcore.models import load_model

    requested = settings(config)
    kind = {} if requested.dtype is None else {"dtype": requested.dtype}
    return load_model(model, device=requested.place, **kind, **requested.load_options)


def _how(config: pytest.Config, model: object) -> str:
    import torch

    from pbcore.decoding.run import default_batch

    requested = settings(config)
    size = requested.rows or default_batch(model)
    return f"{requested.place}, {counted(torch.get_num_threads(), 'thread')}, batches of {size}"
