"""Commands that screens print to decode a cell, or one of its answers, again: in the short form
`pytest tiny/shuffle/confidence-k4/3`, with the options that decide the answer, whether they were
typed or stand in an ini file. They work in the folder where they are printed: paths begin there.
"""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pbcore.analysis.verdict_text import Rerun
from pbcore.base.errors import InputError
from pbcore.base.printable import command_line, escaped
from pbcore.grid.cellid import CellName, CellText
from pbcore.grid.levels import given_at
from pbcore.grid.needs import Use, acts, default_of
from pbcore.grid.option import Option, OptionValues, Role
from pbcore.grid.settings import OPTIONS
from pbcore.models.registry import model_label
from pbcore.results.record import CellRecord
from pbcore.results.rundir import RunFacts, StoredCell
from pbcore.tasks.naming import short

STOCK = {
    "waiting_line": "waiting_line",
    "text_writing": "text_writing",
    "puzzle": "puzzles",
    "list_ops": "list_ops",
}
DECIDE = (Role.ANSWERS, Role.LOADS, Role.COMPUTES)
MAY_BE_PATHS = ("adapter", "draft", "bertscore_model")  # or names
AGAIN = "reports/again"  # for a cell's new run, where an ini file names the directory of all
Flag = Callable[[Option], str]


def cell_command(
    cell: CellName | CellText,
    values: OptionValues,
    limit: int | None = None,
    flag: Flag = lambda option: f"--{option.name}",
    place: str = "",
    stated: Collection[str] = (),
) -> str:
    """The command that decodes a cell again, or its sample.

    Args:
        cell: its name; the sample's number is in it.
        values: the options of the run that are not at their defaults, by field, those of the cell's
            level included.
        limit: how many questions the cell has; None where the sample's number says which.
        flag: writes an option.
        place: node id of its test function, where that isn't a stock one.
        stated: options, by field, for which an ini file or `addopts` has a value: they are given
            even where they are at their defaults.

    Returns:
        A command for the folder in which the models, data and files of `values` have these paths.
    """
    chosen = {field: default_of(field) for field in stated}
    chosen |= values
    plain = replace(cell, level="")  # the options say it
    word = f"{place}[{plain.item_id}]" if place else plain.item_id
    words = ["pytest", word, *deciding_words(plain, chosen, flag, stated)]
    if limit is not None:
        words += _questions(cell, chosen, limit)
        words += ["--out", AGAIN] if "out" in stated else []
    return command_line(words)


def deciding_words(
    cell: CellName | CellText,
    values: OptionValues,
    flag: Flag = lambda option: f"--{option.name}",
    stated: Collection[str] = (),
) -> list[str]:
    """The options that decide a cell's answers, or how they are computed, as words of a command
    line: those that act on it and aren't at their defaults, or are `stated`.

    Args:
        cell: its name.
        values: the options of the run, by field.
        flag: writes an option.
        stated: the options that are said even at their defaults, by field.
    """
    use = Use(values, cell, alone=cell.sample is not None)
    words = []
    for option in OPTIONS:
        value = values.get(option.field)
        same = _plain(value) == _plain(default_of(option.field))
        if value is None or (same and option.field not in stated):
            continue
        if value is False and not option.negated:
            continue  # there is no word for it
        if option.role in DECIDE and acts(option.field, use):
            words += _words(option, value, flag(option))
    return words


def _questions(cell: CellName | CellText, values: OptionValues, limit: int) -> list[str]:
    """The options that ask a whole cell the questions that it was asked."""
    chosen = []
    for text in values.get("questions") or ():
        task = text.rpartition("=")[0]
        if task in ("", cell.task, short(cell.task)):
            chosen += ["--questions", text]
    return chosen or ["--limit", str(limit)]


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
    level = cell.conditions.level_text
    name = CellText(cell.model, cell.task, cell.sampler, sample, level)
    of_run = _of_cell(cell, facts)
    of_run = {**of_run, "settings": _settings_of(cell, of_run)}
    limit = None if sample is not None else cell.n_samples or cell.conditions.options.get("limit")
    return run_command(name, of_run, limit, _of_level(cell))


def recorded_values(cell: CellRecord, facts: RunFacts) -> OptionValues:
    """The options of a recorded cell by field: the run's, else the record's, and its level's."""
    return {**_settings_of(cell, facts), **_of_level(cell)}


def _settings_of(cell: CellRecord, facts: RunFacts) -> OptionValues:
    """The options of a recorded cell's run, else those of its record."""
    kept = cell.conditions
    recorded = {**kept.options, "gpu": kept.device == "cuda", "seed": kept.seeds, "device": None}
    return dict(facts.get("settings") or recorded)  # `gpu` says where


def run_command(
    cell: CellName | CellText,
    facts: RunFacts,
    limit: int | None = None,
    level: Mapping[str, Any] = MappingProxyType({}),
) -> str:
    """The command that decodes a cell of a run again, or its sample: the one that all screens
    print.

    Args:
        cell: its name; the sample's number is in it.
        facts: of the run: `settings`, and `commands` as the plugin writes them.
        limit: how many questions the cell has; None where the sample's number says which.
        level: the options that the cell's level sets, by field.
    """
    how = facts.get("commands") or {}
    folder = how.get("folder")
    values = {**how.get("computes", {}), **(facts.get("settings") or {}), **level}
    for option in OPTIONS:
        value = values.get(option.field)
        if value and (option.kind is Path or option.field in MAY_BE_PATHS):
            several = isinstance(value, list | tuple)
            moved = [_seen_from_here(str(path), folder) for path in (value if several else [value])]
            values[option.field] = moved if several else moved[0]
    long = how.get("long", ())
    place = how.get("files", {}).get(cell.cell_id, "")
    file, colons, function = place.partition("::")

    def flag(option: Option) -> str:
        return f"--pbcore-{option.name}" if option.name in long else f"--{option.name}"

    return cell_command(
        replace(cell, model=_model_from_here(cell.model, folder)),
        values,
        limit,
        flag=flag,
        place=f"{_seen_from_here(file, folder)}{colons}{function}" if place else "",
        stated=how.get("stated", ()),
    )


def stock_run(*options: object) -> str:
    """The command that runs the stock cells with these options: this repository's where it is
    printed there, else the package's.
    """
    stock = ["--pyargs", "pbcore.benches"]
    if Path("benches", bench_file("waiting_line/copy")).is_file():
        stock = ["benches"]
    return command_line(["pytest", *stock, *map(str, options)])


def _of_cell(cell: CellRecord, facts: RunFacts) -> RunFacts:
    """The facts of the run that a cell is from: of a merged run those of a part with its model."""
    for part in facts.get("merged_from") or ():
        if cell.model in (part.get("planned") or {}).get("models", ()):
            return {"settings": part.get("settings"), "commands": part.get("commands") or {}}
    return facts


def _seen_from_here(path: str, folder: str | None) -> str:
    """A path of the folder where the run was started, as it is called here; as it is where it isn't
    on this machine.
    """
    here = Path.cwd()
    if folder is None or Path(folder) == here or Path(path).is_absolute():
        return path
    there = Path(folder, path)
    if not there.exists():
        return path
    try:
        return Path(os.path.relpath(there, here)).as_posix()
    except ValueError:  # another drive of Windows
        return there.as_posix()


def _model_from_here(model: str, folder: str | None) -> str:
    """A model's name, or the path of its folder from here; of `MODEL+ADAPTER` that of each."""
    moved = _seen_from_here(model, folder)
    if moved == model and "+" in model:
        moved = "+".join(_seen_from_here(part, folder) for part in model.split("+"))
    return model if moved == model else model_label(moved)


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


def _of_level(cell: CellRecord) -> OptionValues:
    """The options that the level of a recorded cell sets, by field; none of a level that this
    version doesn't know. Those that can change answers stand as they were among its options, where
    a level has only a word for a path.
    """
    try:
        values = given_at(cell.conditions.level_text)
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
