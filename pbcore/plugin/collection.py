"""Cells and, in the drill-down, samples as pytest items: parametrized by name, sorted by model, split into shards."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

import pytest

from pbcore.plugin.cellname import CellName
from pbcore.plugin.options import given, settings
from pbcore.plugin.plan import Plan, plan
from pbcore.plugin.shards import shard_of

CATEGORIES = ("waiting_line", "text_writing", "puzzle", "list_ops")
CELL = pytest.StashKey[CellName]()


def pytest_configure(config: pytest.Config) -> None:
    """Checks what was asked for before anything is collected, so that a typo is a usage error and not a failed test."""
    config.addinivalue_line(
        "markers", "cells(*categories): a cell per model, task and sampler; without categories: the user's own tasks"
    )
    for line in ("quick: a cell of the default run", "ci: a cell of the run in continuous integration"):
        config.addinivalue_line("markers", line)
    if given(config) and not hasattr(config, "workerinput"):
        if settings(config).languagetool_url is not None:
            # Workers inherit it; the scorers read it in every process.
            os.environ["PBCORE_LANGUAGETOOL_URL"] = str(settings(config).languagetool_url)
        plan(config)


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Says what a reader of the log must know before anything runs."""
    trusted = given(config) and settings(config).trust_remote_code
    return ["pbcore: --trust-remote-code: code that comes with a checkpoint is run"] if trusted else []


def exit_first(config: pytest.Config) -> bool:
    return bool(config.getoption("maxfail", 0) == 1)


def drilled(config: pytest.Config) -> bool:
    """Whether samples are items in this run."""
    return plan(config).drilled(exit_first(config))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    marker = metafunc.definition.get_closest_marker("cells")
    if marker is None or "cell" not in metafunc.fixturenames:
        return
    the_plan = plan(metafunc.config)
    categories = marker.args or {task.split("/")[0] for task in the_plan.tasks} - set(CATEGORIES)
    names = {name.item_id(the_plan.paper): name for name in _items(the_plan, categories, drilled(metafunc.config))}
    the_plan.names.update(names)
    metafunc.parametrize("cell", list(names), ids=list(names), indirect=True)


def _items(the_plan: Plan, categories: Iterable[str], samples: bool) -> Iterator[CellName]:
    """Cells of the grid (or their samples), then those that node ids name; each once."""
    wanted = set(categories)
    seen: set[CellName] = set()
    grid = (item for cell in the_plan.cells(wanted) for item in (_samples(the_plan, cell) if samples else [cell]))
    for source in (grid, (name for name in the_plan.named if name.task.split("/")[0] in wanted)):
        for name in source:
            if name not in seen:
                seen.add(name)
                yield name


def _samples(the_plan: Plan, cell: CellName) -> Iterator[CellName]:
    # A sample that a node id names may lie behind the limit, and then the task has all of them.
    numbers = [sample.index for sample in the_plan.task(cell.task).samples[: the_plan.limit]]
    yield from (CellName(cell.model, cell.task, cell.sampler, number) for number in the_plan.settings.sample or numbers)


def cell_name(item: pytest.Item) -> CellName | None:
    """The cell or sample that an item measures; None for other tests."""
    return item.stash.get(CELL, None)


def _of_cells(item: pytest.Item) -> bool:
    return item.get_closest_marker("cells") is not None


@pytest.hookimpl(tryfirst=True)
def pytest_itemcollected(item: pytest.Item) -> None:
    callspec = getattr(item, "callspec", None)
    name = plan(item.config).names.get(callspec.params.get("cell")) if callspec and _of_cells(item) else None
    if name is None:
        return
    item.stash[CELL] = name
    tier = settings(item.config).profile
    if tier in ("quick", "ci"):
        item.add_marker(tier)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Puts a model's cells together (it is loaded once), and keeps this shard's part."""
    names = {item: name for item in items if (name := cell_name(item)) is not None}
    # Where a file's grid is empty pytest makes one item to be skipped; the summary says what was left out and why.
    items[:] = [item for item in items if item in names or not _of_cells(item)]
    if not names:
        return
    order = {model: place for place, model in enumerate(dict.fromkeys(name.model for name in names.values()))}
    cells = iter(sorted(names, key=lambda item: order[names[item].model]))
    items[:] = [next(cells) if item in names else item for item in items]
    shard = settings(config).shard
    if shard is not None:
        mine = shard_of([name for item in items if (name := names.get(item))], *shard)
        dropped = [item for item in items if item in names and names[item] not in mine]
        items[:] = [item for item in items if item not in names or names[item] in mine]
        config.hook.pytest_deselected(items=dropped)
