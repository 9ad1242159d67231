"""`--estimate`: the grid's bill instead of the grid. Models are loaded and timed; nothing is
measured or recorded.
"""

from collections.abc import Iterable

import pytest

from pbcore.base.errors import PbcoreError
from pbcore.base.printable import counted
from pbcore.grid.cellid import CellName
from pbcore.plugin.nodes import cell_name
from pbcore.plugin.state import plan, say, settings


def pytest_configure(config: pytest.Config) -> None:
    """Raises pytest.UsageError for options that an estimate has no use for."""
    requested = settings(config)
    if not requested.estimate:
        return
    if config.getoption("numprocesses", None):
        raise pytest.UsageError(
            "--estimate times forwards in one process; leave -n out, and divide by the workers"
        )
    if (
        requested.gated
        or requested.per_sample
        or requested.sample
        or config.getoption("maxfail", 0) == 1
    ):
        drop = "leave gates, floors, --sample, --per-sample and -x out"
        raise pytest.UsageError(f"--estimate measures no answers: {drop}")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """In place of the tests: a bill for each model."""
    config = session.config
    if not settings(config).estimate or config.getoption("collectonly", False):
        return None
    by_model: dict[str, list[CellName]] = {}
    for item in session.items:
        name = cell_name(item)
        if name is not None:
            by_model.setdefault(name.model, []).append(name)
    for model, cells in by_model.items():
        say(config, *_bill(config, model, cells))
    return True


def _bill(config: pytest.Config, model: str, cells: list[CellName]) -> Iterable[str]:
    from pbcore.grid.capabilities import is_served

    if is_served(model):
        return [
            f"{model}: {counted(len(cells), 'cell')} behind a server; `--collect-only` says what"
            " they can cost"
        ]
    import torch

    from pbcore.decoding.batch_size import fixed_batch
    from pbcore.grid.cost_estimate import bill
    from pbcore.models import load_model
    from pbcore.models.base import BatchDecoder, OwnDecoder

    requested = settings(config)
    dtype = {} if requested.dtype is None else {"dtype": requested.dtype}
    try:
        loaded = load_model(model, device=requested.place, **dtype, **requested.load_options)
    except PbcoreError as error:
        raise pytest.UsageError(f"--estimate: model {model} can't be loaded: {error}") from error
    if isinstance(loaded, OwnDecoder | BatchDecoder):
        unknown = "it decodes by itself, so its forwards are not known beforehand"
        return [f"{model}: {counted(len(cells), 'cell')}; {unknown}"]
    threads = counted(torch.get_num_threads(), "thread")
    size = requested.rows or fixed_batch(loaded)
    batches = f"batches of {size}" if size else "batches that fill the memory"
    return bill(plan(config), loaded, cells, f"{requested.place}, {threads}, {batches}")
