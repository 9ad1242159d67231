"""What the run knows of a cell's record; resumed cells are reported from disk, failed ones leave their error."""

from __future__ import annotations

import os
from collections.abc import Generator as Yields
from typing import TYPE_CHECKING, Any

import pytest

from pbcore.errors import PbcoreError
from pbcore.grid.cellid import CellName
from pbcore.grid.levels import at, factors_of
from pbcore.grid.settings import Settings
from pbcore.plugin.rundir import run_dir
from pbcore.plugin.state import cell_name, drilled, hands_out, plan, settings

if TYPE_CHECKING:
    from pbcore.models.base import Model
    from pbcore.results.record import CellRecord, Conditions
    from pbcore.results.rundir import StoredCell
    from pbcore.tasks.base import Task

RECORDED = pytest.StashKey[bool]()  # of an item: its record is written
_ERRORS = pytest.StashKey[dict[str, str]]()
_BEFORE = pytest.StashKey["dict[str, tuple[str, StoredCell]]"]()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """--resume: a cell that is on disk under the same key is reported as it is, and its test is not run. Scores that
    lacked a tool are measured if it is here now."""
    if settings(pyfuncitem.config).resume is None or cell_name(pyfuncitem) is None:
        return None
    built: dict[str, Any] = pyfuncitem.funcargs
    cell = built["cell"]
    key, stored = _finished(pyfuncitem.config).get(cell.id, ("", None))
    if stored is None or key != cell.key(built["model"], built["task"]):
        return None
    if stored.cell.forwards_shared is not None and not cell.settings.sharing:
        return None  # its forwards were shared, and this run times its cells
    stored = cell.rescored(built["task"], stored)
    show(pyfuncitem, stored.cell)
    pyfuncitem.user_properties.append(("pbcore_resumed", True))
    return True


def show(item: pytest.Item, cell: CellRecord) -> list[tuple[str, Any]]:
    """Puts a cell's figures on its report: as properties, which are returned, and as a line of output."""
    from pbcore.report.junit import figures_line
    from pbcore.results.table_row import properties

    pairs = properties(cell)
    item.user_properties.extend(pairs)
    item.add_report_section("call", "stdout", f"{figures_line(cell)}\n")
    return pairs


def _finished(config: pytest.Config) -> dict[str, tuple[str, StoredCell]]:
    """What the resumed run had finished before this process began."""
    from pbcore.results.resume import finished

    if _BEFORE not in config.stash:
        config.stash[_BEFORE] = finished(run_dir(config).path)
    return config.stash[_BEFORE]


def remember(config: pytest.Config, stored: StoredCell) -> None:
    """Adds a cell to what the resumed run had finished, where its run directory is on another machine."""
    _finished(config)[stored.cell.id] = stored.cell.conditions.key or "", stored


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Yields[None, pytest.TestReport, pytest.TestReport]:
    """A cell that could not be run leaves a record of its error, so that the report shows what is missing and why."""
    report = yield
    name = cell_name(item)
    if name is None or not report.failed or item.stash.get(RECORDED, False) or drilled(item.config):
        return report
    assert call.excinfo is not None
    error = f"{call.excinfo.typename}: {call.excinfo.value}"
    first = item.config.stash.setdefault(_ERRORS, {}).setdefault(error, item.nodeid)
    if isinstance(call.excinfo.value, PbcoreError | OSError) and not item.config.getoption("fulltrace", False):
        report.longrepr = error  # the user's to mend; a traceback is for bugs
    elif first != item.nodeid:
        # A model that can't be loaded fails all its cells; one traceback says it.
        report.longrepr = f"{error}\n(the same error as in {first}, which has the traceback)"
    fixtures: dict[str, Any] = getattr(item, "funcargs", {})
    pairs = record_error(item.config, name, error, fixtures.get("model"), fixtures.get("task"))
    report.user_properties.extend(pairs)
    item.user_properties.extend(pairs)  # JUnit reads those of the teardown's report
    item.stash[RECORDED] = True
    return report


def record_error(
    config: pytest.Config, name: CellName, error: str, model: Model | None = None, task: Task | None = None
) -> list[tuple[str, Any]]:
    """Writes the record of a cell that failed, with the `model` and `task` it had by then, and returns it as report
    properties; a full disk must not hide the first error."""
    from pbcore.results.build import error_cell
    from pbcore.results.record import CellRecord
    from pbcore.results.table_row import properties

    facts = CellRecord(name.cell_id, name.model, name.task, name.sampler, conditions(config, name, model, task))
    cell = error_cell(facts, error)
    pairs = properties(cell)
    if settings(config).resume is not None and name.cell_id in _finished(config):  # an error replaces no good record
        return [*pairs, ("pbcore_kept", "its record of an earlier run was kept")]
    try:
        run_dir(config).write_cell(cell, ())
    except OSError as full:
        pairs.append(("pbcore_unwritten", f"{type(full).__name__}: {full}"))
    return pairs


def conditions(config: pytest.Config, name: CellName, model: Model | None, task: Task | None) -> Conditions:
    """What the run knows of a cell's conditions; a cell that failed early may lack its model or its task."""
    from pbcore.names import parse
    from pbcore.results.check import plain
    from pbcore.results.record import Conditions
    from pbcore.results.resume import versions

    requested = at(settings(config), name.level)
    known: dict[str, Any] = {
        "options": {"limit": plan(config).limit(name.model), **plan(config).recorded(name.task)},
        "versions": versions(),
        "seeds": list(requested.seed),
        "level": factors_of(name.level) or None,
        "at_once": parse(name.sampler).at_once or None,
    }
    worker = getattr(config, "workerinput", {})
    if worker or not hands_out(config):
        known["worker"], known["shared_device"] = worker.get("workerid", ""), worker.get("pbcore_shared", False)
    if task is not None:
        known |= {"data_source": task.source, "data_hash": task.data_hash}
    if model is not None:
        known |= _of_model(model, requested, known["at_once"])
    return Conditions.unknown(**plain(known, "conditions"))


def _of_model(model: Model, requested: Settings, at_once: int | None) -> dict[str, Any]:
    """What only a loaded model tells."""
    import torch

    from pbcore.decoding.run import default_batch
    from pbcore.results.check import plain

    info = plain(dict(model.info), f"info of model {model.name}")
    if getattr(model, "served", False):  # whose device, dtype and batches are the server's
        return {"dummy": False, "model_info": info, "shared_device": False}
    device = str(info.get("computes_on") or getattr(model, "device", requested.place))
    return {
        "device": device,
        "dtype": str(model.info.get("dtype", requested.dtype or "")),
        "batch_size": at_once or requested.rows or default_batch(model),
        "threads": torch.get_num_threads(),
        "wait_policy": os.environ.get("OMP_WAIT_POLICY", "default").lower(),
        "dummy": bool(model.info.get("dummy", False)),
        "model_info": info,
    }
