"""The answers that reports are made of: read from run directories and other results, with their
questions.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from pbcore.base.check import encodable
from pbcore.base.errors import InputError
from pbcore.results.load import load_stored
from pbcore.results.questions import Questions, StoredQuestion, key, read_questions, stored_question
from pbcore.results.record import CellRecord, SampleRecord
from pbcore.results.rundir import RunDir, RunFacts, StoredCell
from pbcore.results.stats import is_wrong_score
from pbcore.tasks.naming import REWRITE


@dataclass(frozen=True, slots=True)
class ReportCell:
    """A cell as the page shows it, under its `id` and `model` there, with its answers and their
    questions. `run` has the facts of the run that it is from. In a comparison also the run's letter
    (`side`), the number of the other run's cell and the samples that flipped.
    """

    id: str
    model: str
    cell: CellRecord
    samples: Sequence[SampleRecord]
    questions: Mapping[int, StoredQuestion] = field(default_factory=dict)
    side: str = ""
    pair: int | None = None
    worse: tuple[int, ...] = ()
    better: tuple[int, ...] = ()
    run: RunFacts = field(default_factory=RunFacts)


def answers_alone(entry: StoredCell, run: RunFacts | None = None) -> ReportCell:
    """A cell's answers under its own names, without their questions.

    Args:
        entry: the cell.
        run: the facts of its run; None where no command is asked for.
    """
    cell = entry.cell
    name = encodable(cell.id)
    return ReportCell(name, encodable(cell.model_at), cell, entry.samples, run=run or {})


def is_wrong(cell: CellRecord, sample: SampleRecord) -> bool | None:
    """Whether an answer is wrong by its task's headline score; None if that was not measured."""
    score = sample.scores.get(cell.headline)
    return None if score is None else is_wrong_score(cell.headline, score)


def side_by_side(cells: pd.DataFrame) -> pd.DataFrame:
    """Rows of several runs for one table: where a cell occurs in more than one run, or a model with
    other prompts, each model is named with its run.
    """
    ran = cells[cells["status"] == "ok"]
    mixed = (ran["prompts"] == REWRITE).groupby(ran["model"]).nunique().gt(1).any()
    if not mixed and not cells.duplicated(["model", "task", "sampler"]).any():
        return cells
    runs = {run: Path(run).name for run in cells["run"].unique()}
    if len(set(runs.values())) < len(runs):
        runs = {run: run for run in runs}
    named = cells["model"] + " of " + cells["run"].map(runs)
    return cells.assign(model=named, id=named + "/" + cells["id"].str.split("/", n=1).str[1])


def report_cells(
    cells: pd.DataFrame,
    sources: Sequence[Path],
    known: Sequence[StoredCell] = (),
    with_questions: bool = True,
) -> list[ReportCell]:
    """The answers of a frame's cells, in its order. A cell without a record there (of published
    tables) is left out. In a frame of several runs a model may be named with its run ("tiny of a").

    Args:
        cells: a frame of `load` or `load_many`.
        sources: where the cells are from.
        known: what was read of the one source before.
        with_questions: whether each answer's question is looked up, too.
    """
    stored: dict[tuple[str, str, str, str], tuple[StoredCell, Mapping[int, StoredQuestion]]] = {}
    facts: dict[str, RunFacts] = {}
    for path in sources:
        questions_for = questions_of(RunDir(path)) if with_questions else _none
        facts[str(path)] = RunDir(path).read_run() if path.is_dir() else {}
        entries = known
        if not known and path.is_dir():
            with suppress(InputError):  # a folder of published results
                entries = load_stored(path, lambda damaged: None)
        for entry in entries:
            cell = entry.cell
            # names as frames have them
            model = encodable(cell.model_at)
            task = encodable(cell.task)
            sampler = encodable(cell.sampler)
            stored[str(path), model, task, sampler] = entry, questions_for(cell)
    answers = []
    named = cells.assign(run=cells.get("run", str(sources[0])))
    named = named[["id", "run", "model", "task", "sampler"]]
    for id_, run, shown_as, task, sampler in named.itertuples(index=False):
        for model in (shown_as, shown_as.rpartition(" of ")[0]):
            if (run, model, task, sampler) in stored:
                entry, questions = stored[run, model, task, sampler]
                answers.append(
                    ReportCell(id_, shown_as, entry.cell, entry.samples, questions, run=facts[run])
                )
                break
    return answers


def _none(cell: CellRecord) -> Mapping[int, StoredQuestion]:
    return {}


def questions_of(run: RunDir) -> Callable[[CellRecord], Mapping[int, StoredQuestion]]:
    """The questions of a run's cells: as they were kept with it, else loaded again if the data is
    here.
    """
    kept = read_questions(run)

    def questions_for(cell: CellRecord) -> Mapping[int, StoredQuestion]:
        place = key(cell)
        if place not in kept:
            kept[place] = {}
            with suppress(InputError, OSError):
                task = Questions(run.path, run.read_run()).of(cell)
                kept[place] = {sample.index: stored_question(sample) for sample in task.samples}
        return kept[place]

    return questions_for
