"""`--estimate`: the grid's bill instead of the grid. Models whose weights are here are loaded and
timed; of others sizes and prices say what they take. Nothing is measured or recorded.
"""

import time
from collections.abc import Collection, Iterator
from textwrap import wrap
from typing import Any

import pytest

from pbcore.base.errors import PbcoreError
from pbcore.base.printable import counted, printable
from pbcore.grid.cellid import CellName, by_model
from pbcore.models.registry import UNKNOWN
from pbcore.plugin.nodes import cell_name
from pbcore.plugin.state import measures, plan, say, settings

SILENT = 8.0  # seconds without a line in a log


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
    """In place of the tests: a bill for each model. Raises pytest.UsageError, once all others have
    theirs, for models that can't be had.
    """
    config = session.config
    if not settings(config).estimate or config.getoption("collectonly", False):
        return None
    refused = []
    for model, cells in by_model(filter(None, map(cell_name, session.items))).items():
        say(config, printable(model, 200))
        try:
            for line in _bill(config, model, cells):
                say(config, line)
        except PbcoreError as error:
            refused.append(f"--estimate: model {model}: {error}")
    if refused:
        raise pytest.UsageError("\n".join(refused))
    return True


def pytest_pbcore_check(config: pytest.Config, cells: Collection[CellName]) -> None:
    """Says before anything is loaded what the run's large models take."""
    from pbcore.models import resolve_model

    for model, own in by_model(cells if measures(config) else ()).items():
        entry = resolve_model(model)
        if entry.embedded or entry.served or not entry.has_network:
            continue
        from pbcore.models.families import config_at_hand

        if config_at_hand(entry) is not None:
            say(config, *_head(config, model, own))


def _head(config: pytest.Config, model: str, cells: list[CellName]) -> list[str]:
    """What a model's cells take, in a line; nothing where loading it will say what is wrong."""
    from pbcore.grid.cost_by_price import run_text
    from pbcore.models import resolve_model
    from pbcore.models.entry import LoadOptions
    from pbcore.models.sizes import sized_model, weights_here

    requested = settings(config)
    options = LoadOptions.of(requested.load_options)
    dtype = requested.dtype or ("bfloat16" if requested.gpu else "float32")
    entry = resolve_model(model)
    try:
        sized = sized_model(entry, dtype, options)
        text = run_text(plan(config), sized, cells, weights_here(entry, options))
    except PbcoreError:
        return []
    width = config.get_terminal_writer().fullwidth
    return wrap(printable(f"{model}: {text}", 400), width, subsequent_indent="  ")


def _bill(config: pytest.Config, model: str, cells: list[CellName]) -> Iterator[str]:
    """The lines of a model's bill: measured where its weights and the device are here and no
    `--price` names another, else computed.
    """
    from pbcore.models import resolve_model

    requested = settings(config)
    entry = resolve_model(model)
    if entry.served:
        count = counted(len(cells), "cell")
        yield f"  {count} behind a server; `--collect-only` says what they can cost"
        return
    if not entry.has_network:
        yield from _measured(config, model, cells)
        return
    from pbcore.models.entry import LoadOptions
    from pbcore.models.sizes import sized_model, weights_here

    options = LoadOptions.of(requested.load_options)
    here = weights_here(entry, options)
    if here and _usable(requested.place) and not requested.price:
        yield from _measured(config, model, cells)
        return
    if entry.loaded_as == UNKNOWN:
        yield f"  asking the hub for its config.json ({entry.source})"
    from pbcore.grid.cost_by_price import bill_by_price

    sized = sized_model(entry, requested.dtype, options)
    yield from bill_by_price(plan(config), sized, cells, here)


def _usable(place: str) -> bool:
    """Whether models can be run there."""
    import torch

    if place == "mps":
        return torch.backends.mps.is_available()
    return place == "cpu" or torch.cuda.is_available()


def _measured(config: pytest.Config, model: str, cells: list[CellName]) -> Iterator[str]:
    """The bill of a model that is loaded and timed."""
    import torch

    from pbcore.decoding.batch_size import fixed_batch
    from pbcore.grid.cost_estimate import bill
    from pbcore.models import load_model
    from pbcore.models.base import BatchDecoder, OwnDecoder, complete

    requested = settings(config)
    dtype = {} if requested.dtype is None else {"dtype": requested.dtype}
    loaded = load_model(model, device=requested.place, **dtype, **requested.load_options)
    if isinstance(loaded, OwnDecoder | BatchDecoder):
        unknown = "it decodes by itself, so its forwards are not known beforehand"
        yield f"  {counted(len(cells), 'cell')}; {unknown}"
        return
    cells, left_out = _runnable(complete(loaded), cells)
    for sampler, why in left_out.items():
        yield f"  left out: {printable(sampler, 200)}: {why}"
    if not cells:
        return
    threads = counted(torch.get_num_threads(), "thread")
    size = requested.rows or fixed_batch(loaded)
    batches = f"batches of {size}" if size else "batches that fill the memory"
    place = f"{requested.place}, {threads}, {batches}"
    yield from bill(plan(config), loaded, cells, place, _Progress(config))


def _runnable(model: Any, cells: list[CellName]) -> tuple[list[CellName], dict[str, str]]:
    """The cells whose sampler a loaded model can run, and why not the other samplers."""
    from pbcore.decoding.checks import lacks

    reasons = {}
    for sampler in dict.fromkeys(cell.sampler for cell in cells):
        why = lacks(model, sampler.declared, sampler.name)
        if why is not None:
            reasons[str(sampler)] = why
    return [cell for cell in cells if str(cell.sampler) not in reasons], reasons


class _Progress:
    """Says what an estimate is at: on a terminal in a line that is rewritten, in a log after some
    silent seconds.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._terminal: Any = config.pluginmanager.get_plugin("terminalreporter")
        self._last = time.monotonic()

    def __call__(self, text: str) -> None:
        """Shows the text; an empty one clears the line."""
        if self._terminal is not None and self._terminal.isatty():
            self._terminal.rewrite(f"  {text}"[:79] if text else "", erase=True)
        elif text and time.monotonic() - self._last > SILENT:
            say(self._config, f"  {text}")
            self._last = time.monotonic()
