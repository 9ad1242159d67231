"""Writes report.html: of a run directory, or of several results side by side."""

import base64
import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, TypedDict

from markupsafe import Markup

from pbcore.analysis.explanation import Explanation
from pbcore.analysis.order import method_of
from pbcore.base.links import docs
from pbcore.base.printable import counted
from pbcore.base.registry import Registry
from pbcore.report.answers import ReportCell
from pbcore.report.axes import PRICED, SECONDS, Axis
from pbcore.report.blame_section import with_wrong_answers
from pbcore.report.columns import SAMPLER
from pbcore.report.explanation import explanation_section, sentence
from pbcore.report.glossary import glossary
from pbcore.report.headline import in_a_line
from pbcore.report.looks import looks
from pbcore.report.page.cards import Card, all_cards
from pbcore.report.page.data import RunData, answer_data, run_data
from pbcore.report.page.html import attribute, data_element, document, rendered, text
from pbcore.report.page.names import short_models
from pbcore.report.page.points import ALL, SHAPES, PointData, point_data
from pbcore.report.page.tables import (
    SPEEDS,
    Link,
    heat_map,
    html_table,
    link,
    matrix,
    means_table,
    of_task,
    policies_table,
)
from pbcore.report.report import Report, read_report
from pbcore.report.rows import CellRow
from pbcore.report.runs import FILE
from pbcore.report.scopes import Scope
from pbcore.report.sections import Section
from pbcore.results.rundir import write_atomic
from pbcore.tasks.naming import short

SIZE = 1_495_000  # bytes of a page, as far as its answers decide
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


class PictureSection(Protocol):
    """A picture that a neighbour adds to what stands folded (group `pbcore.page_sections`): its
    title, and what it tells in a sentence.
    """

    short: str
    told: str

    def svg(self, answers: Sequence[ReportCell], same: Mapping[str, str]) -> str:
        """The picture, from the run's cells and its name of a model → a published one; empty where
        there is nothing to show.
        """


PICTURES: Registry[PictureSection] = Registry("section of the page", "pbcore.page_sections")


class PlotsOfRun(TypedDict):
    """What the plots of a run's page need: their points, the sampler that each model's card names
    (by task, empty for all), the shapes of markers, and what captions of tables say in LaTeX.
    """

    points: PointData | None
    chosen: dict[str, dict[str, str]]
    shapes: Sequence[str]
    caption: str


def write_page(run_dir: str | Path) -> Path:
    """Writes report.html into a run directory and returns its path. Raises the errors of
    `results.load`.
    """
    path = Path(run_dir)
    return rebuild(read_report([path]), path)


def rebuild(report: Report, out: Path, same: Mapping[str, str] = MappingProxyType({})) -> Path:
    """Writes report.html.

    Args:
        report: what it shows.
        out: the folder.
        same: as of `page`.
    """
    where = " ".join(os.path.relpath(path, out) for path in report.sources)
    return write_atomic(out / FILE, page(report, where=where, same=same))


def page(
    report: Report,
    *,
    size: int | None = None,
    remote: bool = False,
    where: str = ".",
    same: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """The page of a report.

    Args:
        report: what it shows.
        size: about how many bytes it has at most (default: 1.5 MB).
        remote: whether it holds no answers and asks its server for them.
        where: the run, as seen from the page's folder.
        same: the run's name of a model → that of a published one, over whose points those of the
            run are drawn; a model's own name is known.
    """
    shorter = short_models(report.rows)
    shown = _renamed(report, shorter)
    tasks = list(dict.fromkeys(row["task"] for row in shown.whole.records))
    cards = all_cards(report.verdicts, tasks, shorter)
    chosen = {task: _chosen(of_task) for task, of_task in cards.items()}
    plots = PlotsOfRun(
        points=_points(shown),
        chosen=chosen,
        shapes=SHAPES,
        caption=report.proof,
    )
    return assembled(
        shown.heading or report.name,
        _content(shown, cards, chosen[ALL], same),
        shown.answers,
        report.name,
        plots,
        size=size,
        remote=remote,
        sections=_headings(shown.categories, bool(shown.gaps)),
        where=where,
        verdicts=[in_a_line(card.verdict) for card in cards[ALL]],
    )


def _renamed(report: Report, names: Mapping[str, str]) -> Report:
    """The report with other names of models, where there are any."""
    if not names:
        return report
    rows: list[CellRow] = []
    for row in report.rows:
        rows.append({**row, "model": names.get(row["model"], row["model"])})
    answers = [replace(one, model=names.get(one.model, one.model)) for one in report.answers]
    return replace(report, rows=rows, answers=answers)


def _points(report: Report) -> PointData | None:
    """What the page's plots show; None without a cell."""
    whole = report.whole
    if not whole.records:
        return None
    look_of = looks((row["model"], method_of(row["sampler"])) for row in whole.records)
    return point_data(whole, look_of, report.axis)


def _content(
    report: Report,
    cards: Mapping[str, Sequence[Card]],
    chosen: Mapping[str, str],
    same: Mapping[str, str],
) -> Markup:
    """What reads without a script.

    Args:
        report: what the page shows.
        cards: of all tasks, and of each.
        chosen: model → the sampler that its card names.
        same: as of `page`.
    """
    whole = report.whole
    categories = report.categories
    run = report.facts
    names = glossary(report.rows)
    folded = _folded(report.axis)
    picture = _picture(report.priced, report.axis, chosen) if whole.records else ""
    return rendered(
        "content.html",
        gates=[verdict.split("\n") for verdict in run.get("gate") or []],
        gate_failed=bool(run.get("gate_failed")),
        measured=report.measured,
        command=report.ran_as.get("command", ""),
        heads=cards,
        names=names,
        scores=heat_map(whole, names) if whole.records else "",
        rates=report.rates_note,
        drawn=_curves(whole, picture),
        explained=_explained(report.explanation),
        overview=means_table(whole, folded),
        categories=[_category(scope, folded, len(categories) == 1) for scope in categories],
        further=_further(report, same),
        gaps=report.gaps,
        facts=report.ran_as,
        docs=docs("results.md"),
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


def _curves(whole: Scope, picture: str) -> Markup:
    """The first plot, means over all tasks, with a `picture` for readers without scripts."""
    if not whole.records:
        return Markup()
    tasks = whole.tasks
    title = short(tasks[0]) if len(tasks) == 1 else f"mean over {len(tasks)} tasks"
    return rendered("plot.html", plot=ALL, title=title, picture=picture)


def _picture(cells: Sequence[CellRow], axis: Axis, chosen: Mapping[str, str]) -> str:
    """The first plot as the address of an SVG picture; empty without a point to draw.

    Args:
        cells: those of a report.
        axis: of speed.
        chosen: model → the sampler that its verdict chose.
    """
    from pbcore.report.plots import mean_svg  # imports matplotlib

    drawn = mean_svg(cells, axis, chosen)
    return _svg(drawn) if drawn else ""


def _folded(axis: Axis) -> frozenset[str]:
    """The measures of speed that tables show on demand: all but that of the run's axis. Tokens per
    step and TPF, which are easily mistaken for each other, stand together.
    """
    front = {"samples_per_second"} if axis.key.startswith((PRICED, SECONDS)) else {axis.key}
    both = {"tokens_per_step", "tokens_per_forward"}
    return SPEEDS - (front | both if front & both else front)


def _further(report: Report, same: Mapping[str, str]) -> list[tuple[str, str, Markup]]:
    """What stands folded: (title, what it tells in a sentence, its table)."""
    parts = []
    policies = policies_table(report.whole)
    if policies:
        parts.append(("Speed at a quality", PBX_TOLD, policies))
    sections = (
        (report.prices, PRICES_TOLD),
        (report.factors, FACTORS_TOLD),
        (with_wrong_answers(report.blame), BLAMED_TOLD),
        (report.exploration, EXPLORED_TOLD),
        (report.frontier, FRONTIER_TOLD),
    )
    for section, told in sections:
        if section.rows:
            parts.append((section.short, told, section_html(section)))
    for added in PICTURES.all().values():
        drawn = added.svg(report.answers, same)
        if drawn:
            picture = Markup('<img class="picture" alt="{}" src="{}">')
            parts.append((added.short, added.told, picture.format(added.told, _svg(drawn))))
    return parts


def _svg(drawn: str) -> str:
    """The address of an SVG picture."""
    return f"data:image/svg+xml;base64,{base64.b64encode(drawn.encode()).decode()}"


def _explained(explanation: Explanation | None) -> Markup:
    """The sentence, picture and table of a run's explanation; empty without."""
    from pbcore.report.explanation_picture import NAME, waterfall  # imports matplotlib
    from pbcore.report.style import svg

    if explanation is None:
        return Markup()
    section = explanation_section(explanation)
    html = Markup("<p>{}</p>").format(text(sentence(explanation), 1200))
    if explanation.additive:
        picture = Markup('<img class="picture" alt="{}" src="{}">')
        html += picture.format(section.title, _svg(svg(waterfall(explanation).figure, NAME)))
    return html + section_html(section)


def section_html(section: Section) -> Markup:
    """A section that report.md has, too; empty without rows."""
    if not section.rows:
        return Markup()
    links: dict[str, Link] = {}
    if all("id" in row for row in section.rows):
        links[SAMPLER.head] = lambda row, inner: link(row["id"], inner)
    table = html_table(section, links=links)
    return table + Markup('<p class="note">{}</p>').format(Markup(text(section.note, 1200)))


def assembled(
    title: str,
    content: str,
    answers: Sequence[ReportCell],
    run: str,
    plots: PlotsOfRun | None = None,
    size: int | None = None,
    remote: bool = False,
    sections: Sequence[str] = (),
    where: str = ".",
    verdicts: Sequence[str] = (),
) -> str:
    """A page of static `content` and as many answers as `size` bytes leave room for.

    Args:
        title: what it is of.
        content: what reads without a script.
        answers: the cells' answers.
        run: the run's name.
        plots: what its plots need.
        size: about how many bytes it has at most (default: 1.5 MB).
        remote: whether it holds no answers and asks its server for them.
        sections: the headings that its navigation names.
        where: the run, as seen from the page's folder.
        verdicts: a line for each model.
    """
    told = [("cells", str(len(answers))), ("measured", title)]
    told += [("verdict", verdict) for verdict in verdicts]
    samplers = dict.fromkeys(answer.cell.sampler for answer in answers)
    told += [("sampler", sampler) for sampler in samplers]
    data: RunData | PlotsOfRun | dict[str, str]
    whole_data: dict[str, Any] = {"where": where}
    for data in (run_data(answers, run), plots or {}):
        whole_data |= data
    elements = data_element("page", whole_data)
    total = sum(len(cell.samples) for cell in answers)
    written = partial(document, title, run, sections=sections, remote=remote, told=told)
    if remote:
        return written(content, elements, (0, total))
    without_answers = written(content, elements, (0, 0))
    room = (size or SIZE) - len(without_answers.encode("utf-8", "replace"))
    kept = answer_data(answers, room)
    elements += data_element("answers", kept)
    shown = sum(len(cell_answers) for cell_answers in kept["answers"])
    content += _left_out(shown, total, where)
    return written(content, elements, (shown, total))


def _left_out(shown: int, total: int, where: str) -> Markup:
    """How many answers a page lacks, and the command that shows them; empty if it has all.

    Args:
        shown: how many it has.
        total: how many there are.
        where: the run, as seen from the page's folder.
    """
    if shown == total:
        return Markup()
    return Markup(
        f'<p class="note">This file holds {shown:,} of {counted(total, "answer")}; wrong ones'
        f' come first. All are shown by <code class="hint" data-run="{attribute(where)}">pbcore'
        f" view {text(shlex.quote(where))}</code> in this file's folder.</p>"
    )


def _category(scope: Scope, folded: frozenset[str], alone: bool) -> dict[str, Any]:
    """What the template shows of a category.

    Args:
        scope: the category.
        folded: the measures of speed that its tables show on demand.
        alone: whether it is the only one.
    """
    drawn = Markup()
    if len(scope.tasks) > 1 and not alone:
        title = f"{scope.title}, mean of its tasks"
        drawn = rendered("plot.html", plot=scope.title, title=title, picture="")
    tasks = []
    for task in scope.tasks:
        tasks.append(
            {
                "name": task,
                "short": short(task),
                "drawn": rendered("plot.html", plot=task, title=short(task), picture=""),
                "table": of_task(scope, task, folded),
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
