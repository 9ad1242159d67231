"""Cells and, in the drill-down, samples as pytest items: parametrized by name, sorted by model, split into shards."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

import pytest

from pbcore.plugin import cellname
from pbcore.plugin.cellname import CellName
from pbcore.plugin.options import given, settings
from pbcore.plugin.plan import Plan, plan, planned
from pbcore.plugin.shards import shard_of

CATEGORIES = ("waiting_line", "text_writing", "puzzle", "list_ops")
_NAMES = pytest.StashKey[dict[str, CellName]]()


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
    if marker is None:
        return
    if "cell" not in metafunc.fixturenames:
        raise pytest.UsageError(
            f"{metafunc.definition.nodeid} is marked `cells` but does not take the fixture `cell`; write "
            f"`def {metafunc.function.__name__}(cell, model, task, benchmark):`"
        )
    the_plan = plan(metafunc.config)
    categories = set(marker.args) or the_plan.categories - set(CATEGORIES)
    the_plan.left_out.update(reason for _, reason in the_plan.grid(categories) if reason)
    names = [text for text, name in _names(metafunc.config).items() if name.task.split("/")[0] in categories]
    metafunc.parametrize("cell", names, ids=names, indirect=True)


def _names(config: pytest.Config) -> dict[str, CellName]:
    """The text in brackets of every cell or sample of this run: those of the grid, then those that node ids name."""
    names = config.stash.get(_NAMES, None)
    if names is None:
        the_plan, samples = plan(config), drilled(config)
        grid = (
            item
            for cell in the_plan.cells(the_plan.categories)
            for item in (_samples(the_plan, cell) if samples else [cell])
        )
        names = config.stash[_NAMES] = {name.item_id(the_plan.paper): name for name in (*grid, *the_plan.named)}
    return names


def _samples(the_plan: Plan, cell: CellName) -> Iterator[CellName]:
    # A sample that a node id names may lie behind the limit, and then the task has all of them.
    numbers = [sample.index for sample in the_plan.task(cell.task).samples[: the_plan.limit]]
    yield from (CellName(cell.model, cell.task, cell.sampler, number) for number in the_plan.settings.sample or numbers)


def cell_of(config: pytest.Config, node_id: str) -> CellName | None:
    """The cell or sample of this run that a node id names, None for any other test. All hooks tell cells by this, in every process:
    xdist's controller, which collects nothing, knows node ids alone."""
    text = cellname.bracketed(node_id)
    if text is None or not (planned(config) or _may_name_a_cell(text)):
        return None
    return _names(config).get(text)


def _may_name_a_cell(text: str) -> bool:
    """Whether a known task stands in the text; where not, a run without pbcore's options need not make a plan."""
    from pbcore.tasks import all_task_names, task_names

    try:
        cellname.parse(text, all_task_names(), task_names())
    except cellname.CellNameError:
        return False
    return True


def cell_name(item: pytest.Item) -> CellName | None:
    """The cell or sample that an item measures; None for other tests."""
    return cell_of(item.config, item.nodeid) if item.get_closest_marker("cells") is not None else None


@pytest.hookimpl(tryfirst=True)
def pytest_itemcollected(item: pytest.Item) -> None:
    tier = settings(item.config).profile
    if tier in ("quick", "ci") and cell_name(item) is not None:
        item.add_marker(tier)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Puts a model's cells together (it is loaded once), and keeps this shard's part."""
    names = _collected(items)
    # Where a file's grid is empty pytest makes one item to be skipped; the summary says what was left out and why.
    items[:] = [item for item in items if item in names or item.get_closest_marker("cells") is None]
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


def _collected(items: Iterable[pytest.Item]) -> dict[pytest.Item, CellName]:
    """The cells among the items. Raises pytest.UsageError where one has other parameters too, or is collected twice: its id would not
    tell which is meant."""
    names: dict[pytest.Item, CellName] = {}
    first: dict[CellName, str] = {}
    for item in items:
        name = cell_name(item)
        if name is None:
            parameters = getattr(getattr(item, "callspec", None), "params", {})
            if item.get_closest_marker("cells") and isinstance(parameters.get("cell"), str):
                raise pytest.UsageError(
                    f"{item.nodeid}: a test of cells has no parameters of its own; register a model or a sampler for each variant"
                )
            continue
        if first.setdefault(name, item.nodeid) != item.nodeid:
            raise pytest.UsageError(
                f"the same cell is collected twice, as {first[name]} and as {item.nodeid}; run one of the two files"
            )
        names[item] = name
    return names
