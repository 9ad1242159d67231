"""The run directory of a session, one path for the controller and all workers, and what is written
to it: run.json, records of cells, the errors of those that failed. Resumed cells are reported from
it.
"""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Callable, Mapping
from collections.abc import Generator as Yields
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest
from _pytest.junitxml import xml_key

from pbcore.base.errors import PbcoreError
from pbcore.base.links import docs
from pbcore.base.printable import command_line, counted, from_here, printable, program
from pbcore.grid.cellid import CellName
from pbcore.plugin.conditions import conditions
from pbcore.plugin.nodes import cell_name
from pbcore.plugin.options import is_typed, run_facts, usage_errors
from pbcore.plugin.state import drilled, measures, plan, settings

if TYPE_CHECKING:
    from pbcore.models.base import Model
    from pbcore.results.lock import RunLock
    from pbcore.results.record import CellRecord
    from pbcore.results.rundir import RunDir, RunFacts, StoredCell
    from pbcore.tasks.base import Task

RECORDED = pytest.StashKey[bool]()  # of an item: its record is written
_PATH = pytest.StashKey[Path]()
_LOCK: pytest.StashKey[RunLock] = pytest.StashKey()
_ERRORS = pytest.StashKey[dict[str, str]]()
_BEFORE = pytest.StashKey["dict[str, tuple[str, StoredCell]]"]()


def pytest_configure(config: pytest.Config) -> None:
    """Takes a directory that the options name before anything is loaded."""
    requested = settings(config)
    if not (requested.out or requested.resume):
        return
    if not (measures(config) or is_typed(config, "--out", "--pbcore-out")):
        return  # an ini file's or `addopts`'s, and nothing will be written
    run = run_dir(config)
    if hasattr(config, "workerinput") or not measures(config):
        return
    if requested.resume is not None and not requested.resume_anyway:
        _check_same_settings(config, run)
    lock(config)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Workers write into the controller's run directory."""
    node.workerinput["pbcore_run"] = str(run_dir(node.config).path)


def run_dir(config: pytest.Config) -> RunDir:
    """This session's run directory; nothing is created here. Raises pytest.UsageError if it can't
    be used.
    """
    from pbcore.results.rundir import RunDir

    if _PATH not in config.stash:
        config.stash[_PATH] = _path(config)
    return RunDir(config.stash[_PATH])


def lock(config: pytest.Config) -> None:
    """Makes this session the one writer of its run directory. Raises pytest.UsageError if it can't
    be.
    """
    from pbcore.results.lock import lock_run

    if _LOCK in config.stash:
        return
    requested = settings(config)
    option = "--out" if requested.out else ""
    if requested.resume:
        option = "--resume"
    with usage_errors(option):
        config.stash[_LOCK] = lock_run(run_dir(config).path)
    run_dir(config).remove_torn()


def _path(config: pytest.Config) -> Path:
    from pbcore.results.lock import is_empty
    from pbcore.results.rundir import new_name, open_run

    worker = getattr(config, "workerinput", None)
    if worker is not None:
        return Path(worker["pbcore_run"])
    requested = settings(config)
    if requested.resume is not None:
        with usage_errors("--resume"):
            return open_run(requested.resume, begun=True).path.absolute()
    out = requested.out
    if out is None:
        return config.rootpath / "reports" / new_name()
    with usage_errors("--out"):
        if out.is_symlink() and not out.exists():
            raise pytest.UsageError(
                f"--out {out} is a link to {out.readlink()}, which is not there; make that"
                " directory or give another name"
            )
        if out.exists() and not out.is_dir():
            raise pytest.UsageError(f"--out {out} is a file; give the name of a directory")
        if out.exists() and not is_empty(out):
            how = "exists and is not empty; choose another name, or resume it"
            raise pytest.UsageError(f"--out {out} {how}: --resume {out}")
    return out.absolute()


def _check_same_settings(config: pytest.Config, run: RunDir) -> None:
    """Raises pytest.UsageError if the resumed run had other settings: which, and what would happen
    to its cells.
    """
    from pbcore.base.check import plain
    from pbcore.results.resume import changed_settings, finished

    earlier = run.read_run()
    if different := changed_settings(earlier, plain(settings(config).remembered, "settings")):
        stored = set(finished(run.path))
        again = stored & {name.cell_id for name in plan(config).items.values()}
        raise pytest.UsageError(
            f"--resume {run.path}: its settings differ: {'; '.join(different)}. Of its"
            f" {counted(len(stored), 'finished cell')} up to {len(again)} would be measured again"
            f" and overwritten, {len(stored) - len(again)} are not in this run and would stay. Give"
            f" the same options{_command_of(earlier)}, another --out, or --resume-anyway"
        )


def _command_of(facts: RunFacts) -> str:
    """A run's command as run.json has it, in brackets; nothing if it isn't known."""
    command = facts.get("command")
    return (
        f" ({printable(command_line(map(str, command)), 400)})"
        if isinstance(command, list) and command
        else ""
    )


def resume_command(config: pytest.Config) -> str:
    """The command that resumes this run: its own arguments, with --resume in place of --out."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--out", "--pbcore-out", "--resume", "--pbcore-resume")
    _, words = parser.parse_known_args(list(map(str, config.invocation_params.args)))
    again = command_line([*words, "--resume", str(from_here(run_dir(config).path))])
    return f"{program('pytest')} {again}"


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Whose run is resumed: other tasks and models would be added to it."""
    if settings(config).resume is None:
        return []
    return [f"pbcore: resuming {run_dir(config).path}{_command_of(run_dir(config).read_run())}"]


def write_facts(config: pytest.Config, cells: Mapping[str, CellName]) -> None:
    """run.json, before any cell: command, settings, versions, machine; a resumed run's earlier ones
    as `history`. `cells` are those of the run, by node id.
    """
    from pbcore.results.environment import machine, versions

    requested = settings(config)
    run = run_dir(config)
    earlier = run.read_run() if requested.resume is not None else {}
    history = [*earlier.pop("history", []), *([earlier] if earlier else [])]
    run.write_run(
        {
            "command": ["pytest", *map(str, config.invocation_params.args)],
            "started": datetime.now().astimezone().isoformat(timespec="seconds"),
            "profile": requested.profile,
            "seeds": list(requested.seed),
            "data_seed": requested.data_seed,
            "data_dir": None if requested.data_dir is None else str(requested.data_dir),
            "limit": requested.limit,
            "shard": None if requested.shard is None else "/".join(map(str, requested.shard)),
            "max_loss": requested.max_loss,
            "axis": requested.axis,
            "price": list(requested.price),
            "price_batch": requested.price_batch,
            "planned": {
                "cells": len(cells),
                "models": list(dict.fromkeys(cell.model for cell in cells.values())),
                "samplers": len({cell.sampler for cell in cells.values()}),
                "sampler_names": list(dict.fromkeys(str(cell.sampler) for cell in cells.values())),
                "tasks": len({cell.task for cell in cells.values()}),
            },
            **run_facts(config, requested, cells),
            "versions": versions(),
            "machine": machine(requested.gpu),
            "history": history,
        }
    )


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Copies the JUnit file, if one was written, to the run it belongs to, and frees the run
    directory.
    """
    path = config.stash.get(_PATH, None)
    junit = config.getoption("xmlpath", None)
    try:
        if path is not None and junit and not hasattr(config, "workerinput") and path.is_dir():
            source = Path(os.path.expandvars(junit)).expanduser()
            copy = path / "junit.xml"
            if source.is_file() and source.resolve() != copy.resolve():
                shutil.copyfile(source, copy)
    finally:
        if _LOCK in config.stash:
            config.stash[_LOCK].release()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """--resume: a cell that is on disk under the same key is reported as it is, and its test is not
    run. Scores that lacked a tool are measured if it is here now.
    """
    if settings(pyfuncitem.config).resume is None or cell_name(pyfuncitem) is None:
        return None
    built: dict[str, Any] = pyfuncitem.funcargs
    cell, model, task = (built[name] for name in ("cell", "model", "task"))
    key, stored = _finished(pyfuncitem.config).get(cell.id, ("", None))
    if stored is None:
        return None
    if key != cell.key(model, task):
        reason = _why_again(stored, model)
        if reason:
            pyfuncitem.user_properties.append(("pbcore_again", reason))
        return None
    if stored.cell.forwards_shared is not None and not cell.settings.sharing:
        return None  # its forwards were shared, and this run times its cells
    stored = cell.rescored(task, stored)
    if cell.settings.blame:
        stored = cell.with_blame(model, task, stored)
    show(pyfuncitem, stored.cell)
    pyfuncitem.user_properties.append(("pbcore_resumed", True))
    return True


def _why_again(stored: StoredCell, model: Model) -> str:
    """Why a finished cell has another key, where it is the model's identity."""
    from pbcore.models.identity import identity
    from pbcore.results.weights import same_weights, weights_text

    earlier = stored.cell.conditions.model_identity
    if earlier is None:
        return f"whose records don't say what the model's files contained ({docs('results.md')})"
    now = identity(model)
    if same_weights(now, earlier) is False:
        return f"{stored.cell.model} has {weights_text([(now, earlier)])}"
    return ""


def show(item: pytest.Item, cell: CellRecord) -> list[tuple[str, Any]]:
    """Puts a cell's figures on its report, in place of those of an attempt before (a plugin may run
    tests again): as properties, which are returned, and as a line of output.
    """
    from pbcore.report.junit import figures_line
    from pbcore.results.table_row import properties

    pairs = properties(cell)
    names = {name for name, _ in pairs}
    item.user_properties[:] = [pair for pair in item.user_properties if pair[0] not in names]
    item.user_properties.extend(pairs)
    item.add_report_section("call", "stdout", f"{figures_line(cell)}\n")
    return pairs


def write_figures(config: pytest.Config, report: pytest.TestReport) -> None:
    """Writes a cell's line of figures into its JUnit case, where `junit_logging` leaves output out:
    most CI systems show no properties.
    """
    xml = config.stash.get(xml_key, None)
    if xml is None or xml.logging in ("system-out", "out-err", "all"):
        return
    if not any(name == "pbcore_record" for name, _ in report.user_properties):
        return
    from pbcore.report.junit import UNPRINTABLE

    element = ElementTree.Element("system-out")
    element.text = UNPRINTABLE.sub("?", report.capstdout.strip().rpartition("\n")[2])
    xml.node_reporter(report).append(element)


def _finished(config: pytest.Config) -> dict[str, tuple[str, StoredCell]]:
    """What the resumed run had finished before this process began."""
    from pbcore.results.resume import finished

    if _BEFORE not in config.stash:
        config.stash[_BEFORE] = finished(run_dir(config).path)
    return config.stash[_BEFORE]


def read_finished(config: pytest.Config, say: Callable[[str], None]) -> None:
    """Reads what the resumed run had finished, and sets damaged files aside, each named through
    `say`.
    """
    from pbcore.results.resume import finished

    config.stash[_BEFORE] = finished(run_dir(config).path, say, set_aside=True)


def remember(config: pytest.Config, stored: StoredCell) -> None:
    """Adds a cell to what the resumed run had finished, where its run directory is on another
    machine.
    """
    _finished(config)[stored.cell.id] = stored.cell.conditions.key or "", stored


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Yields[None, pytest.TestReport, pytest.TestReport]:
    """A cell that could not be run leaves a record of its error, so that the report shows what is
    missing and why.
    """
    report = yield
    name = cell_name(item)
    if name is None or not report.failed or item.stash.get(RECORDED, False) or drilled(item.config):
        return report
    assert call.excinfo is not None
    error = f"{call.excinfo.typename}: {call.excinfo.value}"
    first = item.config.stash.setdefault(_ERRORS, {}).setdefault(error, item.nodeid)
    if isinstance(call.excinfo.value, PbcoreError | OSError) and not item.config.getoption(
        "fulltrace", False
    ):
        report.longrepr = error  # the user's to mend; a traceback is for bugs
    elif first != item.nodeid:
        # A model that can't be loaded fails all its cells; one traceback says it.
        report.longrepr = f"{error}\n(the same error as in {first}, which has the traceback)"
    fixtures: dict[str, Any] = getattr(item, "funcargs", {})
    model = fixtures.get("model")
    task = fixtures.get("task")
    known = hasattr(model, "info") and hasattr(task, "data_hash")  # a project may have changed them
    pairs = record_error(
        item.config, name, error, model if known else None, task if known else None
    )
    report.user_properties.extend(pairs)
    item.user_properties.extend(pairs)  # JUnit reads those of the teardown's report
    item.stash[RECORDED] = True
    return report


def record_error(
    config: pytest.Config,
    name: CellName,
    error: str,
    model: Model | None = None,
    task: Task | None = None,
) -> list[tuple[str, Any]]:
    """Writes the record of a cell that failed; that it can't be written must not hide the first
    error.

    Args:
        config: has the run directory.
        name: the cell.
        error: what failed, in words.
        model: what the cell had by then; None: none.
        task: what the cell had by then; None: none.

    Returns:
        The record as report properties.
    """
    from pbcore.results.build import error_cell
    from pbcore.results.record import CellRecord
    from pbcore.results.table_row import properties

    under = conditions(config, name, model, task)
    cell = error_cell(
        CellRecord(name.cell_id, name.model, name.task, str(name.sampler), under), error
    )
    pairs = properties(cell)
    # An error replaces no good record.
    if settings(config).resume is not None and name.cell_id in _finished(config):
        return [*pairs, ("pbcore_kept", "its record of an earlier run was kept")]
    try:
        run_dir(config).write_cell(cell, ())
    except (OSError, TypeError, ValueError) as reason:  # a full disk, or a model's odd facts
        pairs.append(("pbcore_unwritten", f"{type(reason).__name__}: {reason}"))
    return pairs
