"""The run directory: one atomically written file per finished cell, so that a killed run loses only its unfinished cells.

    reports/<run>/run.json            the run's facts: command, versions, machine, seeds, data source
                 /cells/<name>.json   {"schema": 2, "cell": {...}, "samples": [...]}, written atomically
                 /results.json        all cells, assembled from cells/ at the end or on demand
                 /samples.jsonl       all samples, one per line

Typical use. The controller: `run = create("reports"); run.write_run(facts)`. Every process: `RunDir(path).write_cell(cell, samples)`
as soon as a cell is finished. The controller at the end: `run.assemble()`.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from pbcore.errors import InputError
from pbcore.results.plain import plain
from pbcore.results.record import READABLE, SCHEMA, CellRecord, SampleRecord


class RunDirError(InputError):
    """A path is not a run directory, or can't be used as one."""


class CorruptCellWarning(UserWarning):
    """A cell file was unreadable and has been renamed to `*.corrupt`."""


@dataclass(frozen=True, slots=True)
class StoredCell:
    """A stored cell with its samples."""

    cell: CellRecord
    samples: tuple[SampleRecord, ...]


@dataclass(frozen=True, slots=True)
class RunDir:
    """A run directory at `path`. Cheap to create in any process; holds no open files."""

    path: Path

    @property
    def cells_dir(self) -> Path:
        return self.path / "cells"

    def write_run(self, facts: Mapping[str, Any]) -> Path:
        """Writes run.json: `facts` (plain values) with `schema` added. Returns its path."""
        return write_atomic(self.path / "run.json", _dump({"schema": SCHEMA, **plain(facts, "run facts")}))

    def read_run(self) -> dict[str, Any]:
        """The facts of run.json; empty if the run was killed before writing them."""
        file = self.path / "run.json"
        if not file.exists():
            return {}
        data: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return data

    def write_cell(self, cell: CellRecord, samples: Iterable[SampleRecord]) -> Path:
        """Writes one finished cell atomically and returns when it is on disk. It replaces an earlier record with the same id.

        Raises TypeError or ValueError for a value that is not a plain finite JSON value, OSError if it can't be written.
        """
        data = {"schema": SCHEMA, "cell": cell.to_json(), "samples": [asdict(sample) for sample in samples]}
        return write_atomic(self.cells_dir / cell_file(cell.id), _dump(plain(data, f"record of {cell.id}")))

    def read_cells(self, say: Callable[[str], None] | None = None) -> list[StoredCell]:
        """All finished cells, sorted by id. An unreadable file is renamed to `*.corrupt` and named through `say` (default: a warning)."""
        stored = [
            cell
            for file in sorted(self.cells_dir.glob("*.json"))
            if (cell := _read_or_set_aside(file, say)) is not None
        ]
        return sorted(stored, key=lambda entry: entry.cell.id)

    def assemble(self, say: Callable[[str], None] | None = None) -> tuple[Path, Path]:
        """Assembles results.json and samples.jsonl from cells/, replacing both atomically. Works for interrupted runs too."""
        stored = self.read_cells(say)
        results = {"schema": SCHEMA, "run": self.read_run(), "cells": [entry.cell.to_json() for entry in stored]}
        lines = [
            json.dumps({"cell": entry.cell.id, **asdict(sample)}, ensure_ascii=False, allow_nan=False)
            for entry in stored
            for sample in entry.samples
        ]
        return (
            write_atomic(self.path / "results.json", _dump(results)),
            write_atomic(self.path / "samples.jsonl", "".join(line + "\n" for line in lines)),
        )


def new_name() -> str:
    """A name for a run directory: date-time and a short random suffix."""
    return f"{datetime.now():%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


def create(root: str | Path = "reports", name: str | None = None) -> RunDir:
    """Creates a new run directory `root/name` and its cells/. Default name: date-time and a short random suffix.

    Raises RunDirError if `root/name` exists and is not empty: a run never overwrites an earlier one.
    """
    path = Path(root) / (new_name() if name is None else name)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise RunDirError(f"{path} exists and is not empty; choose another name for the run, or resume it")
    (path / "cells").mkdir(parents=True, exist_ok=True)
    return RunDir(path)


def open_run(path: str | Path) -> RunDir:
    """An existing run directory. Raises RunDirError if there is none, saying what is missing."""
    run = RunDir(Path(path))
    if not run.path.is_dir():
        raise RunDirError(f"{run.path} is not a directory; give a run directory such as reports/20260102-030405-ab12")
    if not run.cells_dir.is_dir() and not (run.path / "results.json").exists():
        raise RunDirError(f"{run.path} is not a run directory: it has neither cells/ nor results.json")
    return run


def cell_file(cell_id: str) -> str:
    """The file name for a cell id: readable, and different for different ids, even on case-insensitive file systems."""
    digest = hashlib.sha256(cell_id.encode()).hexdigest()[:10]
    return f"{re.sub(r'[^A-Za-z0-9._+-]+', '_', cell_id)[:120]}-{digest}.json"


def write_atomic(path: Path, text: str) -> Path:
    """Writes `text` atomically: after a crash at any moment `path` holds either the whole old or the whole new text."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f".{path.name[:60]}-{secrets.token_hex(8)}.tmp"
    # tempfile would make files that only their owner can read, but results are for others too. The umask applies to 0o666.
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_dir(path.parent)
    return path


def parse_cell(text: str) -> StoredCell:
    """Parses a cell file's text. Raises InputError, KeyError or TypeError if it is damaged or has another schema."""
    data = json.loads(text)
    if data["schema"] not in READABLE:
        raise InputError(f"schema {data['schema']!r}, this version reads {' and '.join(map(str, READABLE))}")
    return StoredCell(CellRecord.from_json(data["cell"]), tuple(SampleRecord(**sample) for sample in data["samples"]))


def set_aside(file: Path) -> Path:
    """Renames a damaged file to `<name>.corrupt` (with a number if that exists) and returns the new path."""
    target, number = file.with_name(file.name + ".corrupt"), 1
    while target.exists():
        number += 1
        target = file.with_name(f"{file.name}.corrupt{number}")
    os.replace(file, target)
    return target


def _read_or_set_aside(file: Path, say: Callable[[str], None] | None) -> StoredCell | None:
    try:
        return parse_cell(file.read_text(encoding="utf-8"))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        target = set_aside(file)
        why = f"{type(error).__name__}: {error}"
        message = f"cell file {file} can't be read ({why}); renamed to {target.name}, the cell counts as not run"
        if say is None:
            warnings.warn(message, CorruptCellWarning, stacklevel=3)
        else:
            say(message)
        return None


def _sync_dir(directory: Path) -> None:
    """Makes a rename durable; does nothing on platforms where directories can't be opened (Windows)."""
    if os.name != "posix":
        return
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _dump(data: Mapping[str, Any] | Sequence[Any]) -> str:
    return json.dumps(data, ensure_ascii=False, allow_nan=False, indent=1) + "\n"
