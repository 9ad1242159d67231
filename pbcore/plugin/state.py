"""What every hook needs to know of a run: settings and plan, made once, in pytest's stash; which
nodes are cells, and which arguments, as in `pytest ideal/shuffle/confidence-k2`; the conditions of
a cell.
"""

from __future__ import annotations

import os
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from pbcore.grid.cellid import CellName, bracketed, parse
from pbcore.grid.levels import at, factors_of
from pbcore.grid.settings import Settings
from pbcore.plugin import may_name_cell, options
from pbcore.plugin.omp_wait_policy import choose_waiting

if TYPE_CHECKING:
    from pbcore.grid.plan import Plan
    from pbcore.models.base import Model
    from pbcore.results.record import Conditions
    from pbcore.tasks.base import Task

_SETTINGS = pytest.StashKey[Settings]()
_PLAN = pytest.StashKey["Plan"]()
UNTIMED = pytest.StashKey[bool]()  # of an item: its forwards were shared, so it has no time
HANDS_OUT = pytest.StashKey[
    bool
]()  # set by a plugin that hands this process's cells to workers, as xdist's does


def pytest_configure(config: pytest.Config) -> None:
    """Makes the plan before anything is collected, so that a typo is a usage error and not a failed
    test.
    """
    os.environ.setdefault(
        "PBCORE_GRAMMAR_RUN", uuid.uuid4().hex
    )  # all processes of the run inherit it
    if options.given(config):
        plan(config)


@pytest.hookimpl(specname="pytest_configure", tryfirst=True)
def pytest_configure_names(config: pytest.Config) -> None:
    """Puts node ids in the place of cells' names, before anything reads the arguments, xdist's for
    workers included.

    A folder of cells beside names, as in `pytest benches tiny/copy/random-k2`, says where the cells
    are; it is not run itself. Raises pytest.UsageError for a model or sampler that can't be meant.
    """
    given = config.invocation_params
    start = given.dir
    known = {text: read_name(text) for text in config.args if may_name_cell(text, given.dir)}
    names = {text: name for text, name in known.items() if name is not None}
    if not names:
        return
    from pbcore.report.rerun import cell_file, path_of_cells

    folders = [text for text in config.args if (start / text).is_dir()]
    instead = {}  # a node id for a name, nothing for a folder that has its cells
    for text, name in names.items():
        place = next(
            (folder for folder in folders if (start / folder / cell_file(name.task)).is_file()),
            None,
        )
        instead[text] = f"{path_of_cells(name.task, start, place or 'benches')}::test_cell[{text}]"
        if place is not None:
            instead[place] = ""
    config.args[:] = [instead.get(text, text) for text in config.args if instead.get(text) != ""]
    words = tuple(
        instead.get(str(word), word) for word in given.args if instead.get(str(word)) != ""
    )
    config.invocation_params = pytest.Config.InvocationParams(
        args=words, plugins=given.plugins, dir=start
    )
    plan(config)


def settings(config: pytest.Config) -> Settings:
    """The settings of this run. Raises pytest.UsageError for values that can't be meant."""
    if _SETTINGS not in config.stash:
        config.stash[_SETTINGS] = options.read(config)
    return config.stash[_SETTINGS]


def plan(config: pytest.Config) -> Plan:
    """The plan of this run; without options it is made with the first test of cells. Raises
    pytest.UsageError.
    """
    if _PLAN not in config.stash:
        from pbcore.grid.plan import make_plan

        choose_waiting(config)  # before the run imports torch
        with options.usage_errors():
            made = make_plan(
                settings(config), config.args, bool(config.getoption("maxfail", 0) == 1)
            )
            _ = (
                made.items
            )  # a task that can't be loaded is reported here, not as an error of every file
        config.stash[_PLAN] = made
    return config.stash[_PLAN]


def drilled(config: pytest.Config) -> bool:
    """Whether samples are items in this run."""
    return plan(config).drilled


def measures(config: pytest.Config) -> bool:
    """Whether this run measures its cells whole, rather than collecting only, judging samples or
    estimating.
    """
    return not (
        config.getoption("collectonly", False) or drilled(config) or settings(config).estimate
    )


def cell_of(config: pytest.Config, node_id: str) -> CellName | None:
    """The cell or sample of this run that a node id names, None for any other test. All hooks tell
    cells by this, in every process: xdist's controller, which collects nothing, knows node ids
    alone.
    """
    text = bracketed(node_id)
    if text is None or (_PLAN not in config.stash and read_name(text) is None):
        return None  # a run without options needs no plan
    return plan(config).items.get(text)


def read_name(text: str) -> CellName | None:
    """The cell of a known task that a text names, whether or not the run has it."""
    from pbcore.tasks import all_task_names

    return parse(text, all_task_names())


def say(config: pytest.Config, *lines: str) -> None:
    """Writes lines to the terminal, if this process has one."""
    terminal: Any = config.pluginmanager.get_plugin("terminalreporter")
    for line in lines if terminal is not None else ():
        terminal.ensure_newline()
        terminal.write_line(line)


def cell_name(item: pytest.Item) -> CellName | None:
    """The cell or sample that an item measures; None for other tests."""
    return (
        cell_of(item.config, item.nodeid) if item.get_closest_marker("cells") is not None else None
    )


def rows_of(config: pytest.Config, requested: Settings, name: CellName) -> int | None:
    """The rows that --batch-size has a cell decode together; None without it, and for models that
    form batches of their own.

    Args:
        config: pytest's.
        requested: the cell's settings.
        name: the cell.
    """
    from pbcore.grid.needs import Use, acts

    if not requested.rows or not acts("batch_size", Use.of(requested, name, drilled(config))):
        return None
    return requested.rows


def conditions(
    config: pytest.Config, name: CellName, model: Model | None, task: Task | None
) -> Conditions:
    """What the run knows of a cell's conditions; a cell that failed early may lack its model or its
    task.
    """
    from pbcore.names import parse as parse_sampler
    from pbcore.results.check import plain
    from pbcore.results.record import Conditions
    from pbcore.results.resume import versions

    requested = at(settings(config), name.level)
    known: dict[str, Any] = {
        "options": {"limit": plan(config).limit(name.model), **plan(config).recorded(name)},
        "versions": versions(),
        "seeds": list(requested.seed),
        "level": factors_of(name.level) or None,
        "at_once": parse_sampler(name.sampler).at_once or None,
    }
    worker = getattr(config, "workerinput", {})
    if worker or not (
        config.pluginmanager.hasplugin("dsession") or config.stash.get(HANDS_OUT, False)
    ):
        known["worker"], known["shared_device"] = (
            worker.get("workerid", ""),
            worker.get("pbcore_shared", False),
        )
    if task is not None:
        known |= {"data_source": task.source, "data_hash": task.data_hash}
    if model is not None and getattr(
        model, "served", False
    ):  # its device, dtype and batches are the server's
        known |= {"dummy": False, "shared_device": False}
    elif model is not None:
        import torch

        from pbcore.decoding.batch_size import fixed_batch

        info = model.info
        rows = rows_of(config, requested, name)
        known |= {
            "device": str(info.get("computes_on") or getattr(model, "device", requested.place)),
            "dtype": str(info.get("dtype", requested.dtype or "")),
            "batch_size": known["at_once"] or rows or fixed_batch(model),
            "threads": torch.get_num_threads(),
            "wait_policy": os.environ.get("OMP_WAIT_POLICY", "default").lower(),
            "dummy": bool(info.get("dummy", False)),
        }
    if model is not None:
        known["model_info"] = plain(dict(model.info), f"info of model {model.name}")
    return Conditions.unknown(**plain(known, "conditions"))
