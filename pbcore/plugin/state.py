"""What every hook needs to know of a run: settings, plan, and which nodes are cells; made once, in pytest's stash."""

from __future__ import annotations

import os
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from pbcore.errors import InputError
from pbcore.grid.cellid import CellName, bracketed, parse
from pbcore.grid.settings import Settings
from pbcore.plugin import options
from pbcore.plugin.omp_wait_policy import choose_waiting

if TYPE_CHECKING:
    from pbcore.grid.plan import Plan

_SETTINGS = pytest.StashKey[Settings]()
_PLAN = pytest.StashKey["Plan"]()
UNTIMED = pytest.StashKey[bool]()  # of an item: its forwards were shared, so it has no time
HANDS_OUT = pytest.StashKey[bool]()  # set by a plugin that hands this process's cells to workers, as xdist's does


def pytest_configure(config: pytest.Config) -> None:
    """Makes the plan before anything is collected, so that a typo is a usage error and not a failed test."""
    os.environ.setdefault("PBCORE_GRAMMAR_RUN", uuid.uuid4().hex)  # all processes of the run inherit it
    if options.given(config):
        plan(config)


def settings(config: pytest.Config) -> Settings:
    """The settings of this run. Raises pytest.UsageError for values that can't be meant."""
    if _SETTINGS not in config.stash:
        config.stash[_SETTINGS] = options.read(config)
    return config.stash[_SETTINGS]


def plan(config: pytest.Config) -> Plan:
    """The plan of this run; without options it is made with the first test of cells. Raises pytest.UsageError."""
    if _PLAN not in config.stash:
        from pbcore.grid.plan import make_plan

        choose_waiting(config)  # before the run imports torch
        try:
            made = make_plan(settings(config), config.args, bool(config.getoption("maxfail", 0) == 1))
            _ = made.items  # a task that can't be loaded is reported here, not as an error of every file
        except InputError as error:
            raise pytest.UsageError(str(error)) from error
        config.stash[_PLAN] = made
    return config.stash[_PLAN]


def drilled(config: pytest.Config) -> bool:
    """Whether samples are items in this run."""
    return plan(config).drilled


def measures(config: pytest.Config) -> bool:
    """Whether this run measures its cells whole, rather than collecting only, judging samples or estimating."""
    return not (config.getoption("collectonly", False) or drilled(config) or settings(config).estimate)


def cell_of(config: pytest.Config, node_id: str) -> CellName | None:
    """The cell or sample of this run that a node id names, None for any other test. All hooks tell cells by this, in
    every process: xdist's controller, which collects nothing, knows node ids alone."""
    text = bracketed(node_id)
    if text is None or (_PLAN not in config.stash and read_name(text) is None):
        return None  # a run without options needs no plan
    return plan(config).items.get(text)


def hands_out(config: pytest.Config) -> bool:
    """Whether this process hands its cells to workers and runs none."""
    return config.pluginmanager.hasplugin("dsession") or config.stash.get(HANDS_OUT, False)


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
    return cell_of(item.config, item.nodeid) if item.get_closest_marker("cells") is not None else None
