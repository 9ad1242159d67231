"""The fixtures that a test of cells takes, in any project: `def test_cell(cell, model, task, benchmark)`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from pbcore.plugin.collection import cell_of
from pbcore.plugin.options import settings
from pbcore.plugin.plan import plan
from pbcore.plugin.recording import Cell
from pbcore.plugin.shelf import ModelShelf, share_cores

if TYPE_CHECKING:
    from pbcore.models.base import Model
    from pbcore.tasks.base import Task


@pytest.fixture
def cell(request: pytest.FixtureRequest) -> Cell:
    """The cell that the node id names: `cell.measure(model, task, benchmark)` decodes under the clock, scores and records."""
    name = cell_of(request.config, request.node.nodeid)
    if name is None:
        raise pytest.UsageError(
            f"{request.node.nodeid} takes the fixture `cell` but is not marked; write @pytest.mark.cells('waiting_line') above it"
        )
    return Cell(name, request.node, settings(request.config))


@pytest.fixture
def task(cell: Cell, request: pytest.FixtureRequest) -> Task:
    """The cell's task with the samples of this run; in the drill-down with those of this item."""
    return cell.asked(plan(request.config).task(cell.name.task))


@pytest.fixture(scope="session")
def model_shelf(request: pytest.FixtureRequest) -> Iterator[ModelShelf]:
    """The one model that a worker holds."""
    requested = settings(request.config)
    worker = getattr(request.config, "workerinput", None)
    if worker is not None:
        share_cores(worker["workercount"])
    shelf = ModelShelf(requested.device, requested.dtype, requested.load_options)
    yield shelf
    shelf.clear()


@pytest.fixture
def model(cell: Cell, model_shelf: ModelShelf) -> Model:
    """The cell's model, loaded once per worker and freed before the next one loads."""
    return model_shelf.get(cell.name.model)
