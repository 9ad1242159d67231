"""Commands that decode one sample of a finished run again: its cell by node id, under the run's own
settings.
"""

from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from pbcore.analysis.verdict_text import Rerun
from pbcore.base.printable import command_line, escaped
from pbcore.grid.cellid import CellName
from pbcore.grid.needs import Use, acts
from pbcore.results.rundir import RunFacts, StoredCell

STOCK = {
    "waiting_line": "waiting_line",
    "text_writing": "text_writing",
    "puzzle": "puzzles",
    "list_ops": "list_ops",
}
_NO_OPTIONS = {"profile", "limit", "device", "rounds"}


def rerun_of(run: Sequence[StoredCell], facts: RunFacts, folder: Path) -> Rerun:
    """How to run a sample of one of these cells again.

    Args:
        run: the cells.
        facts: of run.json; without settings there, the options that the records keep hold.
        folder: where pytest is to be started. Cells are those in its `benches/`, or else the
            package's own.

    Returns:
        What gives the command for a cell's id and a sample's index.
    """
    cells = {entry.cell.id: entry.cell for entry in run}

    def command(cell_id: str, sample: int) -> str:
        cell = cells[cell_id]
        kept = cell.conditions
        recorded = {**kept.options, "gpu": kept.device == "cuda", "seed": kept.seeds}
        node_id = f"{path_of_cells(cell.task, folder)}::test_cell[{escaped(cell.id)}/{sample}]"
        chosen = facts.get("settings") or recorded
        use = Use(chosen, CellName(cell.model, cell.task, cell.sampler), alone=True)
        acting = {name: value for name, value in chosen.items() if acts(name, use)}
        return command_line(["pytest", node_id, *_options(acting)])

    return command


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


def _options(settings: Mapping[str, Any]) -> list[str]:
    """Settings as a command line has them: `--shots 0`, `--cot`, `--n 3,4,5`, `--tasks a.yaml
    --tasks b.yaml`.
    """
    words: list[str] = []
    for name, value in settings.items():
        if name in _NO_OPTIONS or value is None or value is False or value == []:
            continue
        flag = f"--{name.replace('_', '-')}"
        values = value if isinstance(value, list) else [value]
        if value is True:
            words.append(flag)
        elif all(isinstance(number, int) for number in values):
            words += [flag, ",".join(str(number) for number in values)]
        else:
            for text in values:
                words += [flag, str(text)]
    return words
