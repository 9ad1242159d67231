"""A run's outcome as the controller keeps it, told by hand what happened."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pbcore.plugin import rundir
from pbcore.plugin.run_lifecycle import RunOutcome
from tests.plugin.fakes import A, B, C, Config, Terminal, node_id
from tests.results import factory

IDS = [node_id(name) for name in (A, B, C)]


def begun(config: Config, ids: list[str] = IDS) -> RunOutcome:
    """A run whose cells are collected by xdist's workers."""
    outcome = RunOutcome(config)  # type: ignore[arg-type]
    outcome.pytest_xdist_node_collection_finished(ids)
    return outcome


def take(outcome: RunOutcome, one: Any) -> None:
    """A report, through the hook."""
    hook = outcome.pytest_runtest_logreport(one)
    next(hook)
    with pytest.raises(StopIteration):
        next(hook)


def last_lines(outcome: RunOutcome, status: int = 0) -> list[str]:
    terminal = Terminal()
    outcome.pytest_terminal_summary(terminal, status)
    return terminal.lines


def session(status: int = 0) -> Any:
    return SimpleNamespace(exitstatus=status)


def stored(config: Config, *names: Any) -> None:
    """Records of these cells in the run's directory."""
    for name in names:
        record, samples = factory.cell(name.model, name.task, str(name.sampler))
        rundir.run_dir(config).write_cell(record, samples)  # type: ignore[arg-type]
