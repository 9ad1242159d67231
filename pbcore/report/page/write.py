"""Writes report.html: of a run directory, or of several results side by side."""

import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

import pandas as pd
from markupsafe import Markup

from pbcore.analysis.factors import factor_changes
from pbcore.analysis.order import family
from pbcore.base.links import docs
from pbcore.base.printable import counted
from pbcore.report.answers import ReportCell, name_and_facts, read_report_cells
from pbcore.report.axes import chosen_axis
from pbcore.report.blame_section import blame_section
from pbcore.report.cells import ROWS_NOTE, facts_text, gaps, measured, rows_differ
from pbcore.report.glossary import glossary
from pbcore.report.looks import Look, looks
from pbcore.report.options import OWN, ReportOptions
from pbcore.report.page.cards import Card, cards_by_task, cards_of
from pbcore.report.page.data import by_key, page_data
from pbcore.report.page.html import as_json, attribute, data_element, document, rendered, text
from pbcore.report.page.points import PointData, point_data
from pbcore.report.page.svg import SHAPES, figure_element, series
from pbcore.report.page.tables import OVERVIEW, POLICIES, heat_map, html_table, matrix, of_task
from pbcore.report.prices import price_section, with_prices
from pbcore.report.scopes import Scope, overview, policy_rows, scopes
from pbcore.report.sections import (
    Section,
    exploration_section,
    factor_section,
    frontier_section,
    rooms,
)
from pbcore.results.rundir import RunFacts, write_atomic
from pbcore.tasks.naming import short

FILE = "report.html"
SIZE = 1_495_000  # bytes of a page, as far as its answers decide
SHOWN = 12  # curves of a plot that are seen without asking
MEANS = "means over each model's own tasks"
PBX = "speed at a quality, by policy: means over all tasks"
PBX_TOLD = (
    "how many tokens per step each policy reaches while its mean score is at least 90, 80, 70 or"
    " 60 %"
)
PRICES_TOLD = "milliseconds of an answer by each price list of the run"
FACTORS_TOLD = "which answers and scores change when one setting of the run changes"
BLAMED_TOLD = (
    "how many points each sampler loses to one token at a time because tokens were revealed"
    " together, and how many answers are the model's errors"
)
EXPLORED_TOLD = (
    "in which order tokens were written, how often they were taken back, and how different the"
    " answers to one question are"
)
FRONTIER_TOLD = (
    "how close each sampler comes to the best accuracy that is possible in as many steps when"
    " tokens are drawn independently"
)


class PageData(TypedDict):
    """What the plots and means of a run's page need: its cells, the sampler that each model's card
    names (by task, empty for all), and the shapes of markers.
    """

    points: PointData | None
    chosen: dict[str, dict[str, str]]
    shapes: Sequence[str]


def write_page(
    run_dir: str | Path, found: tuple[pd.DataFrame, list[ReportCell]] | None = None
) -> Path:
    """Writes report.html into a run directory and returns its path; `found` is what
    `read_report_cells` gave of it before. Raises the errors of `results.load`.
    """
    path = Path(run_dir)
    cells, answers = found or read_report_cells(path)
    return rebuild(cells, [path], path, answers)


def rebuild(
    cells: pd.DataFrame,
    sources: Sequence[Path],
    out: Path,
    answers: Sequence[ReportCell],
    options: ReportOptions = OWN,
) -> Path:
    """Writes report.html.

    Args:
        cells: a frame of `load` or `load_many`.
        sources: where the cells are from.
        out: the folder.
        answers: the cells' answers.
        options: what is asked for instead of what the run says.
    """
    where = " ".join(os.path.relpath(path, out) for path in sources)
    name, facts = name_and_facts(sources, options)
    return write_atomic(out / FILE, page(cells, answers, name, facts, where=where))


def page(
    cells: pd.DataFrame,
    answers: Sequence[ReportCell],
    name: str,
    run: RunFacts,
    *,
    size: int | None = None,
    remote: bool = False,
    where: str = ".",
) -> str:
    """The page of a frame of `results.load`.

    Args:
        cells: the frame.
        answers: the cells' answers.
        name: what the page is of.
        run: the facts of run.json.
        size: about how many bytes it has at most (default: 1.5 MB).
        remote: whether it holds no answers and asks its server for them.
        where: the run, as seen from the page's folder.
    """
    cells = with_prices(cells, answers, run)
    whole, categories = scopes(cells)
    look_of = looks(zip(whole.cells["model"], map(family, whole.cells["sampler"]), strict=True))
    names = glossary(cells)
    cards = {"": cards_of(cells, answers, run), **cards_by_task(whole.cells, answers, run)}
    facts = facts_text(cells, run)
    missing = gaps(cells)
    content = rendered(
        "content.html",
        gates=[verdict.split("\n", 1) for verdict in run.get("gate") or []],
        measured=measured(cells, run),
        command=facts.get("command", ""),
        heads=cards,
        names=names,
        scores=heat_map(whole, names) if whole.records else "",
        drawn=_curves(whole, look_of),
        overview=_overview(whole),
        categories=[_category(scope, whole, len(categories) == 1) for scope in categories],
        further=_further(cells, answers, whole, run),
        gaps=missing,
        facts=facts,
        docs=docs("results.md"),
    )
    points = None
    if whole.records:
        points = point_data(whole, cells, look_of, chosen_axis(run, cells))
    data = PageData(
        points=points,
        chosen={task: _chosen(of_task) for task, of_task in cards.items()},
        shapes=SHAPES,
    )
    return assembled(
        f"pbcore · {name}",
        content,
        answers,
        name,
        further=data,
        size=size,
        remote=remote,
        sections=_headings(categories, bool(missing)),
        where=where,
    )


def _chosen(cards: Iterable[Card]) -> dict[str, str]:
    """Model → the sampler that its card says to use."""
    return {card.model: card.verdict.sampler for card in cards if card.verdict.chosen}


def _headings(categories: Iterable[Scope], has_gaps: bool) -> list[str]:
    """What the page's navigation names."""
    headings = ["scores", "curves", "figures"]
    headings += [scope.title for scope in categories]
    headings += ["answers", "more"]
    if has_gaps:
        headings.append("not measured, and notes")
    return [*headings, "names", "the run"]


def _curves(whole: Scope, look_of: Mapping[tuple[str, str], Look]) -> Markup:
    """The first plot: means over all tasks."""
    if not whole.records:
        return Markup()
    tasks = whole.tasks
    title = short(tasks[0]) if len(tasks) == 1 else f"mean over {len(tasks)} tasks"
    return figure_element(range(len(tasks)), title, series(whole, look_of, SHOWN), True)


def _overview(whole: Scope) -> Markup:
    """All figures of each model and sampler."""
    rows = overview(whole, short)
    if not rows:
        return Markup()
    caption = f"{MEANS}; {ROWS_NOTE}" if rows_differ(whole.cells) else MEANS
    return html_table(OVERVIEW, rows, caption, MEANS, "means", True, name="figures")


def _further(
    cells: pd.DataFrame, answers: Sequence[ReportCell], whole: Scope, run: RunFacts
) -> list[tuple[str, str, Markup]]:
    """What stands folded: (title, what it tells in a sentence, its table)."""
    parts = []
    rows = policy_rows(whole)
    if rows:
        table = html_table(POLICIES, rows, PBX, PBX, "policies", True, name="speed at a quality")
        parts.append(("Speed at a quality", PBX_TOLD, table))
    sections = (
        (price_section(cells, answers, run), PRICES_TOLD),
        (factor_section(factor_changes(answers)), FACTORS_TOLD),
        (blame_section(answers), BLAMED_TOLD),
        (exploration_section(cells), EXPLORED_TOLD),
        (frontier_section(rooms(answers)), FRONTIER_TOLD),
    )
    for section, told in sections:
        if section.rows:
            parts.append((section.short, told, section_html(section)))
    return parts


def section_html(section: Section) -> Markup:
    """A section that report.md has, too; empty without rows."""
    if not section.rows:
        return Markup()
    caption = section.caption or section.title[0].lower() + section.title[1:]
    table = html_table(section.columns, section.rows, caption, name=section.short)
    return table + Markup('<p class="note">{}</p>').format(Markup(text(section.note, 1200)))


def assembled(
    title: str,
    content: str,
    answers: Sequence[ReportCell],
    run: str,
    further: PageData | None = None,
    size: int | None = None,
    remote: bool = False,
    sections: Sequence[str] = (),
    where: str = ".",
) -> str:
    """A page of static `content` and as many answers as `size` bytes leave room for.

    Args:
        title: its title.
        content: what reads without a script.
        answers: the cells' answers.
        run: the run's name.
        further: what its plots and means need.
        size: about how many bytes it has at most (default: 1.5 MB).
        remote: whether it holds no answers and asks its server for them.
        sections: the headings that its navigation names.
        where: the run, as seen from the page's folder.
    """
    without_data = document(title, content, "", (0, 0), remote, sections)
    room = (size or SIZE) - len(without_data.encode("utf-8", "replace"))
    room -= len(as_json(further).encode())
    data, packed = page_data(answers, run, room, remote)
    whole_data: dict[str, Any] = {**data, "where": where}
    if further is not None:
        whole_data |= further
    shown = sum(len(cell_answers) for cell_answers in packed)
    total = sum(len(cell.samples) for cell in answers)
    note = ""
    if shown < total and not remote:
        note = (
            f'<p class="note">This file holds {shown:,} of {counted(total, "answer")}; wrong ones'
            f' come first. All are shown by <code class="hint" data-run="{attribute(where)}">pbcore'
            f" view {text(shlex.quote(where))}</code> in this file's folder.</p>"
        )
    elements = data_element("page", whole_data)
    for number, cell_answers in enumerate(packed):
        if cell_answers:
            elements += data_element(f"s{number}", by_key(cell_answers))
    return document(title, str(content) + note, elements, (shown, total), remote, sections)


def _category(scope: Scope, whole: Scope, alone: bool) -> dict[str, Any]:
    """What the template shows of a category."""
    numbers = {task: number for number, task in enumerate(whole.tasks)}
    drawn = Markup()
    if len(scope.tasks) > 1 and not alone:
        of_scope = [numbers[task] for task in scope.tasks]
        drawn = figure_element(of_scope, f"{scope.title}, mean of its tasks")
    tasks = []
    for task in scope.tasks:
        tasks.append(
            {
                "name": task,
                "short": short(task),
                "drawn": figure_element([numbers[task]], short(task)),
                "table": of_task(scope, task),
            }
        )
    return {
        "title": scope.title,
        "alone": alone,
        "count": counted(len(tasks), "task"),
        "drawn": drawn,
        "matrix": matrix(scope),
        "tasks": tasks,
    }
