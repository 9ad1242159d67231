"""A run as two tables, cells and samples, in CSV or Parquet, in the
layout of the benchmark's own site, or sent to a tracker.
"""

from __future__ import annotations

import argparse
import csv
import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import pandas as pd

from pbcore.base.check import dump_json, encodable, refuse
from pbcore.base.errors import InputError
from pbcore.base.links import install_command
from pbcore.base.registry import Registry
from pbcore.results.load import load_stored
from pbcore.results.measures import MEASURES
from pbcore.results.questions import Key, StoredQuestion, key, read_questions
from pbcore.results.rundir import RunDir, StoredCell, write_atomic
from pbcore.results.table_row import frame

# What a spreadsheet may read as a formula at the beginning of a text, also behind quotes that were
# put there before.
_FORMULA = re.compile("'*[=+\\-@\t\r\n＝＋－＠]")  # in full width, too, as some Excels read them
FIELDS = (
    "index",
    "seed",
    "text",
    "official_text",
    *(field for measure in MEASURES for field in measure.answers),
    "canvas_tokens",
    "answer_tokens",
)
LISTS = ("tokens", "steps", "confidences")

# Columns by name, a value per row: exact builtins, None where not measured.
TableColumns = dict[str, list[Any]]


def tables(run: Path) -> dict[str, TableColumns]:
    """The tables of a run directory: `cells` has the columns of docs/results.md (mappings as JSON),
    `samples` a row per answer with its cell, prompt, a right answer, the text given, counts,
    scores, the reason why it is wrong, what is to blame and at which of its steps, tokens, steps
    and confidences. Raises LoadError and RunDirError, also for a cell that can't be read.
    """
    stored = load_stored(run, refuse)
    if not stored:
        raise InputError(f"{run} has no finished cell; nothing to export")
    rows = frame(entry.cell for entry in stored)
    cells: TableColumns = {}
    for name in rows.columns:
        cells[str(name)] = [_plain(value) for value in rows[name].tolist()]
    return {"cells": cells, "samples": _samples(stored, read_questions(RunDir(run)))}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping | list):
        return dump_json(value)
    return None if pd.isna(value) else value


def _samples(
    stored: Sequence[StoredCell], questions: Mapping[Key, Mapping[int, StoredQuestion]]
) -> TableColumns:
    # A cell, a sample and its question (None if it isn't kept) per row.
    cells = []
    samples = []
    stored_questions = []
    for entry in stored:
        of_cell = questions.get(key(entry.cell), {})
        for sample in entry.samples:
            cells.append(entry.cell)
            samples.append(sample)
            stored_questions.append(of_cell.get(sample.index))
    columns: TableColumns = {"cell": [cell.id for cell in cells]}
    for name in ("model", "task", "sampler"):
        columns[name] = [getattr(cell, name) for cell in cells]
    for name in ("prompt", "answer"):
        columns[name] = [
            None if question is None else getattr(question, name) for question in stored_questions
        ]
    for name in FIELDS:
        columns[name] = [getattr(sample, name) for sample in samples]
    details: TableColumns = {}
    for name in ("why", "failure"):
        details[name] = [_plain(sample.details.get(name)) for sample in samples]
    blames = [sample.blame for sample in samples]
    details["verdict"] = [None if blame is None else blame.verdict for blame in blames]
    details["blamed_step"] = [None if blame is None else blame.step for blame in blames]
    for name in LISTS:
        details[name] = [getattr(sample, name) for sample in samples]
    details["details"] = [dump_json(sample.details) for sample in samples]
    scores: TableColumns = {}
    for sample in samples:
        for name in sample.scores:
            taken = name in columns or name in details
            column = f"score_{name}" if taken else name
            if column not in scores:
                scores[column] = [other.scores.get(name) for other in samples]
    return {**columns, **scores, **details}


def export_csv(run: Path, folder: Path) -> list[Path]:
    """Writes cells.csv and samples.csv into a folder and returns their paths. A text that a
    spreadsheet would read as a formula (one that begins with = + - @, in full width too, with a tab
    or a line break) gets a
    `'` in front, as does one that begins with such a `'`: removing one `'` gives the text back.
    Numbers stay.
    """
    return [
        write_atomic(folder / f"{name}.csv", _csv(columns)) for name, columns in tables(run).items()
    ]


def _csv(columns: TableColumns) -> str:
    stream = io.StringIO()
    # All texts are quoted: unquoted, a lone carriage return would end the row.
    writer = csv.writer(stream, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    for row in (columns, *zip(*columns.values(), strict=True)):
        fields = [dump_json(value) if isinstance(value, list) else value for value in row]
        writer.writerow([defused(field) if isinstance(field, str) else field for field in fields])
    return str(encodable(stream.getvalue()))


def defused(text: str) -> str:
    """The text as no spreadsheet evaluates it."""
    return f"'{text}" if _FORMULA.match(text) else text


def write_parquet(run: Path, folder: Path) -> list[Path]:
    """Writes cells.parquet and samples.parquet into a folder and returns their paths. Texts are as
    they are, steps and confidences are lists, values that were not measured are null. Raises
    InputError without pyarrow.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise InputError(
            f"Parquet needs pyarrow, which is not installed: {install_command('parquet')}"
        ) from None
    made = tables(run)
    folder.mkdir(parents=True, exist_ok=True)
    text = pyarrow.string()
    written = []
    types = {  # of columns whose values may all be empty; others have the type of their values
        **dict.fromkeys(("prompt", "answer", "official_text", "why", "failure", "verdict"), text),
        "blamed_step": pyarrow.int64(),
        "tokens": pyarrow.list_(text),
        "steps": pyarrow.list_(pyarrow.int64()),
        "confidences": pyarrow.list_(pyarrow.float64()),
        **{measure.key: pyarrow.float64() for measure in MEASURES if measure.answers},
    }
    for name, columns in made.items():
        arrays = {
            column: pyarrow.array(_arrow(values), types.get(column))
            for column, values in columns.items()
        }
        parquet.write_table(pyarrow.table(arrays), folder / f"{name}.parquet")
        written.append(folder / f"{name}.parquet")
    return written


def _arrow(value: Any) -> Any:
    """A value, or a list of them, as pyarrow takes it: without lone surrogates."""
    return [_arrow(item) for item in value] if isinstance(value, list) else encodable(value)


class Exporter(Protocol):
    """Where a run is sent (group `pbcore.exporters`). `usage` are its options as an
    error names them; `asked` says whether one of them is given; `send` returns what to print and
    raises InputError without the package.
    """

    usage: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...
    def asked(self, args: argparse.Namespace) -> bool: ...
    def send(self, path: Path, args: argparse.Namespace) -> list[str]: ...


EXPORTERS: Registry[Exporter] = Registry("exporter", "pbcore.exporters")
