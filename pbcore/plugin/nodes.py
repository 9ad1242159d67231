"""Which tests are cells, and which arguments name one, as in
`pytest ideal/shuffle/confidence-k2`.
"""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import files
from pathlib import Path, PurePath

import pytest

from pbcore.base.printable import command_line
from pbcore.grid.cellid import CellName, CellText, bracketed, parse_cell_name
from pbcore.plugin import may_name_cell
from pbcore.plugin.options import usage_errors
from pbcore.plugin.state import PLAN, plan, settings

BENCHES = "benches"
STOCK = "pbcore.benches"


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Puts node ids in the place of cells' names, in every process before it reads the arguments.

    A folder of cells beside names, as in `pytest benches tiny/copy/random-k2`, says where the cells
    are; it is not run itself. Raises pytest.UsageError for a model or sampler that can't be meant,
    and for this repository's `benches` where that isn't.
    """
    start = config.invocation_params.dir
    _check_benches(config, start)
    texts = [text for text in config.args if may_name_cell(text, start)]
    if not texts:
        return
    from pbcore.grid.plan import add_own_tasks
    from pbcore.models.registry import model_label
    from pbcore.report.rerun import bench_file, path_of_cells

    with usage_errors():
        add_own_tasks(settings(config))
    names: dict[str, CellText] = {}
    for text in texts:
        name = read_name(text)
        if name is not None:
            names[text] = replace(name, model=model_label(name.model))
    if not names:
        return

    folders = [text for text in config.args if (start / text).is_dir()]
    instead = {}  # a node id for a name, nothing for a folder that has its cells
    for text, name in names.items():
        place = next(
            (folder for folder in folders if (start / folder / bench_file(name.task)).is_file()),
            None,
        )
        file = path_of_cells(name.task, start, place or "benches")
        instead[text] = f"{file}::test_cell[{name.item_id}]"
        if place is not None:
            instead[place] = ""
    config.args[:] = [instead.get(text, text) for text in config.args if instead.get(text) != ""]
    plan(config)


def _check_benches(config: pytest.Config, start: Path) -> None:
    """Raises pytest.UsageError with the arguments to type instead of a place in `benches` where
    there is no such folder: the stock cells of the installed package, or names of cells alone.
    """
    if config.option.pyargs or (start / BENCHES).exists():
        return
    instead = {text: _of_package(text) for text in config.args if text.startswith(BENCHES)}
    wrong = {text: module for text, module in instead.items() if module is not None}
    if not wrong:
        return
    words = [wrong.get(str(word), str(word)) for word in config.invocation_params.args]
    if any(may_name_cell(text, start) for text in config.args):
        words = [str(word) for word in config.invocation_params.args if str(word) not in wrong]
    else:
        words = ["--pyargs", *words]
    raise pytest.UsageError(
        f"no folder {BENCHES!r} here: {start} is not pbcore's repository. Its stock cells run from"
        f" any folder: {command_line(['pytest', *words])}"
    )


def _of_package(text: str) -> str | None:
    """The stock cells that a place in `benches` names, as `--pyargs` takes them: a package, or a
    module and what follows its `::`. None for what the package doesn't have.
    """
    place, colons, item = text.partition("::")
    parts = PurePath(place).parts
    if parts == (BENCHES,):
        return f"{STOCK}{colons}{item}"
    name = parts[-1]
    if parts != (BENCHES, name) or not (files(STOCK) / name).is_file():
        return None
    return f"{STOCK}.{PurePath(name).stem}{colons}{item}"


def cell_of(config: pytest.Config, node_id: str) -> CellName | None:
    """The cell or sample of this run that a node id names, None for any other test. All hooks tell
    cells by this, in every process: xdist's controller, which collects nothing, knows node ids
    alone.
    """
    text = bracketed(node_id)
    if text is None or (PLAN not in config.stash and read_name(text) is None):
        return None  # a run without options needs no plan
    return plan(config).items.get(text)


def cell_name(item: pytest.Item) -> CellName | None:
    """The cell or sample that an item measures; None for other tests."""
    return (
        cell_of(item.config, item.nodeid) if item.get_closest_marker("cells") is not None else None
    )


def read_name(text: str) -> CellText | None:
    """The cell of a known task that a text names, whether or not the run has it."""
    from pbcore.tasks import all_task_names

    return parse_cell_name(text, all_task_names())
