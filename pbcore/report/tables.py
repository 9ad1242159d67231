"""The trade-off table: a row per sampler, grouped by model, a column per task; each cell has score, interval and tokens
per step.
"""

from dataclasses import dataclass
from typing import Any

import pandas as pd

from pbcore.analysis.order import natural, short, sorted_tasks
from pbcore.printable import fixed, printable
from pbcore.report.parts import elsewhere
from pbcore.report.row_counts import NOTE, differ
from pbcore.report.terminal_column import Column, parts_within
from pbcore.tasks.naming import REWRITE
from pbcore.text import NAME, ascii_text, code, md, name

NOT_RUN = "·"
NOT_MEASURED = "–"
FAILED = "error"


@dataclass(frozen=True, slots=True)
class Entry:
    """One cell of a table. Scores in percent; `low` and `high` bound the 95 % interval; `rate` in tokens per step,
    `row_rate` per row. None if not measured.
    """

    status: str  # "ok" | "unmeasured" | "error" | "absent"
    score: float | None = None
    low: float | None = None
    high: float | None = None
    rate: float | None = None
    row_rate: float | None = None
    decimals: int = 0

    def text(self) -> str:
        """The score with its interval, or a mark."""
        interval = self.interval()
        return f"{self.mark()} {interval}" if interval else self.mark()

    def mark(self) -> str:
        """The score alone, or why there is none."""
        if self.score is None:
            return {"absent": NOT_RUN, "error": FAILED}.get(self.status, NOT_MEASURED)
        return fixed(self.score, self.decimals)

    def interval(self) -> str:
        return "" if self.low is None or self.high is None else f"[{fixed(self.low, 0)}–{fixed(self.high, 0)}]"

    def rates(self) -> str:
        """Tokens per step, and behind a slash per row where they are others."""
        return _rate(self.rate) + ("" if self.row_rate in (None, self.rate) else f" / {_rate(self.row_rate)}")


@dataclass(frozen=True, slots=True)
class Line:
    """One sampler of one model: an entry per task, and the plain means over all tasks (None unless every task has a
    score).
    """

    model: str
    sampler: str
    entries: tuple[Entry, ...]
    mean: Entry


@dataclass(frozen=True, slots=True)
class Table:
    """One category's trade-off table with the footnotes that explain its marks. `rows`: some cell forwarded more rows
    than its calls, so that tokens per row are shown.
    """

    title: str
    tasks: tuple[str, ...]
    lines: tuple[Line, ...]
    notes: tuple[str, ...]
    rows: bool = False


def trade_off_tables(cells: pd.DataFrame) -> list[Table]:
    """A table per category from a frame of `results.load`.

    Dummy models (random weights, for speed only) are left out.
    """
    real = cells[~cells["dummy"].isin([True])]
    categories = dict.fromkeys(task.split("/", 1)[0] for task in sorted_tasks(real["task"]))
    return [_table(category, real[real["category"] == category]) for category in categories]


def to_frame(table: Table) -> pd.DataFrame:
    """The table as numbers: index (model, sampler); columns (task, score | low | high | tokens_per_step), in percent
    and tokens; where rows and calls differ, also tokens_per_row.
    """
    columns: dict[tuple[str, str], list[float | None]] = {}
    for number, task in enumerate((*table.tasks, "mean")):
        entries = [(*line.entries, line.mean)[number] for line in table.lines]
        columns[task, "score"] = [entry.score for entry in entries]
        columns[task, "low"] = [entry.low for entry in entries]
        columns[task, "high"] = [entry.high for entry in entries]
        columns[task, "tokens_per_step"] = [entry.rate for entry in entries]
        if table.rows:
            columns[task, "tokens_per_row"] = [entry.row_rate for entry in entries]
    index = pd.MultiIndex.from_tuples([(line.model, line.sampler) for line in table.lines], names=["model", "sampler"])
    return pd.DataFrame(columns, index=index, dtype="float64")


def terminal(table: Table, width: int = 100, ascii: bool = False) -> str:
    """The table as aligned text, at most `width` columns wide; task columns that don't fit continue in another part.
    `ascii` for outputs without other signs.

    A sampler's line has its scores. If its tokens per step differ between tasks, a second line shows them; where it
    forwards what-if rows, a third its tokens per row.
    """
    plain = ascii_text if ascii else str
    header = [plain(text) for text in (*(name(short(task)) for task in table.tasks), "mean", *_rate_heads(table))]
    rows = [
        [(plain(label), [plain(text) for text in texts]) for label, texts in _text_rows(line, table.rows)]
        for line in table.lines
    ]
    flat = [row for lines in rows for row in lines]
    first = max((len(label) for label, _ in flat), default=0)
    columns = [Column.of(title, [texts[i] for _, texts in flat]) for i, title in enumerate(header)]
    out = [plain(table.title)]
    for part in parts_within([column.width for column in columns], width - first):
        out.append((" " * first + "".join(f" {columns[i].title()}" for i in part)).rstrip())
        previous = None
        for line, lines in zip(table.lines, rows, strict=True):
            if line.model != previous:
                out.append(plain(name(line.model)))
                previous = line.model
            for label, texts in lines:
                out.append(f"{label:<{first}}{''.join(f' {columns[i].entry(texts[i])}' for i in part)}".rstrip())
    return "\n".join([*out, *(plain(f"  {printable(note, 400)}") for note in table.notes)])


def markdown(table: Table) -> str:
    """The table in Markdown with its footnotes under it, and its intervals in a second, folded one."""
    bounds = [[md(short(task), NAME) for task in table.tasks]]
    bounds += [[entry.interval() for entry in line.entries] for line in table.lines]
    intervals = ["<details><summary>95 % intervals</summary>", "", *_markdown(table, bounds), "", "</details>"]
    notes = [f"{md(note, 400)}  " for note in table.notes]
    return "\n".join([*_markdown(table, _grid(table)), "", *notes, "", *intervals]) + "\n"


def _markdown(table: Table, grid: list[list[str]]) -> list[str]:
    """A header and rows beside the names of models and samplers."""
    header, *rows = grid
    lines = ["| model | sampler | " + " | ".join(header) + " |", "|---|---|" + "---:|" * len(header)]
    return lines + [
        f"| {md(line.model, NAME)} | {code(line.sampler, NAME, cell=True)} | " + " | ".join(row) + " |"
        for line, row in zip(table.lines, rows, strict=True)
    ]


def _table(category: str, cells: pd.DataFrame) -> Table:
    tasks = sorted_tasks(cells["task"])
    rows: dict[tuple[str, str], dict[str, Entry]] = {}
    for record in cells.to_dict("records"):
        row = rows.setdefault((record["model"], record["sampler"]), {})
        row[record["task"]] = _entry({str(k): v for k, v in record.items()})
    models = list(dict.fromkeys(cells["model"]))
    lines = []
    for model, sampler in sorted(rows, key=lambda key: (models.index(key[0]), natural(key[1]))):
        entries = tuple(rows[model, sampler].get(task, Entry("absent")) for task in tasks)
        lines.append(Line(model, sampler, entries, _mean(entries)))
    rows_differ = bool(differ(cells).any())
    rates = f"tokens per step{' / per row' if rows_differ else ''}"
    title = f"{name(category)}: score in % [95 % interval], then {rates}{_samples(cells)}"
    return Table(title, tuple(tasks), tuple(lines), tuple(_notes(cells, lines)), rows_differ)


def _samples(cells: pd.DataFrame) -> str:
    """The number of samples per cell, if known (published tables don't have it)."""
    counts = sorted({int(n) for n in cells[cells["status"] == "ok"]["n"].dropna()})
    if not counts:
        return ""
    return f" ({counts[0]}{f'–{counts[-1]}' if len(counts) > 1 else ''} samples a cell)"


def _entry(record: dict[str, Any]) -> Entry:
    if record["status"] != "ok":
        return Entry("error")
    rates = _percent(record["tokens_per_step"], 1), _percent(record.get("tokens_per_row"), 1)
    if pd.isna(record["score"]):
        return Entry("unmeasured", None, None, None, *rates)
    score = 100 * float(record["score"])
    low, high = _percent(record.get("score_low")), _percent(record.get("score_high"))
    return Entry("ok", score, low, high, *rates)


def _mean(entries: tuple[Entry, ...]) -> Entry:
    """Plain means over tasks; None if a task is missing, since means over different tasks can't be compared."""
    score, rate, row_rate = (
        None if None in values else sum(values) / len(values)
        for values in zip(*((entry.score, entry.rate, entry.row_rate) for entry in entries), strict=True)
    )
    return Entry("ok" if score is not None else "unmeasured", score, None, None, rate, row_rate, 1)


def _notes(cells: pd.DataFrame, lines: list[Line]) -> list[str]:
    notes = []
    statuses = {entry.status for line in lines for entry in line.entries}
    if "unmeasured" in statuses:
        notes.append(f"{NOT_MEASURED} not measured: {'; '.join(_reasons(cells))}")
    if "error" in statuses:
        notes.append(f"{FAILED}: the cell could not be run; its cause is listed under the tables")
    if "absent" in statuses:
        notes.append(f"{NOT_RUN} not run; a row's mean is given only where every task of the table has a score")
    silent = cells[elsewhere(cells) & cells["tokens_per_step"].isna() & (cells["status"] == "ok")]["model"]
    if len(silent):
        notes.append(f"{NOT_MEASURED} tokens per step: not reported by {', '.join(map(name, dict.fromkeys(silent)))}")
    return [*notes, *([NOTE] if differ(cells).any() else []), *prompts_note(cells)]


def prompts_note(cells: pd.DataFrame) -> list[str]:
    """The note under a table with scores for the prompts of the 2026 rewrite; empty without such scores."""
    theirs = cells["prompts"] == REWRITE
    if not theirs.any():
        return []
    if theirs.all():
        return ["prompts: those of the benchmark's 2026 rewrite, many of them other questions than the paper's (v1)"]
    models = ", ".join(name(model) for model in dict.fromkeys(cells[theirs]["model"]))
    return [f"prompts differ: {models} answered those of the 2026 rewrite, many of them other questions than v1's"]


def _reasons(cells: pd.DataFrame) -> list[str]:
    reasons: dict[str, None] = {}
    for record in cells[cells["score"].isna() & (cells["status"] == "ok")].to_dict("records"):
        absent = record.get("absent")
        why = absent.get(record["headline"]) if isinstance(absent, dict) else None
        reasons[f"{record['headline']} ({why or 'no reason recorded'})"] = None
    return list(reasons)


def _uniform(line: Line) -> bool:
    return all(
        len({rate for rate in rates if rate is not None}) <= 1
        for rates in zip(*((entry.rate, entry.row_rate) for entry in line.entries), strict=True)
    )


def _rate_heads(table: Table) -> list[str]:
    return ["tok/step", *(["tok/row"] if table.rows else [])]


def _text_rows(line: Line, rows: bool) -> list[tuple[str, list[str]]]:
    """A line's label and texts for the terminal, with a column of tokens per step and, with `rows`, one of tokens per
    row; and further rows with the rates of tasks, if they differ between them.
    """
    scores = [*(entry.text() for entry in line.entries), line.mean.text()]
    label, kinds = f"  {name(line.sampler)}", (("tokens per step", "rate"), ("tokens per row", "row_rate"))[: 1 + rows]
    of_tasks = [[getattr(entry, kind) for entry in line.entries] for _, kind in kinds]
    if _uniform(line):
        same = [next((rate for rate in rates if rate is not None), None) for rates in of_tasks]
        return [(label, [*scores, *map(_rate, same)])]
    further = [
        (f"    {title}", [*("" if rate is None else _rate(rate) for rate in rates), "", *[""] * len(kinds)])
        for (title, _), rates in zip(kinds, of_tasks, strict=True)
        if rates != of_tasks[0] or title == kinds[0][0]
    ]
    return [(label, [*scores, *(_rate(getattr(line.mean, kind)) for _, kind in kinds)]), *further]


def _grid(table: Table) -> list[list[str]]:
    """Header and rows for Markdown. If every row has one rate for all its tasks, the rate gets its own column; else
    entries are `100 at 4.4`."""
    names = [*(md(short(task), NAME) for task in table.tasks), "mean"]
    entries = [(*line.entries, line.mean) for line in table.lines]
    if not all(_uniform(line) for line in table.lines):
        return [
            names,
            *(
                [f"{one.mark()} at {one.rates()}" if one.score is not None else one.mark() for one in row]
                for row in entries
            ),
        ]
    heads = _rate_heads(table)
    rates = (_text_rows(line, table.rows)[0][1][-len(heads) :] for line in table.lines)
    return [
        [*names, *heads],
        *([*(one.mark() for one in row), *rate] for row, rate in zip(entries, rates, strict=True)),
    ]


def _rate(rate: float | None) -> str:
    return NOT_MEASURED if rate is None else fixed(rate)


def _percent(value: Any, factor: float = 100) -> float | None:
    return None if value is None or pd.isna(value) else factor * float(value)
