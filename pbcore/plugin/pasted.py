"""A cell's name as reports show it runs that cell: `pytest ideal/shuffle/confidence-k2`, or a sample, with `/17`."""

from pathlib import Path

import pytest

from pbcore.grid.cellid import CellName
from pbcore.plugin.state import plan, read_name


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Puts node ids in the place of names, before anything reads the arguments, xdist's for its workers included.

    A folder of cells beside names, as in `pytest benches tiny/copy/random-k2`, says where the cells are; it is not run
    itself. Raises pytest.UsageError for a model or sampler that can't be meant."""
    given = config.invocation_params
    names = {text: name for text in config.args if (name := _name(text, given.dir)) is not None}
    if not names:
        return
    instead = _node_ids(names, [text for text in config.args if (given.dir / text).is_dir()], given.dir)
    config.args[:] = [instead.get(text, text) for text in config.args if instead.get(text) != ""]
    words = tuple(instead.get(str(word), word) for word in given.args if instead.get(str(word)) != "")
    config.invocation_params = pytest.Config.InvocationParams(args=words, plugins=given.plugins, dir=given.dir)
    plan(config)


def _node_ids(names: dict[str, CellName], folders: list[str], start: Path) -> dict[str, str]:
    """Argument → what stands in its place: a node id for a name, nothing for a folder that has its cells."""
    from pbcore.report.rerun import cell_file, path_of_cells

    instead = {}
    for text, name in names.items():
        place = next((folder for folder in folders if (start / folder / cell_file(name.task)).is_file()), None)
        instead[text] = f"{path_of_cells(name.task, start, place or 'benches')}::test_cell[{text}]"
        if place is not None:
            instead[place] = ""
    return instead


def _name(text: str, start: Path) -> CellName | None:
    """The cell that an argument names, unless it is a node id or there is such a file."""
    return None if text.count("/") < 2 or "::" in text or (start / text).exists() else read_name(text)
