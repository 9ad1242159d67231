"""What report.md, the page and the terminal say of a frame of cells: what was measured, the facts
of its run, what could not be run or measured, models that answered elsewhere (a record's `served`),
and rows beside calls.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, Protocol

import pandas as pd

from pbcore.analysis.order import sorted_tasks
from pbcore.extensions import provided
from pbcore.printable import command_line, counted, first_line, fixed
from pbcore.results.record import absent_reasons
from pbcore.results.rundir import RunFacts
from pbcore.tasks.naming import REWRITE
from pbcore.text import first_lines, name

NONE = "–"  # not measured
ROWS_NOTE = (
    "rows are all canvases forwarded, what-if rows too, and calls (NFE) the forwards in sequence:"
    " neither is seconds, which depend on the machine, on the tokens of a row and on caches: add"
    " --price"
)

FORWARDED_NOTE = (
    "tokens forwarded are the positions that the network computed for an answer, with caches,"
    " what-if rows and prefill, without padding; –: not reported, or not counted when the run was"
    " measured"
)


class AddedSection(Protocol):
    """A section of a report that an integration adds: its title, its lines, and a sentence under
    them.
    """

    title: str
    note: str

    def lines(self, cells: Iterable[tuple[str, Mapping[str, Any]]]) -> list[str]:
        """A line per model, from (model, `served` of a record) of each cell."""


def served_sections(cells: pd.DataFrame) -> list[tuple[AddedSection, list[str]]]:
    """The sections of the integrations that are here, with their lines on these cells."""
    those = cells[elsewhere(cells)]
    told = list(zip(those["model"], those["served"], strict=True)) if len(those) else []
    sections: tuple[AddedSection, ...] = provided("report")
    return [(section, section.lines(told)) for section in sections]


def elsewhere(cells: pd.DataFrame) -> pd.Series:
    """Which rows are of models that answered elsewhere."""
    served = cells.get("served", pd.Series(index=cells.index, dtype=object))
    return served.map(lambda told: isinstance(told, dict)).astype(bool)


def silent(cells: pd.DataFrame, rate: str = "tokens_per_step") -> pd.DataFrame:
    """The scored cells of models that answered elsewhere and have no value in the column `rate`."""
    scored = cells[(cells["status"] == "ok") & cells["score"].notna()]
    return scored[elsewhere(scored) & scored[rate].isna()]


def or_dash(value: float | None, places: int = 1) -> str:
    """A number with so many decimals; `–` for what was not measured."""
    return NONE if pd.isna(value) else fixed(value, places)


def interval_text(low: float | None, high: float | None) -> str:
    """` [70–95]` for the bounds of a score in %; empty where they aren't known."""
    return "" if pd.isna(low) or pd.isna(high) else f" [{fixed(low, 0)}–{fixed(high, 0)}]"


def rows_differ(cells: pd.DataFrame) -> bool:
    """Whether a cell forwarded more rows than its calls, or fewer: samplers may ask about what-if
    rows.
    """
    return bool(
        (cells["rows"].notna() & cells["nfe"].notna() & (cells["rows"] != cells["nfe"])).any()
    )


def real(cells: pd.DataFrame) -> pd.DataFrame:
    """The cells without those of dummies, models with random weights."""
    return cells[~cells["dummy"].isin([True])]


def samples_a_cell(cells: pd.DataFrame) -> str:
    """`16–40 samples a cell`; empty where no cell has them, as in published tables."""
    counts = sorted({int(n) for n in cells[cells["status"] == "ok"]["n"].dropna()})
    return (
        f"{'–'.join(map(str, dict.fromkeys((counts[0], counts[-1]))))} samples a cell"
        if counts
        else ""
    )


def facts_text(cells: pd.DataFrame, run: RunFacts) -> dict[str, str]:
    """What a run was, by name: `run` has the facts of run.json; what is unknown is left out."""
    command = run.get("command")
    rows = {"command": command_line(command) if isinstance(command, list) else command or ""}
    known: Mapping[str, object] = run
    for key in ("started", "profile", "shard"):
        if known.get(key) is not None:
            rows[key] = str(known[key])
    for key in ("seeds", "data_source", "prompts", "device", "dtype", "length"):
        rows[key.replace("_", " ")] = (
            names_once(cells[key].dropna().map(str)) if key in cells else ""
        )
    for key in ("machine", "versions"):
        parts = known.get(key)
        if isinstance(parts, Mapping):
            rows[key] = ", ".join(
                f"{part} {value}" for part, value in parts.items() if value not in (None, "", [])
            )
    if "model_info" in cells:
        told = zip(cells["model"], cells["model_info"], strict=True)
        remote = (
            model for model, info in told if isinstance(info, Mapping) and info.get("remote_code")
        )
        rows["ran code that came with the checkpoint"] = names_once(remote)
    rows["cells"] = (
        f"{len(cells)}, of which {int((cells['status'] != 'ok').sum())} could not be run"
    )
    return {key: value for key, value in rows.items() if value}


def names_once(names: Iterable[str]) -> str:
    """Names once each, in order; at most 20."""
    return ", ".join(first_lines([name(one) for one in sorted(set(names) - {""})], 20))


def failed(cells: pd.DataFrame) -> list[tuple[str, str]]:
    """(id, first line of the cause) of the cells that could not be run."""
    rows = cells[cells["status"] != "ok"]
    causes = (first_line(str(error or "no cause recorded"), 300) for error in rows.get("error", ()))
    return list(zip(rows["id"], causes, strict=True))


def not_measured(cells: pd.DataFrame) -> list[str]:
    """Absent metrics with their reasons, and models with random weights, a line each."""
    reasons = Counter(
        item for one in cells.get("absent", ()) for item in absent_reasons(one).items()
    )
    lines = [
        f"{metrics}: {why} ({counted(count, 'cell')})"
        for (metrics, why), count in sorted(reasons.items())
    ]
    dummies = sorted(set(cells[cells["dummy"].isin([True])]["model"]))
    return lines + [
        f"{model}: random weights, so its scores are left out of the tables" for model in dummies
    ]


def prompts_note(cells: pd.DataFrame) -> list[str]:
    """The note under a table with scores for the prompts of the 2026 rewrite; empty without such
    scores.
    """
    theirs = cells["prompts"] == REWRITE
    if not theirs.any():
        return []
    if theirs.all():
        return [
            "prompts: those of the benchmark's 2026 rewrite, many of them other questions than the"
            " paper's (v1)"
        ]
    models = ", ".join(name(model) for model in dict.fromkeys(cells[theirs]["model"]))
    return [
        f"prompts differ: {models} answered those of the 2026 rewrite, many of them other questions"
        " than v1's"
    ]


def gaps(cells: pd.DataFrame) -> list[str]:
    """What is not in the page's tables, and notes on prompts and servers. Empty if there is nothing
    to say.
    """
    lines = [f"{cell} could not be run: {cause}" for cell, cause in failed(cells)]
    lines += [*not_measured(cells), *prompts_note(cells)]
    lines += [line for _, told in served_sections(cells) for line in told]
    return lines + ["timings are inexact: workers shared a device"] * int(
        cells["shared_device"].isin([True]).any()
    )


def measured(cells: pd.DataFrame, facts: RunFacts) -> str:
    """Models, tasks, samplers, samples, device and date in words. `cells`: a frame of
    `results.load`; `facts`: those of run.json.
    """
    ran = real(cells)
    if ran.empty:
        return (
            f"{counted(len(cells), 'cell')} of models with random weights"
            if len(cells)
            else "nothing"
        )
    *first, last = (
        one.strip() for one in first_lines([name(one) for one in dict.fromkeys(ran["model"])], 5)
    )
    models = f"{', '.join(first)} and {last.removeprefix('… and ')}" if first else last
    tasks = Counter(task.split("/", 1)[0] for task in sorted_tasks(ran["task"]))
    samples = samples_a_cell(ran)
    kinds = ", ".join(f"{name(kind)} {count}" for kind, count in tasks.items())
    parts = [
        f"{models} on {counted(tasks.total(), 'task')} ({kinds}) with "
        f"{counted(ran['sampler'].nunique(), 'sampler')}{samples and f', {samples}'}"
    ]
    settings: list[str] = []
    for column in ("device", "dtype"):
        values = ran[column].dropna() if column in ran else ()
        settings += sorted({name(str(value)) for value in values} - {""})
    parts.append(", ".join(settings))
    with suppress(ValueError):
        day = datetime.fromisoformat(str(facts.get("started")))
        parts.append(f"{day.day} {day:%B %Y}")
    return "; ".join(filter(None, parts))
