"""Writes report.html: of a run directory, or of several results side by side."""

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup

from pbcore.analysis.factors import factor_changes
from pbcore.analysis.order import family
from pbcore.errors import InputError
from pbcore.printable import counted
from pbcore.report.cells import ROWS_NOTE, gaps, measured, rows_differ, run_facts
from pbcore.report.headline import headlines
from pbcore.report.looks import Look, looks
from pbcore.report.page.data import Answers, page_data
from pbcore.report.page.html import attribute, document, embedded, rendered, text
from pbcore.report.page.sections import exploration_section, factor_section, frontier_section, rooms
from pbcore.report.page.svg import WIDE, plot, series
from pbcore.report.page.tables import OVERVIEW, POLICIES, html_table, matrix, of_task
from pbcore.report.scopes import Scope, overview, policies, scopes
from pbcore.results.check import encodable
from pbcore.results.load import load, load_many, load_stored
from pbcore.results.questions import Questions, StoredQuestion, kept, key, question
from pbcore.results.record import CellRecord
from pbcore.results.rundir import RunDir, StoredCell, open_run, write_atomic
from pbcore.results.table_row import frame
from pbcore.tasks.naming import REWRITE

FILE = "report.html"
SIZE = 1_495_000  # bytes of a page, as far as its answers decide
SHOWN = 12  # curves of a plot that are seen without asking
MEANS = "means over each model's own tasks"


def write_page(
    run_dir: str | Path, found: tuple[pd.DataFrame, list[Answers]] | None = None
) -> Path:
    """Writes report.html into a run directory and returns its path; `found` is what `read` gave of
    it before. Raises the errors of `results.load`.
    """
    path = Path(run_dir)
    cells, answers = found or read(path)
    return rebuild(cells, [path], path, answers)


def read(path: Path, with_questions: bool = True) -> tuple[pd.DataFrame, list[Answers]]:
    """A result's rows and answers, read once. Raises the errors of `results.load`."""
    stored = open_run(path).read_cells() if (path / "cells").is_dir() else []
    cells = frame(entry.cell for entry in stored) if stored else load(path)
    return cells, answers_of(cells, [path], stored, with_questions)


def read_all(
    paths: Sequence[Path], with_questions: bool = True
) -> tuple[pd.DataFrame, list[Answers]]:
    """The rows and answers of one result, or of several side by side; without their questions if
    those aren't needed. Raises the errors of `results.load`.
    """
    if len(paths) == 1:
        return read(paths[0], with_questions)
    cells = side_by_side(load_many(paths))
    return cells, answers_of(cells, paths, with_questions=with_questions)


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


def rebuild(
    cells: pd.DataFrame,
    sources: Sequence[Path],
    out: Path,
    answers: Sequence[Answers],
    max_loss: float | None = None,
) -> Path:
    """Writes report.html.

    Args:
        cells: a frame of `load` or `load_many`.
        sources: where the cells are from.
        out: the folder.
        answers: the cells' answers.
        max_loss: the loss in points that the headline allows (default: the run's own).
    """
    where = " ".join(os.path.relpath(path, out) for path in sources)
    name, facts = name_and_facts(sources, max_loss)
    return write_atomic(out / FILE, page(cells, answers, name, facts, where=where))


def name_and_facts(
    sources: Sequence[Path], max_loss: float | None = None
) -> tuple[str, Mapping[str, Any]]:
    """The name of a report of these sources, and the facts of run.json where it is of one run, with
    this loss allowed in the headline if one is given.
    """
    alone = len(sources) == 1 and sources[0].is_dir()
    facts = RunDir(sources[0]).read_run() if alone else {}
    if max_loss is not None:
        facts = {**facts, "max_loss": max_loss}
    return ", ".join(path.name for path in sources), facts


def answers_of(
    cells: pd.DataFrame,
    sources: Sequence[Path],
    known: Sequence[StoredCell] = (),
    with_questions: bool = True,
) -> list[Answers]:
    """The answers of a frame's cells, in its order. A cell without a record there (of published
    tables) is left out. In a frame of several runs a model may be named with its run ("tiny of a").

    Args:
        cells: a frame of `load` or `load_many`.
        sources: where the cells are from.
        known: what was read of the one source before.
        with_questions: whether each answer's question is looked up, too.
    """
    stored: dict[tuple[str, str, str, str], tuple[StoredCell, Mapping[int, StoredQuestion]]] = {}
    for path in sources:
        asked = questions_of(RunDir(path)) if with_questions else _none
        entries = known
        if not known and path.is_dir():
            with suppress(InputError):  # a folder of published results
                entries = load_stored(path, lambda damaged: None)
        for entry in entries:
            cell = entry.cell
            names = (
                encodable(cell.model_at),
                encodable(cell.task),
                encodable(cell.sampler),
            )  # as frames have them
            stored[str(path), *names] = entry, asked(cell)
    found = []
    for row in cells.assign(run=cells.get("run", str(sources[0]))).to_dict("records"):
        models = row["model"], row["model"].rpartition(" of ")[0]
        places = ((row["run"], model, row["task"], row["sampler"]) for model in models)
        if place := next((place for place in places if place in stored), None):
            entry, questions = stored[place]
            found.append(Answers(row["id"], row["model"], entry.cell, entry.samples, questions))
    return found


def _none(cell: CellRecord) -> Mapping[int, StoredQuestion]:
    return {}


def questions_of(run: RunDir) -> Callable[[CellRecord], Mapping[int, StoredQuestion]]:
    """The questions of a run's cells: as they were kept with it, else loaded again if the data is
    here.
    """
    known = kept(run)

    def asked(cell: CellRecord) -> Mapping[int, StoredQuestion]:
        if key(cell) not in known:
            known[key(cell)] = {}
            with suppress(InputError, OSError):
                task = Questions(run.path, run.read_run()).of(cell)
                known[key(cell)] = {sample.index: question(sample) for sample in task.samples}
        return known[key(cell)]

    return asked


def page(
    cells: pd.DataFrame,
    answers: Sequence[Answers],
    name: str,
    run: Mapping[str, Any],
    *,
    size: int | None = None,
    remote: bool = False,
    where: str = ".",
) -> str:
    """The page of a frame of `results.load`, of about `size` bytes at most (default: 1.5 MB). With
    `remote` it holds no answers and asks its server for them. `where`: the run, as seen from the
    page's folder.
    """
    whole, categories = scopes(cells)
    known = looks(zip(whole.cells["model"], map(family, whole.cells["sampler"]), strict=True))
    rows = overview(whole)
    caption = f"{MEANS}; {ROWS_NOTE}" if rows_differ(whole.cells) else MEANS
    means = html_table(OVERVIEW, rows, caption, MEANS, "all-tasks", True)
    further = (
        factor_section(factor_changes(answers)),
        exploration_section(cells),
        frontier_section(rooms(answers)),
    )
    missing = gaps(cells)
    content = rendered(
        "content.html",
        measured=measured(cells, run),
        headlines=headlines(cells, answers, run),
        drawn=plot(series(whole, known, SHOWN), "mean over all tasks", WIDE),
        overview=means if rows else "",
        curves=(
            _policies(whole, "speed at a quality, by policy: means over all tasks")
            if len(categories) > 1
            else ""
        ),
        categories=[_category(scope, known, len(categories) == 1) for scope in categories],
        further=Markup("".join(section.html() for section in further)),
        gaps=missing,
        facts=run_facts(cells, run),
    )
    notes = ["not measured, and notes"] if missing else []
    sections = [
        "overview",
        *(scope.title for scope in categories),
        "answers",
        *notes,
        "the run",
    ]  # of its navigation
    return assembled(f"pbcore · {name}", content, answers, name, size, remote, sections, where)


def assembled(
    title: str,
    content: str,
    answers: Sequence[Answers],
    run: str,
    size: int | None = None,
    remote: bool = False,
    sections: Sequence[str] = (),
    where: str = ".",
) -> str:
    """A page of static `content` and as many answers as `size` bytes leave room for."""
    room = (size or SIZE) - len(
        document(title, content, "", (0, 0), remote, sections).encode("utf-8", "replace")
    )
    data, packed = page_data(answers, run, room, remote)
    data["where"] = where
    shown = sum(map(len, packed))
    total = sum(len(one.samples) for one in answers)
    note = ""
    if shown < total and not remote:
        note = (
            f'<p class="note">This file holds {shown:,} of {counted(total, "answer")}; wrong ones'
            f' come first. All are shown by <code class="hint" data-run="{attribute(where)}">pbcore'
            f" view {text(shlex.quote(where))}</code> in this file's folder.</p>"
        )
    parts = embedded("page", data) + "".join(
        embedded(f"s{number}", one) for number, one in enumerate(packed) if one
    )
    return document(title, str(content) + note, parts, (shown, total), remote, sections)


def _category(scope: Scope, known: Mapping[tuple[str, str], Look], alone: bool) -> dict[str, Any]:
    """What the template shows of a category."""
    speed = "speed at a quality, by policy"
    return {
        "title": scope.title,
        "alone": alone,
        "drawn": (
            "" if alone else plot(series(scope, known, SHOWN), f"{scope.title}, mean of its tasks")
        ),
        "policies": (
            ""
            if alone and len(scope.tasks) == 1
            else _policies(scope, speed, f"{scope.title}: PBx", alone)
        ),
        "matrix": matrix(scope),
        "tasks": [
            {
                "name": task,
                "short": scope.task(task).title,
                "drawn": plot(series(scope.task(task), known, SHOWN), task),
                "table": of_task(scope, task),
            }
            for task in scope.tasks
        ],
    }


def _policies(scope: Scope, caption: str, label: str = "", explained: bool = True) -> str:
    rows = policies(scope)
    return html_table(POLICIES, rows, caption, label, "policies", explained) if rows else ""
