"""Scores beside their ceilings, and bits lost: what parallel decoding costs, and what the model."""

from typing import Any

import pandas as pd
from tabulate import tabulate

from pbcore.analysis.order import natural, short, sorted_tasks
from pbcore.printable import counted, fixed
from pbcore.report.cells import NONE, or_dash, real
from pbcore.results.questions import redrawn
from pbcore.results.table_row import THEORY
from pbcore.tasks.base import Task
from pbcore.tasks.naming import category
from pbcore.text import NAME, ascii_text, md, name

NOTE = (
    "Score / ceiling in %, then the gap in points. The ceiling is the ideal model's expected accuracy on the same "
    "samples under the same sampler: what it lacks to 100 is lost by parallel decoding, and the gap is the model's "
    "own. ~: by decoding the ideal model, with sampling error; others are exact. Rows without a ceiling below 100 are "
    "left out."
)
BITS = (
    "L_T of the partition that each decoding took, in bits (ParallelBench, Theorem 1), a mean over answers; then "
    "tokens per step. Rows that lost nothing are left out."
)


def ceiling_section(cells: pd.DataFrame) -> str:
    """The part of report.md with both tables; empty where no record has a ceiling or bits."""
    parts = []
    for title, note, head, rows in _tables(cells):
        words = [[md(word, NAME) for word in row] for row in (head, *rows)]
        table = tabulate(words[1:], words[0], tablefmt="github", disable_numparse=True)
        parts.append(f"## {md(title)}\n\n{table}\n\n{note}\n")
    return "\n".join(parts + [f"{line}\n" for line in _within(cells) if parts])


def ceiling_text(cells: pd.DataFrame, ascii: bool = False) -> str:
    """The same for a terminal. `ascii` for outputs without other signs."""
    plain = ascii_text if ascii else str
    parts = []
    for title, note, head, rows in _tables(cells):
        words = [[plain(name(word)) for word in row] for row in (head, *rows)]
        table = tabulate(words[1:], words[0], tablefmt="simple", disable_numparse=True)
        parts.append(f"{plain(name(title))}\n{table}\n  {plain(note)}")
    return "\n\n".join(parts + [plain(line) for line in _within(cells) if parts])


def _within(cells: pd.DataFrame) -> list[str]:
    """How many cells of `ideal` have their ceiling within their interval; empty without such cells."""
    known = cells[(cells["model"] == "ideal") & (cells["status"] == "ok") & cells["ceiling"].notna()]
    if known.empty:
        return []
    inside = (known["score_low"] <= known["ceiling_high"]) & (known["ceiling_low"] <= known["score_high"])
    return [
        f"Of {counted(len(known), 'cell')} of ideal, {int(inside.sum())} have their ceiling within the 95 % interval "
        "of their score; about one in twenty of those below 100 should not."
    ]


def with_ceilings(cells: pd.DataFrame) -> pd.DataFrame:
    """The cells with the ceilings that their records lack, for generated samples: these are drawn again, and used if
    they are those of the record.
    """
    from pbcore.ceilings.ceiling import Ceilings  # imports torch: only for runs that lack their ceilings

    ceilings = Ceilings()
    tasks: dict[tuple[Any, ...], Task | None] = {}
    columns: dict[str, Any] = {
        name: list(cells[name]) if name in cells else [None] * len(cells) for name in (*THEORY, "ceiling_kind")
    }
    for i, row in enumerate(cells.to_dict("records")):
        if row["status"] != "ok" or row.get("headline") != "accuracy" or not pd.isna(columns["ceiling"][i]):
            continue
        key = row["task"], row["n"], row["length"], row["data_hash"]
        if key not in tasks:
            tasks[key] = _task(row)
        task, info = tasks[key], row.get("model_info")
        block = info.get("block") if isinstance(info, dict) else None
        known = None if task is None else ceilings.of(task, row["sampler"], block)
        if known is not None:
            values = (known.mean, known.low, known.high, known.mean - row["score"], known.kind)
            for name, value in zip((*THEORY[:4], "ceiling_kind"), values, strict=True):
                columns[name][i] = value
    return cells.assign(**columns).astype(dict.fromkeys(THEORY, "float64"))


def _task(row: dict[Any, Any]) -> Task | None:
    """The task with the samples of a record; None if they can't be drawn again."""
    options = row.get("options")
    known = options if isinstance(options, dict) else {}
    return redrawn(row["task"], str(row["length"]), int(row["n"]), known, row["data_hash"])


def _tables(cells: pd.DataFrame) -> list[tuple[str, str, list[str], list[list[str]]]]:
    """(title, note, head, rows) per category for those that have something to show: a row per model and sampler, a
    column per task."""
    if "ceiling" not in cells:
        return []
    ran = real(cells[cells["status"] == "ok"])
    models = list(dict.fromkeys(ran["model"]))
    found = []
    for kind in dict.fromkeys(map(category, sorted_tasks(ran["task"]))):
        group = ran[ran["category"] == kind]
        for title, note, entry, some in (
            (f"Ceilings: {kind}", NOTE, _against, group[group["ceiling"] < 1 - 5e-4]),
            (f"Bits lost: {kind}", BITS, _bits, group[group["bits_lost"] > 5e-4]),
        ):
            if some.empty:
                continue
            tasks, pairs = sorted_tasks(some["task"]), set(zip(some["model"], some["sampler"], strict=True))
            texts = {(row["model"], row["sampler"], row["task"]): entry(row) for row in group.to_dict("records")}
            order = sorted(pairs, key=lambda pair: (models.index(pair[0]), natural(pair[1])))
            rows = [[*pair, *(texts.get((*pair, task), NONE) for task in tasks)] for pair in order]
            found.append((title, note, ["model", "sampler", *map(short, tasks)], rows))
    return found


def _against(row: dict[Any, Any]) -> str:
    if pd.isna(row["ceiling"]) or pd.isna(row["score"]):
        return NONE
    sign = "~" if row.get("ceiling_kind") == "sampled" else ""
    return f"{fixed(100 * row['score'], 0)} / {sign}{fixed(100 * row['ceiling'])}, {fixed(100 * row['gap'], 0)}"


def _bits(row: dict[Any, Any]) -> str:
    if pd.isna(row["bits_lost"]):
        return NONE
    return f"{fixed(row['bits_lost'], 2)}, {or_dash(row['tokens_per_step'])}"
