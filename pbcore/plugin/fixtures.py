"""The fixtures that a test of cells takes, in any project: `def test_cell(cell, model, task,
benchmark)`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest

from pbcore.plugin.options import usage_errors

if TYPE_CHECKING:
    from pbcore.models.base import Model
    from pbcore.models.cache import ModelCache
    from pbcore.plugin.cell import Cell
    from pbcore.tasks.base import Task


@pytest.fixture
def cell(request: pytest.FixtureRequest) -> Cell:
    """The cell that the node id names: `cell.measure(model, task, benchmark)` decodes, scores and
    records.
    """
    from pbcore.grid.levels import at
    from pbcore.plugin.cell import Cell
    from pbcore.plugin.nodes import cell_of
    from pbcore.plugin.state import settings

    name = cell_of(request.config, request.node.nodeid)
    if name is None:
        mark = "write @pytest.mark.cells('waiting_line') above it"
        pytest.fail(
            f"{request.node.nodeid} takes the fixture `cell` but is not marked; {mark}",
            pytrace=False,
        )
    return Cell(name, request.node, at(settings(request.config), name.level))


@pytest.fixture
def task(cell: Cell, request: pytest.FixtureRequest) -> Task:
    """The cell's task with the samples of this run; in the drill-down with those of this item."""
    from pbcore.plugin.state import plan

    with usage_errors():
        whole = plan(request.config).task_of(cell.name)
    numbers = cell.settings.sample if cell.name.sample is None else (cell.name.sample,)
    if not numbers:
        return whole
    samples = tuple(sample for sample in whole.samples if sample.index in numbers)
    if len(samples) < len(set(numbers)):
        pytest.fail(
            f"{whole.name} has samples 0 to {whole.samples[-1].index}, not {max(numbers)}",
            pytrace=False,
        )
    return replace(whole, samples=samples, data_hash="")


@pytest.fixture(scope="session")
def model_cache(request: pytest.FixtureRequest) -> Iterator[ModelCache]:
    """The one model that a worker holds."""
    from pbcore.models.cache import ModelCache, share_cores
    from pbcore.plugin.answering import release_shared
    from pbcore.plugin.state import settings

    requested = settings(request.config)
    worker = getattr(request.config, "workerinput", None)
    if worker is not None:
        share_cores(worker["workercount"])
    cache = ModelCache(
        requested.place,
        requested.dtype,
        partial(release_shared, request.config),
    )
    yield cache
    cache.clear()


@pytest.fixture
def model(cell: Cell, model_cache: ModelCache) -> Model:
    """The cell's model, loaded once per worker and freed before the next one loads."""
    if cell.settings.threads is not None:
        import torch

        torch.set_num_threads(cell.settings.threads)
    return model_cache.get(cell.name.model, cell.settings.dtype, cell.settings.load_options)
