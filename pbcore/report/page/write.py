"""Writes report.html: of a run directory, or of several results side by side."""

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup

from pbcore.errors import InputError
from pbcore.printable import counted
from pbcore.report.headline import findings, measured
from pbcore.report.page import figures, tables
from pbcore.report.page.data import Answers, page_data
from pbcore.report.page.exploration_table import exploration_table
from pbcore.report.page.factor_table import factor_table
from pbcore.report.page.facts import facts, gaps
from pbcore.report.page.frontier_table import frontier
from pbcore.report.page.html import document, embedded, rendered
from pbcore.report.page.svg import WIDE, attribute, plot, text
from pbcore.report.row_counts import NOTE, differ
from pbcore.results.json_values import encodable
from pbcore.results.load import load, load_stored
from pbcore.results.questions import Question, Questions, kept, key, question
from pbcore.results.record import CellRecord
from pbcore.results.rundir import RunDir, StoredCell, open_run, write_atomic
from pbcore.results.table_row import frame

FILE = "report.html"
SIZE = 1_495_000  # bytes of a page, as far as its answers decide
MEANS = "means over each model's own tasks"


def write_page(run_dir: str | Path, found: tuple[pd.DataFrame, list[Answers]] | None = None) -> Path:
    """Writes report.html into a run directory and returns its path; `found` is what `read` gave of it before.

    Raises the errors of `results.load`.
    """
    run = RunDir(Path(run_dir))
    cells, answers = found or read(run.path)
    return write_atomic(run.path / FILE, page(cells, answers, run.path.name, run.read_run()))


def read(path: Path) -> tuple[pd.DataFrame, list[Answers]]:
    """A result's rows and answers, read once. Raises the errors of `results.load`."""
    stored = open_run(path).read_cells() if (path / "cells").is_dir() else []
    if not stored:
        cells = load(path)
        return cells, answers_of(cells, [path])
    cells = frame(entry.cell for entry in stored)
    return cells, answers_of(cells, [path], {path: stored})


def rebuild(cells: pd.DataFrame, sources: Sequence[Path], out: Path, answers: Sequence[Answers]) -> Path:
    """Writes report.html for a frame of `load` or `load_many`, with the `answers` of its sources."""
    facts = RunDir(sources[0]).read_run() if len(sources) == 1 and sources[0].is_dir() else {}
    name = ", ".join(path.name for path in sources)
    where = " ".join(os.path.relpath(path, out) for path in sources)
    return write_atomic(out / FILE, page(cells, answers, name, facts, where=where))


def answers_of(
    cells: pd.DataFrame, sources: Sequence[Path], known: Mapping[Path, Sequence[StoredCell]] | None = None
) -> list[Answers]:
    """The answers of a frame's cells, in its order. A cell without a record there (of published tables) is left out.
    `known`: what was read of a source before.

    In a frame of several runs a model may be named with its run ("tiny of a").
    """
    stored: dict[tuple[str, str, str, str], tuple[StoredCell, Mapping[int, Question]]] = {}
    for path in sources:
        asked = questions_of(RunDir(path))
        for entry in (known or {}).get(path) or _stored(path):
            cell = entry.cell
            names = encodable(cell.model_at), encodable(cell.task), encodable(cell.sampler)  # as frames have them
            stored[str(path), *names] = entry, asked(cell)
    runs = cells["run"] if "run" in cells else pd.Series(str(sources[0]), index=cells.index)
    found = []
    for run, name, model, task, sampler in zip(
        runs, cells["id"], cells["model"], cells["task"], cells["sampler"], strict=True
    ):
        given = next((one for one in (model, model.rpartition(" of ")[0]) if (run, one, task, sampler) in stored), None)
        if given is not None:
            entry, questions = stored[run, given, task, sampler]
            found.append(Answers(name, model, entry.cell, entry.samples, questions))
    return found


def questions_of(run: RunDir) -> Callable[[CellRecord], Mapping[int, Question]]:
    """The questions of a run's cells: as they were kept with it, else loaded again if the data is here."""
    known = kept(run)

    def asked(cell: CellRecord) -> Mapping[int, Question]:
        if key(cell) not in known:
            known[key(cell)] = _loaded(run, cell)
        return known[key(cell)]

    return asked


def _loaded(run: RunDir, cell: CellRecord) -> dict[int, Question]:
    """A cell's questions by their digest; none where they can't be had."""
    try:
        task = Questions(run.path, run.read_run()).of(cell)
    except (InputError, OSError):
        return {}
    return {sample.index: question(sample) for sample in task.samples}


def _stored(path: Path) -> list[StoredCell]:
    """The cells of a run directory with their answers; none of other sources."""
    if not path.is_dir():
        return []
    try:
        return load_stored(path, lambda damaged: None)
    except InputError:
        return []  # a folder of published results


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
    """The page of a frame of `results.load`, of about `size` bytes at most (default: 1.5 MB). With `remote` it
    holds no answers and asks its server for them. `where`: the run, as seen from the page's folder.
    """
    content, sections = _content(cells, answers, run)
    return assembled(f"pbcore · {name}", content, answers, name, size or SIZE, remote, sections, where)


def assembled(
    title: str,
    content: str,
    answers: Sequence[Answers],
    run: str,
    size: int,
    remote: bool = False,
    sections: Sequence[str] = (),
    where: str = ".",
) -> str:
    """A page of static `content` and as many answers as `size` bytes leave room for."""
    room = size - len(document(title, content, "", (0, 0), remote, sections).encode("utf-8", "replace"))
    data, packed = page_data(answers, run, room, remote)
    data["where"] = where
    shown, total = sum(map(len, packed)), sum(len(one.samples) for one in answers)
    note = ""
    if shown < total and not remote:
        note = (
            f'<p class="note">This file holds {shown:,} of {counted(total, "answer")}; wrong ones come first. '
            f'All are shown by <code class="hint" data-run="{attribute(where)}">pbcore view {text(shlex.quote(where))}'
            "</code> in this file's folder.</p>"
        )
    parts = [embedded(f"s{number}", one) for number, one in enumerate(packed) if one]
    data_parts = embedded("page", data) + "".join(parts)
    return document(title, str(content) + note, data_parts, (shown, total), remote, sections)


def _content(cells: pd.DataFrame, answers: Sequence[Answers], run: Mapping[str, Any]) -> tuple[str, list[str]]:
    """The static page, and the headings that its navigation names."""
    whole, categories = figures.scopes(cells)
    known = figures.look_of_all(whole.cells)
    rows = figures.overview(whole)
    curves = figures.policies(whole) if len(categories) > 1 else []
    means = tables.html_table(
        tables.with_missing(tables.OVERVIEW, rows),
        rows,
        f"{MEANS}; {NOTE}" if differ(whole.cells).any() else MEANS,
        MEANS,
        "all-tasks",
        True,
    )
    policies = "speed at a quality, by policy: means over all tasks"
    parts: dict[str, Any] = {
        "measured": measured(cells, run),
        "findings": [(sentence.split(" scores ")[0], sentence) for sentence in findings(cells)],
        "drawn": Markup(plot(figures.series(whole, known), "mean over all tasks", WIDE)),
        "overview": means if rows else "",
        "curves": tables.html_table(tables.POLICIES, curves, policies, "", "policies", True) if curves else "",
        "categories": [_category(scope, known, len(categories) == 1) for scope in categories],
        "further": Markup(factor_table(answers) + exploration_table(cells) + frontier(answers)),
        "gaps": gaps(cells),
        "facts": facts(cells, run),
    }
    titles = [
        "overview",
        *(one["title"] for one in parts["categories"]),
        "answers",
        "not measured, and notes",
        "the run",
    ]
    return rendered("content.html", **parts), titles if parts["gaps"] else [*titles[:-2], titles[-1]]


def _category(scope: figures.Scope, known: figures.Looks, alone: bool) -> dict[str, Any]:
    """What the template shows of a category."""
    rows = [] if alone and len(scope.tasks) == 1 else figures.policies(scope)
    return {
        "title": scope.title,
        "alone": alone,
        "drawn": "" if alone else Markup(plot(figures.series(scope, known), f"{scope.title}, mean of its tasks")),
        "policies": tables.html_table(
            tables.POLICIES, rows, "speed at a quality, by policy", f"{scope.title}: PBx", "policies", alone
        )
        if rows
        else "",
        "matrix": tables.matrix(scope),
        "tasks": [
            {
                "name": task,
                "short": figures.short_name(task),
                "drawn": Markup(plot(figures.series(scope.task(task), known), task)),
                "table": tables.of_task(scope, task),
            }
            for task in scope.tasks
        ],
    }
