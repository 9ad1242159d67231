"""Loads results of runs into one DataFrame, a row per cell."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from pbcore.errors import InputError
from pbcore.results import published
from pbcore.results.flat import COLUMNS, CONDITIONS, RATES, cell_of, frame
from pbcore.results.record import READABLE, CellRecord, SampleRecord
from pbcore.results.rundir import open_run

if TYPE_CHECKING:
    import pandas as pd


class LoadError(InputError):
    """A path has no results that this package can read."""


def load(path: str | Path) -> pd.DataFrame:
    """A DataFrame with a row per cell: model, task, sampler, n, every score with `_low`/`_high`, nfe, tokens_per_step,
    tokens_per_forward, seconds … (all columns: `results.flat`).

    `path` is a run directory (finished or interrupted), a results.json, a junit.xml or pytest-benchmark JSON written by our plugin,
    a run folder of the 2026 rewrite, or its table as CSV. Raises LoadError naming the path and the readable formats.
    """
    source = Path(path)
    rows = published.read(source)
    if rows is None:
        return frame(load_cells(source))
    return rows.reindex(columns=list(dict.fromkeys([*COLUMNS, *rows.columns, *RATES, *CONDITIONS])))


def load_many(paths: Iterable[str | Path]) -> pd.DataFrame:
    """The rows of several results, concatenated, with a column `run` that holds each row's path."""
    tables = [load(path).assign(run=str(path)) for path in paths]
    if not tables:
        raise LoadError("no path given; give at least one run directory or results file")
    import pandas as pd

    return pd.concat([table.dropna(axis="columns", how="all") for table in tables], ignore_index=True).reindex(
        columns=list(dict.fromkeys(column for table in tables for column in table.columns))
    )


def load_cells(path: str | Path) -> list[CellRecord]:
    """The cell records of a run directory or of one of our files. Raises LoadError if there are none or they can't be read."""
    source = Path(path)
    if source.is_dir():
        return _from_directory(source)
    if not source.exists():
        raise LoadError(
            f"{source} does not exist; give a run directory, results.json, junit.xml or pytest-benchmark JSON"
        )
    if source.suffix == ".xml":
        cells = _from_junit(source)
    elif source.suffix == ".json":
        cells = _from_json(source)
    else:
        raise LoadError(
            f"{source}: can't read {source.suffix or 'such'} files; give a run directory, a .json or an .xml file"
        )
    return sorted(cells, key=lambda cell: cell.id)


def load_samples(run_dir: str | Path) -> dict[str, list[SampleRecord]]:
    """The samples of every cell of a run directory: id → samples by index and seed. Reads samples.jsonl if cells/ is missing.

    Raises LoadError if neither exists (results.json, junit.xml and benchmark JSON alone hold no samples).
    """
    source = Path(run_dir)
    if not source.is_dir():
        raise LoadError(f"{source} holds no samples; give a run directory (with cells/ or samples.jsonl)")
    stored = open_run(source).read_cells()
    if stored:
        return {entry.cell.id: sorted(entry.samples, key=lambda sample: sample.place) for entry in stored}
    lines = source / "samples.jsonl"
    if not lines.exists():
        raise LoadError(f"{source} holds no samples: neither cells/ nor samples.jsonl")
    samples: dict[str, list[SampleRecord]] = {}
    for line in lines.read_text(encoding="utf-8").splitlines():
        data = json.loads(line)
        samples.setdefault(data.pop("cell"), []).append(SampleRecord(**data))
    return samples


def _from_directory(source: Path) -> list[CellRecord]:
    stored = open_run(source).read_cells() if (source / "cells").is_dir() else []
    if stored:
        return [entry.cell for entry in stored]
    for name in ("results.json", "junit.xml"):
        if (source / name).exists():
            return load_cells(source / name)
    if (source / "cells").is_dir():
        return []
    raise LoadError(f"{source} holds no results: neither cells/, results.json nor junit.xml")


def _from_json(source: Path) -> list[CellRecord]:
    try:
        data: Any = json.loads(source.read_text(encoding="utf-8"))
    except ValueError as error:
        raise LoadError(
            f"{source} is not valid JSON ({error}); if the run was interrupted, load its directory instead"
        ) from error
    if isinstance(data, dict) and "cells" in data and data.get("schema") not in READABLE:
        raise LoadError(
            f"{source} has schema {data.get('schema')!r}; this version reads {' and '.join(map(str, READABLE))}"
        )
    try:
        if isinstance(data, dict) and "benchmarks" in data:
            cells = [cell for entry in data["benchmarks"] if (cell := cell_of(entry.get("extra_info", {}))) is not None]
            return _nonempty(source, cells)
        if isinstance(data, dict) and "cells" in data:
            return [CellRecord.from_json(cell) for cell in data["cells"]]
    except (TypeError, AttributeError) as error:
        raise LoadError(
            f"{source} is damaged: its rows are not records ({error}); load the run's directory instead"
        ) from error
    raise LoadError(f"{source} is neither a results.json (has 'cells') nor a pytest-benchmark JSON (has 'benchmarks')")


def _from_junit(source: Path) -> list[CellRecord]:
    try:
        root = ElementTree.parse(source).getroot()
    except ElementTree.ParseError as error:
        raise LoadError(f"{source} is not valid XML ({error}); load the run's directory instead") from error
    cells = [
        cell_of((item.get("name", ""), item.get("value", "")) for item in case.iter("property"))
        for case in root.iter("testcase")
    ]
    return _nonempty(source, [cell for cell in cells if cell is not None])


def _nonempty(source: Path, cells: list[CellRecord]) -> list[CellRecord]:
    if not cells:
        raise LoadError(
            f"{source} has no pbcore cell: no property 'pbcore_record'; give a file that pbcore's pytest plugin wrote"
        )
    return cells
