"""Commands that screens print to decode a cell, or one of its answers, again: in the short form
`pytest tiny/shuffle/confidence-k4/3`, with the options that decide the answer. They work in the
folder where they are printed, and in those below.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from pbcore.analysis.verdict_text import Rerun
from pbcore.base.errors import InputError
from pbcore.base.printable import command_line, escaped
from pbcore.grid.cellid import CellName
from pbcore.grid.levels import given_at, level_text
from pbcore.grid.needs import Use, acts, default_of
from pbcore.grid.option import Option, Role
from pbcore.grid.settings import OPTIONS
from pbcore.results.record import CellRecord
from pbcore.results.rundir import RunFacts, StoredCell

STOCK = {
    "waiting_line": "waiting_line",
    "text_writing": "text_writing",
    "puzzle": "puzzles",
    "list_ops": "list_ops",
}
DECIDE = (Role.ANSWERS, Role.LOADS, Role.COMPUTES)
Flag = Callable[[Option], str]


def cell_command(
    cell: CellName,
    values: Mapping[str, Any],
    limit: int | None = None,
    flag: Flag = lambda option: f"--{option.name}",
    place: str = "",
) -> str:
    """The command that decodes a cell again, or its sample.

    Args:
        cell: its name; the sample's number is in it.
        values: the options of the run that are not at their defaults, by field, those of the cell's
            level included.
        limit: how many questions the cell has; None where the sample's number says which.
        flag: writes an option.
        place: node id of its test function, where that isn't a stock one.

    Returns:
        A command for the folder in which the models, data and files of `values` have these paths.
    """
    plain = replace(cell, level="")  # the options say it
    use = Use(values, plain, alone=cell.sample is not None)
    word = f"{place}[{plain.item_id}]" if place else plain.item_id
    words = ["pytest", word]
    for option in OPTIONS:
        value = values.get(option.field)
        same = value is None or _plain(value) == _plain(default_of(option.field))
        if not same and option.role in DECIDE and acts(option.field, use):
            words += _words(option, value, flag(option))
    if limit is not None:
        words += ["--limit", str(limit)]
    return command_line(words)


def rerun_of(run: Sequence[StoredCell], facts: RunFacts) -> Rerun:
    """How to run a sample of one of these cells again.

    Args:
        run: the cells.
        facts: of run.json; without settings there, the options that the records keep hold.

    Returns:
        What gives the command for a cell's id and a sample's index.
    """
    cells = {entry.cell.id: entry.cell for entry in run}

    def command(cell_id: str, sample: int) -> str:
        return recorded_command(cells[cell_id], facts, sample)

    return command


def recorded_command(cell: CellRecord, facts: RunFacts, sample: int | None = None) -> str:
    """The command that decodes a recorded cell again, or one of its samples.

    Args:
        cell: the record.
        facts: of its run.
        sample: the sample's index; None for all of the cell's.
    """
    kept = cell.conditions
    recorded = {**kept.options, "gpu": kept.device == "cuda", "seed": kept.seeds}
    values = {**(facts.get("settings") or recorded), "device": None}  # `gpu` says where
    values |= _of_level(cell)
    name = CellName(cell.model, cell.task, cell.sampler, sample)
    return cell_command(name, values, None if sample is not None else cell.n_samples)


def bench_file(task: str) -> str:
    """The name of the file with a task's cells, given the task's full name; categories without
    their own share one.
    """
    return f"test_{STOCK.get(task.split('/', 1)[0], 'own_tasks')}.py"


def path_of_cells(task: str, folder: Path, place: str = "benches") -> Path:
    """The file with a task's cells, as pytest takes it.

    Args:
        task: the task's full name.
        folder: where pytest is started.
        place: where in it the file is looked for; without one there, it is the package's own.
    """
    here = Path(place) / bench_file(task)
    if (folder / here).is_file():
        return here
    return Path(str(files("pbcore.benches") / bench_file(task)))


def _of_level(cell: CellRecord) -> dict[str, Any]:
    """The options that the level of a recorded cell sets, by field; none of a level that this
    version doesn't know. Those that can change answers stand as they were among its options, where
    a level has only a word for a path.
    """
    try:
        values = given_at(level_text(cell.conditions.level or {}))
    except InputError:
        return {}
    for field in values:
        values[field] = cell.conditions.options.get(field, values[field])
    return values


def _plain(value: Any) -> Any:
    """A value for comparison: lists of JSON are tuples."""
    return tuple(value) if isinstance(value, list) else value


def _words(option: Option, value: Any, flag: str) -> list[str]:
    """An option as a command line has it: `--shots 0`, `--cot`, `--n 3,4,5`, `--tasks a.yaml
    --tasks b.yaml`.
    """
    if option.kind is None:
        return [flag] if value else [flag.replace(option.name, f"no-{option.name}")]
    if option.many:
        return [word for one in value for word in (flag, escaped(str(one)))]
    if isinstance(value, list | tuple):
        return [flag, ",".join(map(str, value))]
    return [flag, str(value)]
