"""The hooks around a cell's test: a resumed cell is reported from disk, and one that could not be run leaves a record
of its error.
"""

from __future__ import annotations

from collections.abc import Collection
from collections.abc import Generator as Yields
from typing import TYPE_CHECKING, Any

import pytest

from pbcore.errors import PbcoreError
from pbcore.grid.cellid import CellName
from pbcore.plugin.cell import RECORDED, Cell, conditions
from pbcore.plugin.rundir import run_dir
from pbcore.plugin.state import cell_name, drilled, settings

if TYPE_CHECKING:
    from pbcore.models.base import Model
    from pbcore.results.rundir import StoredCell
    from pbcore.tasks.base import Task

_ERRORS = pytest.StashKey[dict[str, str]]()
_BEFORE = pytest.StashKey["dict[str, tuple[str, StoredCell]]"]()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """--resume: a cell that is on disk under the same key is reported as it is, and its test is not run. Scores that
    lacked a tool are measured if it is here now."""
    if settings(pyfuncitem.config).resume is None or cell_name(pyfuncitem) is None:
        return None
    from pbcore.report.junit import figures_line
    from pbcore.results.table_row import properties

    built: dict[str, Any] = pyfuncitem.funcargs
    cell: Cell = built["cell"]
    key, stored = _finished(pyfuncitem.config).get(cell.id, ("", None))
    if stored is None or key != cell.key(built["model"], built["task"]):
        return None
    if stored.cell.forwards_shared is not None and not cell.settings.sharing:
        return None  # its forwards were shared, and this run times its cells
    stored = cell.rescored(built["task"], stored)
    pyfuncitem.user_properties.extend([*properties(stored.cell), ("pbcore_resumed", True)])
    pyfuncitem.add_report_section("call", "stdout", f"{figures_line(stored.cell)}\n")
    return True


def _finished(config: pytest.Config) -> dict[str, tuple[str, StoredCell]]:
    """What the resumed run had finished before this process began."""
    from pbcore.results.resume import finished

    if _BEFORE not in config.stash:
        config.stash[_BEFORE] = finished(run_dir(config).path)
    return config.stash[_BEFORE]


def remember(config: pytest.Config, stored: StoredCell) -> None:
    """Adds a cell to what the resumed run had finished, where its run directory is on another machine."""
    _finished(config)[stored.cell.id] = stored.cell.conditions.key or "", stored


def _kept(config: pytest.Config) -> Collection[str]:
    """The cells that the resumed run had finished: an error never replaces a good record."""
    return _finished(config) if settings(config).resume is not None else ()


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
    """Writes the record of a cell that failed, and returns it as report properties; a full disk must not hide the first
    error.

    `model` and `task` are what the cell had loaded by then.
    """
    from pbcore.results.build import error_cell
    from pbcore.results.record import CellRecord
    from pbcore.results.table_row import properties

    facts = CellRecord(name.cell_id, name.model, name.task, name.sampler, conditions(config, name, model, task))
    cell = error_cell(facts, error)
    pairs = properties(cell)
    if name.cell_id in _kept(config):
        return [*pairs, ("pbcore_kept", "its record of an earlier run was kept")]
    try:
        run_dir(config).write_cell(cell, ())
    except OSError as full:
        pairs.append(("pbcore_unwritten", f"{type(full).__name__}: {full}"))
    return pairs
