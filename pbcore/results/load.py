"""Loads results of runs into one DataFrame, a row per cell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from pbcore.base.check import LoadError, check_schema, json_lines, read_json
from pbcore.base.printable import printable, shown
from pbcore.results import published
from pbcore.results.packed import unpacked
from pbcore.results.record import SCHEMA, CellRecord, SampleRecord, id_order
from pbcore.results.rundir import StoredCell, open_run, with_samples
from pbcore.results.table_row import (
    BLAME,
    COLUMNS,
    CONDITIONS,
    RATES,
    RECORD_PROPERTY,
    THEORY,
    frame,
)

if TYPE_CHECKING:
    import pandas as pd


def load(path: str | Path) -> pd.DataFrame:
    """A DataFrame with a row per cell: model, task, sampler, n, every score with `_low`/`_high`,
    nfe, tokens_per_step, seconds … (all columns: `table_row.cell_row`).

    `path` is a run directory (finished or interrupted), a results.json, a junit.xml or
    pytest-benchmark JSON written by our plugin, a run folder of the 2026 rewrite, or its table as
    CSV. Raises LoadError naming the path and the readable formats.
    """
    source = Path(path)
    rows = load_published(source)
    return frame(load_cells(source)) if rows is None else rows


def load_published(path: Path) -> pd.DataFrame | None:
    """`load` of published results; None for a path without. Raises LoadError."""
    rows = published.read_published(path)
    if rows is None:
        return None
    columns = [*COLUMNS, *rows.columns, *RATES, *THEORY, *BLAME, *CONDITIONS]
    return rows.reindex(columns=list(dict.fromkeys(columns)))


def load_many(paths: Iterable[str | Path]) -> pd.DataFrame:
    """The rows of several results, concatenated, with a column `run` that holds each row's path."""
    import pandas as pd

    tables = [load(path).assign(run=str(path)) for path in paths]
    if not tables:
        raise LoadError("no path given; give at least one run directory or results file")
    columns = list(dict.fromkeys(column for table in tables for column in table.columns))
    filled = [table.dropna(axis="columns", how="all") for table in tables]
    return pd.concat(filled, ignore_index=True).reindex(columns=columns)


def load_cells(path: str | Path) -> list[CellRecord]:
    """The cell records of a run directory or of one of our files. Raises LoadError if there are
    none or they can't be read.
    """
    source = Path(path)
    if source.is_dir():
        return _from_directory(source)
    if not source.exists():
        raise LoadError(
            f"{source} does not exist; give a run directory, results.json, junit.xml or"
            " pytest-benchmark JSON"
        )
    readers = {".xml": _junit_records, ".json": _json_records}
    if source.suffix not in readers:
        raise LoadError(
            f"{source}: can't read {source.suffix or 'such'} files; give a run directory, a .json"
            " or an .xml file"
        )
    return sorted(_once(source, readers[source.suffix](source)), key=lambda cell: id_order(cell.id))


def load_samples(run_dir: str | Path) -> dict[str, list[SampleRecord]]:
    """The samples of every cell of a run directory, as `load_stored` finds them: id → samples by
    index and seed. Raises LoadError if there are none (results.json, junit.xml and benchmark JSON
    alone hold no samples).
    """
    source = Path(run_dir)
    stored = load_stored(source) if source.is_dir() else []
    if not stored or not ((source / "samples.jsonl").exists() or any(source.glob("cells/*.json"))):
        raise LoadError(
            f"{source} holds no samples; give a run directory (with cells/ or samples.jsonl)"
        )
    return {
        entry.cell.id: sorted(entry.samples, key=lambda sample: sample.place) for entry in stored
    }


def load_stored(run_dir: str | Path, say: Callable[[str], None] | None = None) -> list[StoredCell]:
    """The cells of a run directory with their samples: from cells/ (`say` as in
    `RunDir.read_cells`), else from results.json and samples.jsonl; without that file, cells have no
    samples. Raises RunDirError, LoadError.
    """
    run = open_run(run_dir)
    stored = run.read_cells(say)
    results = run.path / "results.json"
    lines = run.path / "samples.jsonl"
    if stored or not results.exists():
        return stored
    cells = load_cells(results)
    if not lines.exists():
        return [StoredCell(cell, ()) for cell in cells]
    samples: dict[str, list[SampleRecord]] = {cell.id: [] for cell in cells}
    for where, data in json_lines(lines):
        if not isinstance(data, dict) or not isinstance(data.get("cell"), str):
            raise LoadError(
                f"{where} is {shown(data)}; it should be a sample with a field cell, the cell's id"
            )
        cell_id = data.pop("cell")
        if cell_id not in samples:
            raise LoadError(
                f"{lines} has samples of cell {printable(cell_id)}, which {results.name} lacks"
            )
        samples[cell_id].append(SampleRecord.from_json(data, where))
    return [with_samples(cell, samples[cell.id], str(lines)) for cell in cells]


def _from_directory(source: Path) -> list[CellRecord]:
    cells = open_run(source).read_cells() if (source / "cells").is_dir() else None
    if cells:
        return [entry.cell for entry in cells]
    for name in ("results.json", "junit.xml"):
        if (source / name).exists():
            return load_cells(source / name)
    if cells is not None:
        return []
    runs = sorted((path.parent for path in source.glob("*/cells")), key=lambda path: path.name)
    below = f"; it holds runs, the last one {runs[-1]}" if runs else ""
    raise LoadError(f"{source} holds no results: neither cells/, results.json nor junit.xml{below}")


def _json_records(source: Path) -> list[CellRecord]:
    data = read_json(source)
    kind = next(
        (kind for kind in ("benchmarks", "cells") if isinstance(data, dict) and kind in data), None
    )
    if kind is None:
        raise LoadError(
            f"{source} is neither a results.json (has 'cells') nor a pytest-benchmark JSON (has"
            " 'benchmarks')"
        )
    if kind == "cells":
        check_schema(data, SCHEMA, str(source))
    entries = data[kind]
    if not isinstance(entries, list):
        raise LoadError(f"{source}: field {kind} is {shown(entries)}; it should be a list")
    if kind == "cells":
        return [
            CellRecord.from_json(cell, f"{source}: cells[{i}]") for i, cell in enumerate(entries)
        ]
    tests = [(f"{source}: benchmarks[{i}]", entry) for i, entry in enumerate(entries)]
    for where, entry in tests:
        if not isinstance(entry, dict) or not isinstance(entry.get("extra_info", {}), dict):
            raise LoadError(
                f"{where} is {shown(entry)}; it should be a mapping with one in extra_info"
            )
    return _of_properties(source, [(where, entry.get("extra_info", {})) for where, entry in tests])


def _junit_records(source: Path) -> list[CellRecord]:
    try:
        root = ElementTree.parse(source).getroot()
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        raise LoadError(
            f"{source} is not valid XML ({printable(str(error))}); load the run's directory instead"
        ) from error
    tests = []
    for number, case in enumerate(root.iter("testcase"), 1):
        properties = {item.get("name"): item.get("value") for item in case.iter("property")}
        tests.append((f"{source}: testcase {number}", properties))
    return _of_properties(source, tests)


def _of_properties(
    source: Path, tests: Iterable[tuple[str, Mapping[Any, Any]]]
) -> list[CellRecord]:
    """The records that tests (place, properties) carry. Raises LoadError if there is none."""
    cells = []
    for where, properties in tests:
        if RECORD_PROPERTY in properties:
            text = properties[RECORD_PROPERTY]
            if not isinstance(text, str):
                raise LoadError(
                    f"{where}: {RECORD_PROPERTY} is {shown(text)}; it should be a packed record"
                )
            record = unpacked(text, f"{where}: {RECORD_PROPERTY}")
            cells.append(CellRecord.from_json(record, where))
    if not cells:
        raise LoadError(
            f"{source} has no pbcore cell: no property '{RECORD_PROPERTY}'; give a file that"
            " pbcore's pytest plugin wrote"
        )
    return cells


def _once(source: Path, cells: list[CellRecord]) -> list[CellRecord]:
    """Each record once: a test's reports are in the file several times, and an error may follow its
    record.
    """
    chosen: dict[str, CellRecord] = {}
    for cell in cells:
        earlier = chosen.setdefault(cell.id, cell)
        if earlier == cell or cell.status == "error":
            continue
        if earlier.status != "error":
            raise LoadError(
                f"{source} holds two different records of cell {printable(cell.id)}; load the run's"
                " directory instead"
            )
        chosen[cell.id] = cell
    names = Counter((cell.model_at, cell.task, cell.sampler) for cell in chosen.values())
    twice = next((" × ".join(name) for name, count in names.items() if count > 1), None)
    if twice is not None:
        raise LoadError(
            f"{source} holds two cells of {printable(twice)}; load the run's directory instead"
        )
    return list(chosen.values())
