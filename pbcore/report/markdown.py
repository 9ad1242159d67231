"""report.md: the tables, curves and facts of a run on one page."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isnan
from operator import itemgetter
from pathlib import Path
from typing import Any, cast

from pbcore.analysis.explanation import Explanation
from pbcore.analysis.order import natural
from pbcore.analysis.tradeoff import mean_points, pbx_rows
from pbcore.base import tabular
from pbcore.base.grouping import grouped
from pbcore.base.printable import fixed, printable
from pbcore.base.tabular import Code, Table
from pbcore.base.text import code, md
from pbcore.report.axes import plotted_note
from pbcore.report.ceilings import ceiling_section
from pbcore.report.cells import (
    AddedSection,
    failed,
    interval_text,
    not_measured,
    prompts_note,
    rows_differ,
    served_sections,
)
from pbcore.report.explanation import explanation_section
from pbcore.report.headline import verdict_lines
from pbcore.report.plots import MEANS, write_plots
from pbcore.report.report import Report
from pbcore.report.rows import CellRow, undummied
from pbcore.report.scopes import average, by_sampler, overview
from pbcore.report.sections import listed
from pbcore.report.tables import trade_off_section
from pbcore.report.under_load import bends, load_levels
from pbcore.results.measures import ROWS_NOTE, shown_in
from pbcore.results.rundir import RunFacts, write_atomic
from pbcore.results.table_row import Row


def write_markdown(report: Report, out: Path, more: str = "") -> list[Path]:
    """Writes report.md and the curves into a folder; report.md first.

    Args:
        report: what it shows.
        out: the folder.
        more: what stands at the end of report.md.
    """
    best = {verdict.model: verdict.sampler for verdict in report.told if verdict.chosen}
    plots = write_plots(report.priced, out, report.axis, best)
    page = report_text(report, [plot.name for plot in plots])
    if more:
        page += f"\n{more}"
    return [write_atomic(out / "report.md", page), *plots]


def report_text(report: Report, plots: Sequence[str] = ()) -> str:
    """The page: the gates' verdicts, what was measured, the headline, the plot and table of means,
    a table per category, further curves, what factors change, why answers are wrong, order and
    variety of answers, ceilings, the frontier, PBx, speed, wrong answers, errors, absent scores,
    facts.

    Args:
        report: what it shows.
        plots: the file names of its curves, that of all tasks first.
    """
    rows = report.rows
    facts = report.facts
    sentences = [md(f"Measured: {report.measured}.", 2000)]
    for verdict in report.told:
        first, *more = [md(line, 2000) for line in verdict_lines(verdict)]
        sentences.append("  \n".join([f"**{first}**", *more]))
    parts = [
        f"# {md(report.name)}\n",
        *_gates(facts),
        "\n\n".join(sentences) + "\n",
        _images([plot for plot in plots if plot == MEANS]),
        _means(report),
        report.prices.markdown(),
        *(trade_off_section(scope).markdown() for scope in report.categories),
        _curves(rows, [plot for plot in plots if plot != MEANS]),
        _axis_note(report),
        report.factors.markdown(),
        _explained(report.explanation),
        report.blame.markdown(),
        report.exploration.markdown(),
        ceiling_section(rows),
        report.frontier.markdown(),
        _pbx(rows),
        _speed(rows),
        _under_load(rows),
        _shared_forwards(rows),
        *(_served(section, lines) for section, lines in served_sections(rows)),
        _section("Wrong answers by kind", _items(_failures(rows))),
        _failed(rows),
        _section("Not measured", _items(md(line, 600) for line in not_measured(rows))),
        _facts(report.ran_as),
    ]
    return "\n".join(part for part in parts if part)


def _explained(explanation: Explanation | None) -> str:
    """The run's explanation; empty without."""
    return "" if explanation is None else explanation_section(explanation).markdown()


def _section(title: str, text: str, note: str = "") -> str:
    """A heading with its text, and a note under it; empty without text."""
    if not text:
        return ""
    paragraphs = [f"## {title}", text]
    if note:
        paragraphs.append(note)
    return "\n\n".join(paragraphs) + "\n"


def _items(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _curves(cells: Sequence[CellRow], plots: Sequence[str]) -> str:
    """The curves that don't stand at the top."""
    if not plots:
        return ""
    return _section("Trade-off curves", "\n".join([_images(plots), *_rows_note(cells)]))


def _served(section: AddedSection, lines: Iterable[str]) -> str:
    return _section(section.title, _items(md(line, 600) for line in lines), section.note)


def _failed(cells: Sequence[CellRow]) -> str:
    lines = [f"{code(cell_id)}: {md(why)}" for cell_id, why in failed(cells)]
    return _section("Cells that could not be run", _items(lines))


def _images(plots: Iterable[str]) -> str:
    images = [f"![{plot.removesuffix('.png')}]({plot})\n" for plot in plots]
    return "\n".join(images)


def _rows_note(cells: Sequence[CellRow]) -> list[str]:
    """The sentence on rows and calls, where a cell's differ."""
    return [_as_sentence(ROWS_NOTE)] if rows_differ(cells) else []


def _as_sentence(note: str) -> str:
    return f"{note[0].upper()}{note[1:]}."


def _axis_note(report: Report) -> str:
    """Which cells have no value on the axis of the plots that was asked for."""
    if report.facts.get("axis") is None:
        return ""
    note = plotted_note(report.priced, report.axis)
    return f"{md(note, 600)}\n" if note else ""


def _means(report: Report) -> str:
    """A row per model and sampler: means over the model's tasks, as report.html has them."""

    def number(value: float, places: int) -> str | None:
        return None if isnan(value) else fixed(value, places)

    rows = []
    for means in overview(report.whole):
        shown: dict[str, Any] = {
            "model": means["model"],
            "sampler": means["sampler"],
            "mean score %": number(means["score"], 1),
            "95 % interval": interval_text(means["low"], means["high"]).strip(" []") or None,
        }
        values: Row = means
        for measure in shown_in("means"):
            shown[measure.head] = number(values[measure.key], measure.decimals)
        rows.append({**shown, "tasks scored": means["tasks"]})
    notes = ["–: a task has no score; its reason is below."]
    if report.rates_note:
        notes.append(md(_as_sentence(report.rates_note), 600))
    return listed("Means over each model's own tasks", "  \n".join(notes), rows).markdown()


def _gates(facts: RunFacts) -> list[str]:
    """The verdicts of the run's gates: the first line of each in bold, then its cells."""
    parts = []
    for verdict in facts.get("gate") or []:
        first, *rest = verdict.split("\n")
        parts.append(f"**{md(first, 2000)}**\n")
        if rest:
            lines = "\n".join(printable(line, 1000) for line in rest)
            parts.append(f"```text\n{lines}\n```\n")
    return parts


def _pbx(cells: Sequence[CellRow]) -> str:
    rows: list[Row] = []
    for category, group in grouped(cells, itemgetter("category")).items():
        for row in pbx_rows(mean_points(group, "tokens_per_step")):
            rows.append({"category": category, **row})
    title = "PBx: the largest tokens per step at which the category's mean score is at least x %"
    notes = ["–: never reached. Measured points only, without interpolation."]
    notes += prompts_note(cells)
    return listed(title, "  \n".join(notes), rows).markdown()


def _by_sampler(
    cells: Iterable[CellRow], sums: Callable[[Sequence[Row]], dict[str, Any]]
) -> list[Row]:
    """A row per model and sampler, its cells counted and summed up."""
    rows: list[Row] = []
    for model, sampler, group in by_sampler(cells):
        rows.append({"model": model, "sampler": sampler, "cells": len(group), **sums(group)})
    return sorted(rows, key=lambda row: (row["model"], natural(row["sampler"])))


def _speed(cells: Iterable[CellRow]) -> str:
    """Forwards, seconds and rates of the cells that have a time of their own."""
    ran: list[Row] = []
    for cell in cells:
        if cell["status"] == "ok" and not isnan(cell["seconds"]):
            ran.append(cell)
    sentences = [
        "Forwards (NFE) are means over tasks, each of which weighs the same, as in the verdict;"
        " tokens are counted in the answers, before the first EOS."
    ]
    costs = []
    for measure in shown_in("speed"):
        missing = measure.late and all(isnan(row[measure.key]) for row in ran)
        if not missing and (rows_differ(ran) or not measure.of_rows):
            costs.append(measure)
            sentences += [_as_sentence(measure.note)] if measure.note else []

    def sums(group: Sequence[Row]) -> dict[str, Any]:
        row: dict[str, Any] = {}
        for measure in costs:
            row[measure.head] = average([cell[measure.key] for cell in group], len(group))
        return row | _speeds(group)

    note = " ".join(sentences)
    if any(row["shared_device"] for row in ran):
        note += "\n\\* inexact: measured while workers shared a device."
    return listed("Speed", note, _by_sampler(cast(list[CellRow], ran), sums)).markdown()


def _speeds(group: Sequence[Row]) -> dict[str, str]:
    """Seconds of a sampler's cells and what came in them; `*` marks inexact ones."""
    seconds = sum(row["seconds"] for row in group)
    mark = "*" if any(row["shared_device"] for row in group) else ""
    speeds = {"seconds": f"{fixed(seconds, 2)}{mark}", "samples/s": "–", "tokens/s": "–"}
    if seconds:
        samples = sum(row["n"] for row in group)
        rates = [row["tokens_per_second"] * row["seconds"] for row in group]
        tokens = sum(rate for rate in rates if not isnan(rate))
        speeds["samples/s"] = f"{fixed(samples / seconds)}{mark}"
        speeds["tokens/s"] = f"{fixed(tokens / seconds, 0)}{mark}"
    return speeds


def _under_load(cells: Iterable[CellRow]) -> str:
    """Cells at several numbers of rows or requests at a time."""
    levels = load_levels(cells)
    note = (
        "At once: rows decoded together, or requests sent together (`+x4`). First token and"
        " percentiles are means over tasks of each cell's. Where an answer takes A / B + C seconds"
        " at B at a time (least squares), rates stay about below the lines B / A and 1 / C of the"
        " roofline, which meet at B = A / C."
    )
    roofs = _items(md(line, 300) for line in bends(levels))
    if roofs:
        note += f"\n\n{roofs}"
    known: set[str] = set()
    for level in levels:
        known.update(key for key, value in level.items() if value == value)
    rows = [{key: level[key] for key in level if key in known} for level in levels]
    return listed("Speed under load", note, rows, significant=4).markdown()


def _shared_forwards(cells: Iterable[CellRow]) -> str:
    """Cells that shared forwards, whose seconds are estimates and in no other table."""
    ran = [row for row in cells if not isnan(row["forwards_computed"])]

    def sums(group: Sequence[Row]) -> dict[str, Any]:
        computed = _total(group, "forwards_computed")
        return {
            "forwards": f"{_total(group, 'forwards_shared') + computed:,.0f}",
            "computed": f"{computed:,.0f}",
            "seconds, estimated": fixed(_total(group, "seconds_estimated"), 2),
        }

    note = (
        "These cells shared forwards (`--share-forwards`) and have no time of their own. Estimated:"
        " all their forwards × seconds per forward of the model on the task."
    )
    return listed("Shared forwards", note, _by_sampler(ran, sums)).markdown()


def _total(group: Iterable[Row], key: str) -> float:
    """The sum of what was measured."""
    values: list[float] = [row[key] for row in group]
    return sum(value for value in values if not isnan(value))


def _failures(cells: Iterable[CellRow]) -> list[str]:
    """A line per model and category: how many answers failed in which way."""
    counts: dict[str, Counter[str]] = {}
    for row in undummied(cells):
        counts.setdefault(f"{row['model']} {row['category']}", Counter()).update(row["failures"])
    lines = []
    for title, kinds in counts.items():
        most = [f"{md(kind)} {count}" for kind, count in kinds.most_common(20)]
        if most:
            lines.append(f"{md(title)}: {', '.join(most)}")
    return lines


def _facts(ran_as: Mapping[str, str]) -> str:
    rows = []
    for key, text in ran_as.items():
        shown = printable(text, 2000)
        rows.append([key, Code(shown) if key == "command" else shown])
    return _section("The run", tabular.markdown(Table(["", ""], rows)))
