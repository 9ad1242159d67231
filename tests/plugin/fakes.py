"""A run as the plugin's hooks see it, without pytest running: settings, a plan of named cells,
items, reports.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pbcore.decoding.samplers import sampler_of
from pbcore.grid.cellid import CellName
from pbcore.grid.settings import OPTIONS, Settings
from pbcore.plugin import state
from pbcore.results.packed import unpacked

A, B, C = (CellName("ideal", "waiting_line/copy", sampler_of(f"random-k{k}")) for k in (1, 2, 4))


def node_id(name: CellName) -> str:
    return f"benches/test_waiting_line.py::test_cell[{name.item_id}]"


def record_of(properties: Sequence[tuple[str, Any]]) -> Any:
    """The record that a report's properties carry, as JSON."""
    return unpacked(dict(properties)["pbcore_record"], "record")


class Terminal:
    """A terminal reporter that remembers its lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.config = SimpleNamespace(get_terminal_writer=lambda: SimpleNamespace(fullwidth=80))

    def write_line(self, text: str, **markup: bool) -> None:
        self.lines += text.splitlines()

    def write_sep(self, sign: str, title: str) -> None:
        self.lines.append(f"{sign * 3} {title} {sign * 3}")

    def ensure_newline(self) -> None:
        pass


class Config:
    """Settings as given; `options` are those of other plugins. Reports to the hooks are kept in
    `reports`.
    """

    def __init__(
        self,
        root: Path,
        cells: Sequence[CellName] = (A, B, C),
        *,
        drilled: bool = False,
        options: dict[str, Any] | None = None,
        ini: dict[str, Any] | None = None,
        plugins: dict[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        self.rootpath = root
        self.inipath = root / "pytest.ini"
        self.args = []
        self.stash = pytest.Stash()
        self.settings = self.stash[state.SETTINGS] = Settings.of(**settings)
        self.stash[state.PLAN] = SimpleNamespace(  # type: ignore[assignment]
            refuses=lambda name: None,
            drilled=drilled,
            respelled={},
            items={name.item_id: name for name in cells},
            limit=lambda model, task: self.settings.limit,
            recorded=lambda task: self.settings.recorded,
            numbered=False,
            settings=self.settings,
        )
        given = {o.dest: value for o in OPTIONS if (value := settings.get(o.field)) is not None}
        self.option = SimpleNamespace(**given, **(options or {}))
        self._ini, self._plugins = ini or {}, {"benchmark": object(), **(plugins or {})}
        self.pluginmanager = SimpleNamespace(
            hasplugin=lambda name: name in self._plugins,
            get_plugin=self._plugins.get,
            getplugin=self._plugins.get,
            register=lambda plugin, name: self._plugins.update({name: plugin}),
        )
        self.reports: list[Any] = []
        self.hook = SimpleNamespace(
            pytest_runtest_logreport=lambda report: self.reports.append(report),
            pytest_pbcore_check=lambda config, cells: None,
            pytest_pbcore_begin=lambda config: None,
            pytest_pbcore_summary=lambda config: [],
        )
        self.invocation_params = SimpleNamespace(args=("benches", "--limit", 4), dir=root)

    def getoption(self, name: str, default: Any = None) -> Any:
        return getattr(self.option, name, default)

    def getini(self, name: str) -> Any:
        return self._ini.get(name)

    def get_verbosity(self) -> int:
        verbosity: int = self.getoption("verbose", 0)
        return verbosity


class Item:
    """A collected test; a cell's is marked."""

    def __init__(
        self, config: Config, name: CellName | str, mark: bool = True, **facts: Any
    ) -> None:
        self.nodeid = name if isinstance(name, str) else node_id(name)
        self.config, self.stash, self.user_properties = config, pytest.Stash(), []
        self.marks = {"cells"} if mark else set()
        self.funcargs: dict[str, Any] = {}
        vars(self).update(facts)

    def get_closest_marker(self, name: str) -> Any:
        return name if name in self.marks else None

    def add_marker(self, name: str) -> None:
        self.marks.add(name)


def drive(hook: Any, result: Any = None) -> Any:
    """Runs a wrapper around a hook that returns `result`."""
    next(hook)
    try:
        hook.send(result)
    except StopIteration as end:
        return end.value
    raise AssertionError("it went on")


def report(
    name: CellName,
    when: str = "teardown",
    outcome: str = "passed",
    *properties: tuple[str, Any],
    **keywords: Any,
) -> Any:
    """A cell's report, marked as one."""
    marks = keywords or {"cells": 1}
    return pytest.TestReport(
        node_id(name),
        ("t.py", 1, "x"),
        marks,
        outcome,
        None,
        when,
        user_properties=list(properties),  # type: ignore[arg-type]
    )
