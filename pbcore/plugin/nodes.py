"""Which tests are cells, and which arguments name one, as in
`pytest ideal/shuffle/confidence-k2`.
"""

from __future__ import annotations

import pytest

from pbcore.grid.cellid import CellName, bracketed, parse_cell_name
from pbcore.plugin import may_name_cell
from pbcore.plugin.options import usage_errors
from pbcore.plugin.state import PLAN, plan, settings


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Puts node ids in the place of cells' names, before anything reads the arguments, xdist's for
    workers included.

    A folder of cells beside names, as in `pytest benches tiny/copy/random-k2`, says where the cells
    are; it is not run itself. Raises pytest.UsageError for a model or sampler that can't be meant.
    """
    invocation = config.invocation_params
    start = invocation.dir
    texts = [text for text in config.args if may_name_cell(text, invocation.dir)]
    if not texts:
        return
    from pbcore.grid.plan import add_own_tasks
    from pbcore.report.rerun import bench_file, path_of_cells

    with usage_errors():
        add_own_tasks(settings(config))
    names = {}
    for text in texts:
        name = read_name(text)
        if name is not None:
            names[text] = name
    if not names:
        return

    folders = [text for text in config.args if (start / text).is_dir()]
    instead = {}  # a node id for a name, nothing for a folder that has its cells
    for text, name in names.items():
        place = next(
            (folder for folder in folders if (start / folder / bench_file(name.task)).is_file()),
            None,
        )
        instead[text] = f"{path_of_cells(name.task, start, place or 'benches')}::test_cell[{text}]"
        if place is not None:
            instead[place] = ""
    config.args[:] = [instead.get(text, text) for text in config.args if instead.get(text) != ""]
    words = tuple(
        instead.get(str(word), word) for word in invocation.args if instead.get(str(word)) != ""
    )
    config.invocation_params = pytest.Config.InvocationParams(
        args=words, plugins=invocation.plugins, dir=start
    )
    plan(config)


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


def read_name(text: str) -> CellName | None:
    """The cell of a known task that a text names, whether or not the run has it."""
    from pbcore.tasks import all_task_names

    return parse_cell_name(text, all_task_names())
