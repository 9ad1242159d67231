"""The run directory: one atomically written file per finished cell, so that a killed run loses only
its unfinished cells.

    reports/<run>/run.json            the run's facts: command, versions, machine, seeds, data
    source
                 /cells/<name>.json   {"schema": 2, "cell": {...}, "samples": [...]}, written
                 atomically /cells/<name>.answers.jsonl  answers of a model behind a server,
                 appended as they come /questions/<task>.json  the questions that the answers belong
                 to (`results.questions`) /results.json        all cells, assembled from cells/ at
                 the end or on demand /samples.jsonl       all samples, one per line
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, TypedDict, get_type_hints

from pbcore.base import check
from pbcore.base.check import LoadError, NewerSchemaError, dump_json, plain
from pbcore.base.errors import InputError
from pbcore.base.printable import counted, printable, shown
from pbcore.costs.kinds import SpeedAxis
from pbcore.results.environment import Machine
from pbcore.results.record import SCHEMA, CellRecord, SampleRecord, id_order

ANSWERS = ".answers.jsonl"
BEGUN = ("run.json", ".lock")  # what a run has before its first cell
TEMPORARY = ".tmp"  # at the end of a file's name until it is whole


class RunDirError(InputError):
    """A path is not a run directory, or can't be used as one."""


class CorruptCellWarning(UserWarning):
    """A cell file can't be read, so its cell counts as not run."""


@dataclass(frozen=True, slots=True)
class StoredCell:
    """A stored cell with its samples."""

    cell: CellRecord
    samples: tuple[SampleRecord, ...]


class Planned(TypedDict, total=False):
    """How many cells a run was to have, of which models and samplers, of how many tasks."""

    cells: int
    models: list[str]
    samplers: int
    sampler_names: list[str]
    tasks: int


class Commands(TypedDict, total=False):
    """What commands that run a cell again need beside a run's settings.

    - `folder`: where the run was started;
    - `stated`: the options that an ini file or `addopts` states;
    - `long`: those whose short names another plugin has;
    - `computes`: the given ones that decide speed alone;
    - `files`: the node ids of test functions that aren't stock ones, by cell.
    """

    folder: str
    stated: list[str]
    long: list[str]
    computes: dict[str, Any]
    files: dict[str, str]


class RunFacts(TypedDict, total=False):
    """The facts of run.json, all of which a run may lack that was killed early or made by another
    tool. Those that are read again are checked; others are allowed.

    `gate` holds the text of each verdict on the run, `gate_failed` whether one failed, `axis` is
    the axis of speed that reports show first (`--axis`), `price` and `price_batch` are the price
    lists and the batch by which seconds are estimated, `settings` the run's options by name,
    `machine` and `versions` what timings and results depend on, `nodes` the machines of a run on a
    cluster, `history` the facts of the runs that this one resumed, `merged_from` those of the runs
    that were merged into it, each with its `path`, `parent` those of the run whose answers were
    scored again.
    """

    command: list[str] | str | None
    gate: list[str]
    gate_failed: bool
    started: str | None
    profile: str | None
    seeds: list[int] | None
    data_seed: int | None
    data_dir: str | None
    limit: int | None
    shard: str | None
    max_loss: float | None
    axis: SpeedAxis | None
    price: list[str] | None
    price_batch: int | None
    versions: dict[str, Any]
    machine: Machine
    resumes: list[Any]
    merged_from: list[RunFacts]
    path: Any
    planned: Planned
    settings: Any
    commands: Commands
    nodes: dict[str, Machine]
    history: Any
    parent: Any
    explanation: dict[str, Any]  # of `pbcore explain`


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run as it was read from its directory: the facts of run.json and the finished cells."""

    path: Path
    facts: RunFacts
    cells: Sequence[StoredCell]


@dataclass(frozen=True, slots=True)
class RunDir:
    """A run directory. Cheap to create in any process; holds no open files."""

    path: Path

    @property
    def cells_dir(self) -> Path:
        return self.path / "cells"

    def write_run(self, facts: Mapping[str, object]) -> Path:
        """Writes run.json: `facts` (plain values) with `schema` added. Returns its path."""
        return write_json(self.path / "run.json", {"schema": SCHEMA, **plain(facts, "run facts")})

    def read_run(self) -> RunFacts:
        """The facts of run.json; empty if the run was killed before writing them. Raises LoadError
        if it is damaged.
        """
        file = self.path / "run.json"
        return run_facts(check.read_json(file), str(file)) if file.exists() else {}

    def read(self, say: Callable[[str], None] | None = None) -> StoredRun:
        """The run's facts and cells; `say` and errors as of `read_run` and `read_cells`."""
        return StoredRun(self.path, self.read_run(), self.read_cells(say))

    def write_cell(self, cell: CellRecord, samples: Iterable[SampleRecord]) -> Path:
        """Writes one finished cell atomically, in place of an earlier record of its id; returns
        when it is on disk. Raises TypeError or ValueError for a value that is not a plain finite
        JSON value, LoadError for a record that reading would refuse, OSError.
        """
        data = {
            "schema": SCHEMA,
            "cell": cell.to_json(),
            "samples": [sample.to_json() for sample in samples],
        }
        record = f"record of {cell.id}"
        written = plain(data, record)
        _cell_of(written, record)
        return write_json(self.cells_dir / cell_file(cell.id), written)

    def answers_file(self, cell_id: str) -> Path:
        """Where the answers of a cell of a model behind a server are kept as they come."""
        return self.cells_dir / f"{cell_file(cell_id).removesuffix('.json')}{ANSWERS}"

    def read_cells(
        self, say: Callable[[str], None] | None = None, *, set_aside: bool = False
    ) -> list[StoredCell]:
        """All finished cells in the order of `id_order`. A damaged file is named through `say`
        (default: a warning); its cell counts as not run. With `set_aside`, as a resumed run needs
        it, the file is renamed to `*.corrupt`. Raises NewerSchemaError for a record that a newer
        version wrote, LoadError if two files hold the same cell.
        """
        stored: dict[str, StoredCell] = {}
        names: set[tuple[str, ...]] = set()
        for file in sorted(self.cells_dir.glob("*.json")):
            try:
                entry = parse_cell(check.read_utf8(file), str(file))
            except NewerSchemaError:
                raise
            except LoadError as error:
                reason = str(error).removeprefix(str(file)).lstrip(": ")
                renamed = f"renamed to {_set_aside(file).name}, " if set_aside else ""
                message = (
                    f"cell file {file} can't be read ({reason}); {renamed}the cell counts as"
                    " not run"
                )
                if say is None:
                    warnings.warn(message, CorruptCellWarning, stacklevel=2)
                else:
                    say(message)
                continue
            cell = entry.cell
            name = (entry.cell.model_at, entry.cell.task, entry.cell.sampler)
            if cell.id in stored or name in names:
                raise LoadError(
                    f"{file} holds cell {printable(cell.id)}, as another file there does; delete"
                    " one of the two"
                )
            stored[cell.id] = entry
            names.add(name)
        return [stored[name] for name in sorted(stored, key=id_order)]

    def remove_torn(self) -> None:
        """Removes the temporary files of a process that was killed while it wrote. Only for the
        run's one writer.
        """
        for folder in (self.path, self.cells_dir, self.path / "questions"):
            for file in folder.glob(f".*{TEMPORARY}"):
                file.unlink(missing_ok=True)

    def assemble(self, cells: Sequence[StoredCell] | None = None) -> tuple[Path, Path]:
        """Assembles results.json and samples.jsonl from cells/, of interrupted runs too, replacing
        both atomically. `cells` are the run's, where they were read before.
        """
        stored = self.read_cells() if cells is None else cells
        results = {
            "schema": SCHEMA,
            "run": self.read_run(),
            "cells": [entry.cell.to_json() for entry in stored],
        }
        lines = [
            dump_json({"cell": entry.cell.id, **sample.to_json()})
            for entry in stored
            for sample in entry.samples
        ]
        return (
            write_json(self.path / "results.json", results),
            write_atomic(self.path / "samples.jsonl", "".join(line + "\n" for line in lines)),
        )


def new_name() -> str:
    """A name for a run directory: date-time and a short random suffix."""
    return f"{datetime.now():%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


def create(root: str | Path = "reports", name: str | None = None) -> RunDir:
    """Creates a new run directory `root/name` (default: `new_name`) and its cells/. Raises
    RunDirError if it exists and is not empty: a run never overwrites an earlier one.
    """
    path = Path(root) / (new_name() if name is None else name)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise RunDirError(
            f"{path} exists and is not empty; choose another name for the run, or resume it"
        )
    (path / "cells").mkdir(parents=True, exist_ok=True)
    return RunDir(path)


def open_run(path: str | Path, *, begun: bool = False) -> RunDir:
    """An existing run directory.

    Args:
        path: The directory.
        begun: Whether one will do whose run was killed before its first cell: with run.json alone,
            or with nothing but the files of its lock.

    Returns:
        The run directory.

    Raises:
        RunDirError: There is none; the message says what is missing.
    """
    run = RunDir(Path(path))
    if not run.path.is_dir():
        raise RunDirError(
            f"{run.path} is not a directory; give a run directory such as"
            " reports/20260102-030405-ab12"
        )
    if run.cells_dir.is_dir() or (run.path / "results.json").exists():
        return run
    if not any((run.path / name).exists() for name in BEGUN):
        raise RunDirError(
            f"{run.path} is not a run directory: it has neither cells/ nor results.json"
        )
    if not begun:
        raise RunDirError(
            f"{run.path} has no finished cell: its run was stopped before the first one; --resume"
            f" {run.path} begins there"
        )
    return run


def cell_file(cell_id: str) -> str:
    """The file name for a cell id: readable, and different for different ids, even on
    case-insensitive file systems.
    """
    digest = hashlib.sha256(cell_id.encode(errors="surrogatepass")).hexdigest()[:10]
    return f"{re.sub(r'[^A-Za-z0-9._+-]+', '_', cell_id)[:120]}-{digest}.json"


def write_atomic(path: Path, text: str) -> Path:
    """Writes `text`; after a crash `path` holds the whole old or the whole new text. Raises OSError
    naming `path`.
    """
    temporary = path.parent / f".{path.name[:60]}-{secrets.token_hex(8)}{TEMPORARY}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Unlike tempfile's, which only their owner can read: results are for others too.
        with temporary.open("x", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
        if os.name == "posix":  # makes the rename durable; Windows can't open directories
            folder = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error
    finally:
        with suppress(OSError):  # there only where writing failed
            temporary.unlink()
    return path


def parse_cell(text: str, where: str) -> StoredCell:
    """Parses a cell file's text. Raises LoadError, which begins with `where`, if it is damaged;
    NewerSchemaError.
    """
    return _cell_of(check.check_schema(check.parse_json(text, where), SCHEMA, where), where)


def _cell_of(data: Mapping[str, Any], where: str) -> StoredCell:
    """The cell in a cell file's mapping. Raises LoadError as `parse_cell` does."""
    cell = CellRecord.from_json(data.get("cell"), where)
    rows = data.get("samples")
    if not isinstance(rows, list):
        raise LoadError(f"{where}: field samples is {shown(rows)}; it should be a list")
    samples = [SampleRecord.from_json(row, f"{where}: samples[{i}]") for i, row in enumerate(rows)]
    return with_samples(cell, samples, where)


def with_samples(cell: CellRecord, samples: Sequence[SampleRecord], where: str) -> StoredCell:
    """The cell with its samples.

    Args:
        cell: its record.
        samples: its answers, in any order.
        where: the file, with which an error begins.

    Raises:
        LoadError: unless an evaluated cell has as many samples as its record says, each once per
            seed, and its aggregates are theirs.
    """
    if cell.status != "ok":
        return StoredCell(cell, tuple(samples))
    places = {sample.place for sample in samples}
    indices = {index for index, _ in places}
    if len(indices) != cell.n_samples or len(places) != len(samples):
        raise LoadError(
            f"{where}: cell {printable(cell.id)}: {counted(len(samples), 'answer')} to"
            f" {counted(len(indices), 'sample')} are there; its record says"
            f" {counted(cell.n_samples, 'sample')}, each answered once per seed"
        )
    from pbcore.results.build import check_aggregates  # imports numpy

    check_aggregates(cell, samples, where)
    return StoredCell(cell, tuple(samples))


@cache
def _facts_as_read() -> type[RunFacts]:
    """RunFacts as pydantic reads it: typing's TypedDict only from Python 3.12 on."""
    import typing_extensions

    typed_dict: Any = typing_extensions.TypedDict
    hints = get_type_hints(RunFacts)
    for name in ("machine", "planned", "commands"):  # what they hold is read where it is needed
        hints[name] = dict[str, Any]
    hints |= {"merged_from": list[dict[str, Any]], "nodes": Any}
    kind: Any = typed_dict("RunFacts", hints, total=False)
    kind.__pydantic_config__ = {**check.STRICT, "extra": "allow"}
    as_read: type[RunFacts] = kind
    return as_read


def run_facts(data: Any, where: str) -> RunFacts:
    """The facts of a run, validated. Raises LoadError naming the field; NewerSchemaError for a
    later schema.
    """
    if isinstance(data, dict) and "schema" in data:
        check.check_schema(data, SCHEMA, where)
    return check.validated(_facts_as_read(), data, where)


def _set_aside(file: Path) -> Path:
    """Renames a damaged file to `<name>.corrupt` (with a number if that exists) and returns the new
    path.
    """
    target = file.with_name(f"{file.name}.corrupt")
    number = 1
    while target.exists():
        number += 1
        target = file.with_name(f"{file.name}.corrupt{number}")
    return file.replace(target)


def write_json(path: Path, data: Any) -> Path:
    """Writes plain values atomically, as `write_atomic` does."""
    return write_atomic(path, dump_json(data, indent=1) + "\n")
