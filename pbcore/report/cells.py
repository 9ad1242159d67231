"""What report.md, the page and the terminal say of a run's cells: what was measured, the facts
of its run, what could not be run or measured, models that answered elsewhere (a record's `served`),
and rows beside calls.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from math import isnan
from typing import Any, Protocol

from pbcore.analysis.order import sorted_tasks
from pbcore.base.printable import command_line, counted, first_line, fixed
from pbcore.base.registry import Registry
from pbcore.base.text import first_lines, name
from pbcore.report.rows import CellRow, undummied
from pbcore.report.runs import grid_text
from pbcore.results.measures import Measure, shown_in
from pbcore.results.record import absent_reasons
from pbcore.results.rundir import RunFacts
from pbcore.results.table_row import Row
from pbcore.tasks.naming import REWRITE

NONE = "–"  # not measured


class AddedSection(Protocol):
    """A section of a report that a neighbour adds: its title, its lines, a sentence under them,
    and notes under tables.
    """

    title: str
    note: str

    def lines(self, cells: Iterable[tuple[str, Mapping[str, Any]]]) -> list[str]:
        """A line per model, from (model, `served` of a record) of each cell."""

    def notes(self, cells: Iterable[tuple[str, str, Mapping[str, Any]]]) -> list[str]:
        """Notes under a table, from (model, sampler, `served` of a record) of each cell."""


SECTIONS: Registry[AddedSection] = Registry("section of a report", "pbcore.sections")


def served_sections(cells: Iterable[CellRow]) -> list[tuple[AddedSection, list[str]]]:
    """The sections of the neighbours that are here, with their lines on these cells."""
    served = [(row["model"], row["served"]) for row in cells if is_elsewhere(row)]
    return [(section, section.lines(served)) for section in SECTIONS.all().values()]


def served_notes(cells: Iterable[CellRow]) -> list[str]:
    """The notes of the neighbours that are here under a table of these cells."""
    those = [row for row in cells if is_elsewhere(row)]
    if not those:
        return []
    served = [(row["model"], row["sampler"], row["served"]) for row in those]
    return [note for section in SECTIONS.all().values() for note in section.notes(served)]


def is_elsewhere(row: CellRow) -> bool:
    """Whether a cell's model answered elsewhere."""
    return isinstance(row["served"], dict)


def or_dash(value: float | None, places: int = 1) -> str:
    """A number with so many decimals; `–` for what was not measured."""
    return NONE if value is None or isnan(value) else fixed(value, places)


def interval_text(low: float, high: float) -> str:
    """` [70–95]` for the bounds of a score in %; empty where they aren't known (NaN)."""
    return "" if isnan(low) else f" [{fixed(low, 0)}–{fixed(high, 0)}]"


def rows_differ(cells: Iterable[Row]) -> bool:
    """Whether a cell forwarded more rows than its calls, or fewer: samplers may ask about what-if
    rows.
    """
    for row in cells:
        counted_both = not (isnan(row["rows"]) or isnan(row["nfe"]))
        if counted_both and row["rows"] != row["nfe"]:
            return True
    return False


def rates_beside(cells: Sequence[Row]) -> list[Measure]:
    """The rates that stand beside scores: those that are there, per row only where some cell
    forwarded more rows than its calls.
    """
    shown = []
    for measure in shown_in("scores"):
        silent_here = measure.optional and all(isnan(row[measure.key]) for row in cells)
        if not silent_here and (not measure.of_rows or rows_differ(cells)):
            shown.append(measure)
    return shown


def samples_a_cell(cells: Iterable[Row]) -> str:
    """`16–40 samples a cell`; empty where no cell has them, as in published tables."""
    counts = [int(row["n"]) for row in cells if row["status"] == "ok" and not isnan(row["n"])]
    if not counts:
        return ""
    least = min(counts)
    most = max(counts)
    return f"{least} samples a cell" if least == most else f"{least}–{most} samples a cell"


def facts_text(cells: Sequence[Row], run: RunFacts) -> dict[str, str]:
    """What a run was, by name: `run` has the facts of run.json; what is unknown is left out."""
    rows = {}
    command = run.get("command")
    if isinstance(command, list):
        rows["command"] = command_line(command)
    elif command:
        rows["command"] = command
    facts: Mapping[str, object] = run
    for key in ("started", "profile", "shard"):
        if facts.get(key) is not None:
            rows[key] = str(facts[key])
    for key in ("seeds", "data_source", "prompts", "device", "dtype", "length"):
        values = [str(row[key]) for row in cells if row[key] is not None]
        rows[key.replace("_", " ")] = names_once(values)
    for key in ("machine", "versions"):
        parts = facts.get(key)
        if isinstance(parts, Mapping):
            rows[key] = _parts_text(parts)
    remote = [row["model"] for row in cells if (row["model_info"] or {}).get("remote_code")]
    rows["ran code that came with the checkpoint"] = names_once(remote)
    failures = len(failed(cells))
    rows["cells"] = str(len(cells))
    if failures:
        rows["cells"] += f", of which {failures} could not be run"
    return {key: value for key, value in rows.items() if value}


def _parts_text(parts: Mapping[str, object]) -> str:
    """`torch 2.4.1, numpy 2.1.0`; without what is unknown."""
    texts = [f"{part} {value}" for part, value in parts.items() if value not in (None, "", [])]
    return ", ".join(texts)


def names_once(names: Iterable[str]) -> str:
    """Names once each, in order; at most 20."""
    ordered = sorted(set(names) - {""})
    return ", ".join(first_lines([name(text) for text in ordered], 20))


def failed(cells: Iterable[Row]) -> list[tuple[str, str]]:
    """(id, first line of the cause) of the cells that could not be run."""
    return [(row["id"], first_line(row["cause"], 300)) for row in cells if row["status"] != "ok"]


def not_measured(cells: Sequence[Row]) -> list[str]:
    """Absent metrics with their reasons, and models with random weights, a line each."""
    reasons: Counter[tuple[str, str]] = Counter()
    for row in cells:
        reasons.update(absent_reasons(row["absent"]).items())
    lines = []
    for (metrics, why), count in sorted(reasons.items()):
        lines.append(f"{metrics}: {why} ({counted(count, 'cell')})")
    for model in sorted({row["model"] for row in cells if row["dummy"]}):
        lines.append(f"{model}: random weights, so its scores are left out of the tables")
    return lines


def prompts_note(cells: Sequence[Row]) -> list[str]:
    """The note under a table with scores for the prompts of the 2026 rewrite; empty without such
    scores.
    """
    theirs = [row["model"] for row in cells if row["prompts"] == REWRITE]
    if not theirs:
        return []
    if len(theirs) == len(cells):
        return [
            "prompts: those of the benchmark's 2026 rewrite, many of them other questions than the"
            " paper's (v1)"
        ]
    models = ", ".join(name(model) for model in dict.fromkeys(theirs))
    return [
        f"prompts differ: {models} answered those of the 2026 rewrite, many of them other questions"
        " than v1's"
    ]


def gaps(cells: Sequence[CellRow]) -> list[str]:
    """What is not in the page's tables, and notes on prompts and servers. Empty if there is nothing
    to say.
    """
    lines = [f"{cell} could not be run: {cause}" for cell, cause in failed(cells)]
    lines += not_measured(cells)
    lines += prompts_note(cells)
    lines += served_notes(cells)
    for _, served_lines in served_sections(cells):
        lines += served_lines
    if any(row["shared_device"] for row in cells):
        lines.append("timings are inexact: workers shared a device")
    return lines


def heading(cells: Iterable[CellRow]) -> str:
    """`tiny and ideal · 8 samplers · 21 tasks`; empty where nothing was measured."""
    ran = undummied(cells)
    if not ran:
        return ""
    models = list(dict.fromkeys(row["model"] for row in ran))
    samplers = {row["sampler"] for row in ran}
    tasks = {row["task"] for row in ran}
    return grid_text(models, len(samplers), len(tasks))


def measured(cells: Sequence[CellRow], facts: RunFacts) -> str:
    """Models, tasks, samplers, samples, device and date in words. `facts`: those of run.json."""
    if not cells:
        return "nothing"
    ran = undummied(cells)
    if not ran:
        return f"{counted(len(cells), 'cell')} of models with random weights"
    tasks = Counter(task.split("/", 1)[0] for task in sorted_tasks(row["task"] for row in ran))
    kinds = ", ".join(f"{name(kind)} {count}" for kind, count in tasks.items())
    samplers = counted(len({row["sampler"] for row in ran}), "sampler")
    grid = f"{_models_text(ran)} on {counted(tasks.total(), 'task')} ({kinds}) with {samplers}"
    samples = samples_a_cell(ran)
    if samples:
        grid += f", {samples}"
    parts = [grid]
    settings: list[str] = []
    shown: Sequence[Row] = ran
    for key in ("device", "dtype"):
        values = {name(str(row[key])) for row in shown if row[key] is not None}
        settings += sorted(values - {""})
    if settings:
        parts.append(", ".join(settings))
    with suppress(ValueError):
        day = datetime.fromisoformat(str(facts.get("started")))
        parts.append(f"{day.day} {day:%B %Y}")
    return "; ".join(parts)


def _models_text(cells: Iterable[CellRow]) -> str:
    """`a, b and c`; of many the first five."""
    names = [name(model) for model in dict.fromkeys(row["model"] for row in cells)]
    *first, last = (text.strip() for text in first_lines(names, 5))
    if not first:
        return last
    return f"{', '.join(first)} and {last.removeprefix('… and ')}"
