"""Writes report.html: of a run directory, or of several results side by side."""

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup

from pbcore.analysis.factors import factor_changes
from pbcore.analysis.order import family
from pbcore.printable import counted
from pbcore.report.answers import Answers, name_and_facts, read
from pbcore.report.cells import ROWS_NOTE, gaps, measured, rows_differ, run_facts
from pbcore.report.headline import headlines
from pbcore.report.looks import Look, looks
from pbcore.report.page.data import page_data
from pbcore.report.page.html import attribute, document, embedded, rendered, text
from pbcore.report.page.svg import WIDE, plot, series
from pbcore.report.page.tables import OVERVIEW, POLICIES, html_table, matrix, of_task
from pbcore.report.scopes import Scope, overview, policies, scopes
from pbcore.report.sections import (
    Section,
    exploration_section,
    factor_section,
    frontier_section,
    rooms,
)
from pbcore.results.rundir import write_atomic

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
        further=Markup("").join(map(section_html, further)),
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


def section_html(section: Section) -> Markup:
    """A section that report.md has, too; empty without rows."""
    if not section.rows:
        return Markup()
    caption = section.caption or section.title[0].lower() + section.title[1:]
    table = html_table(section.columns, section.rows, caption)
    note = Markup(text(section.note, 1000))
    return Markup('<section><h2>{}</h2>{}<p class="note">{}</p></section>').format(
        section.short, table, note
    )


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
