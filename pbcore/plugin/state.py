"""What every hook needs to know of a run: settings and plan, made once, in pytest's stash."""

from __future__ import annotations

import os
import uuid
from typing import TYPE_CHECKING, Any

import pytest

from pbcore.grid.cellid import bracketed
from pbcore.grid.settings import Settings
from pbcore.plugin import options
from pbcore.plugin.omp_wait_policy import choose_waiting

if TYPE_CHECKING:
    from pbcore.grid.plan import Plan

SETTINGS = pytest.StashKey[Settings]()
PLAN = pytest.StashKey["Plan"]()
UNTIMED = pytest.StashKey[bool]()  # of an item: its forwards were shared, so it has no time
# Set by a plugin that hands this process's cells to workers, as xdist's does.
HANDS_OUT = pytest.StashKey[bool]()


def pytest_configure(config: pytest.Config) -> None:
    """Makes the plan before anything is collected, so that a typo is a usage error and not a failed
    test.
    """
    # All processes of the run inherit it.
    os.environ.setdefault("PBCORE_GRAMMAR_RUN", uuid.uuid4().hex)
    if options.given(config):
        plan(config)
    if any(map(bracketed, config.args)):
        from pbcore.grid.plan import respelled_ids

        config.args = respelled_ids(config.args)


def settings(config: pytest.Config) -> Settings:
    """The settings of this run. Raises pytest.UsageError for values that can't be meant."""
    if SETTINGS not in config.stash:
        config.stash[SETTINGS] = options.read(config)
    return config.stash[SETTINGS]


def plan(config: pytest.Config) -> Plan:
    """The plan of this run; without options it is made with the first test of cells. Raises
    pytest.UsageError.
    """
    if PLAN not in config.stash:
        from pbcore.grid.plan import make_plan

        choose_waiting(config)  # before the run imports torch
        with options.usage_errors():
            made = make_plan(
                settings(config), config.args, bool(config.getoption("maxfail", 0) == 1)
            )
            # A task that can't be loaded is reported here, not as an error of every file.
            _ = made.items
        config.stash[PLAN] = made
    return config.stash[PLAN]


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


def say(config: pytest.Config, *lines: str) -> None:
    """Writes lines to the terminal, if this process has one."""
    terminal: Any = config.pluginmanager.get_plugin("terminalreporter")
    for line in lines if terminal is not None else ():
        terminal.ensure_newline()
        terminal.write_line(line)
