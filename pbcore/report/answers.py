"""The answers that reports are made of: read from run directories and other results, with their
questions.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from pbcore.base.check import encodable
from pbcore.base.errors import InputError
from pbcore.report.rows import CellRow, cell_rows, frame_rows
from pbcore.results.load import load_cells, load_published, load_stored
from pbcore.results.questions import Questions, StoredQuestion, key, read_questions, stored_question
from pbcore.results.record import CellRecord, SampleRecord
from pbcore.results.rundir import RunDir, RunFacts, StoredCell, open_run
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


@dataclass(frozen=True, slots=True)
class Result:
    """One result as reports take it: `rows` of its cells, the `answers` of those that have them
    here, and the facts of its run.
    """

    path: Path
    rows: Sequence[CellRow]
    answers: Sequence[ReportCell]
    facts: RunFacts


def read_result(path: Path, with_questions: bool = True) -> Result:
    """Reads a run directory or another file that `results.load` reads, each cell once.

    Args:
        path: of the result.
        with_questions: whether each answer's question is looked up, too.

    Raises:
        LoadError: as of `results.load`.
    """
    facts = RunDir(path).read_run() if path.is_dir() else RunFacts()
    stored: Sequence[StoredCell] = ()
    if (path / "cells").is_dir():
        stored = open_run(path).read_cells()
    if not stored:
        published = load_published(path)
        if published is not None:
            return Result(path, frame_rows(published), (), facts)
        cells = load_cells(path)
        if path.is_dir():
            with suppress(InputError):  # a folder with junit.xml alone has no answers
                stored = load_stored(path, lambda damaged: None)
    rows = cell_rows([entry.cell for entry in stored] or cells)
    return Result(path, rows, report_cells(rows, path, stored, facts, with_questions), facts)


def report_cells(
    rows: Sequence[CellRow],
    path: Path,
    stored: Sequence[StoredCell],
    facts: RunFacts,
    with_questions: bool = True,
) -> list[ReportCell]:
    """The answers of a run's cells.

    Args:
        rows: the cells as reports show them.
        path: of the run.
        stored: what was read of it; none without answers.
        facts: of run.json.
        with_questions: whether each answer's question is looked up, too.
    """
    questions_for = questions_of(RunDir(path)) if with_questions else _none
    answers = []
    for row, entry in zip(rows, stored, strict=False):
        questions = questions_for(entry.cell)
        answers.append(
            ReportCell(row["id"], row["model"], entry.cell, entry.samples, questions, run=facts)
        )
    return answers


def side_by_side(results: Sequence[Result]) -> tuple[list[CellRow], list[ReportCell]]:
    """Rows and answers of several results for one table: where a cell occurs in more than one of
    them, or a model with other prompts, each model is named with its run.
    """
    rows = [row for result in results for row in result.rows]
    answers = [answer for result in results for answer in result.answers]
    places = {(row["model"], row["task"], row["sampler"]) for row in rows}
    ran = [row for row in rows if row["status"] == "ok"]
    prompts = {(row["model"], row["prompts"] == REWRITE) for row in ran}
    mixed = len(prompts) > len({model for model, _ in prompts})
    if len(places) == len(rows) and not mixed:
        return rows, answers
    names = [result.path.name for result in results]
    if len(set(names)) < len({result.path for result in results}):
        names = [str(result.path) for result in results]
    rows = []
    answers = []
    for result, run in zip(results, names, strict=True):
        for row in result.rows:
            model = f"{row['model']} of {run}"
            rows.append({**row, "model": model, "id": _below(model, row["id"])})
        for answer in result.answers:
            model = f"{answer.model} of {run}"
            answers.append(replace(answer, model=model, id=_below(model, answer.id)))
    return rows, answers


def _below(model: str, cell_id: str) -> str:
    """A cell's id under another name of its model."""
    return f"{model}/{cell_id.partition('/')[2]}"


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
