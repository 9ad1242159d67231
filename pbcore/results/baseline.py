"""Baselines for gates: the values to compare each cell with, in a file that is committed.

The file is sorted JSON with one line per cell, so that a diff shows which cells changed:

    {"schema": 1, "cells": {
    "ideal/copy/random-k2": {"data_hash": "…", "nfe": "16x100", "scores": {"accuracy": "1111…"}, …},
    …
    }}

Values are in the order of the sample indices: binary scores as a string of 0 and 1, graded ones and means over seeds as numbers
with four decimals, forwards (summed over seeds) run-length encoded (`16x100 15x8`: sixteen a hundred times, then fifteen eight times).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import Any

from pbcore.errors import InputError
from pbcore.results.record import by_index
from pbcore.results.rundir import RunDirError, StoredCell, open_run, write_atomic

SCHEMA = 1  # of baseline files; records have their own
IDENTITY = ("revision", "fingerprint", "digest", "sha256", "source", "family")


class BaselineError(InputError):
    """A baseline can't be read or written."""


@dataclass(frozen=True, slots=True)
class BaselineCell:
    """The baseline of one cell. `scores`: name → score per index, a mean over `seeds`; `nfe`: forwards per index, summed over seeds; both
    in the order of `indices`. `official_text`: the scores include text after the first EOS."""

    id: str
    model: str
    task: str
    sampler: str
    seeds: tuple[int, ...]
    dtype: str
    data_hash: str
    length: str
    headline: str
    model_identity: dict[str, str]
    indices: tuple[int, ...]
    scores: dict[str, tuple[float, ...]]
    nfe: tuple[int, ...]
    tokens_per_step: float
    official_text: bool = False


def baseline_cell(stored: StoredCell) -> BaselineCell:
    """A finished cell as a baseline row. Scores missing in any sample are left out."""
    cell, answers = stored.cell, by_index(stored.samples)
    conditions, info = cell.conditions, cell.conditions.model_info or {}
    names = [name for name in sorted(cell.scores) if all(name in sample.scores for sample in stored.samples)]
    return BaselineCell(
        id=cell.id,
        model=cell.model,
        task=cell.task,
        sampler=cell.sampler,
        seeds=tuple(conditions.seeds),
        dtype=conditions.dtype or "",
        data_hash=conditions.data_hash or "",
        length=cell.length,
        headline=cell.headline,
        model_identity={name: str(info[name]) for name in IDENTITY if info.get(name) is not None},
        indices=tuple(answers),
        scores={
            name: tuple(round(fmean(one.scores[name] for one in same), 4) for same in answers.values())
            for name in names
        },
        nfe=tuple(sum(one.nfe for one in same) for same in answers.values()),
        tokens_per_step=round(cell.tokens_per_step, 6),
        official_text=bool(conditions.options.get("official_text")),
    )


def write_baseline(path: str | Path, cells: Iterable[StoredCell]) -> Path:
    """Writes a baseline file atomically. Raises BaselineError if a cell failed or none is given: cells missing from the baseline would
    pass in later runs without being judged."""
    entries = sorted(cells, key=lambda entry: entry.cell.id)
    failed = [entry.cell.id for entry in entries if entry.cell.status != "ok"]
    if failed or not entries:
        raise BaselineError(
            f"no baseline written: {f'cells failed: {failed[:5]}' if failed else 'the run has no cells'}"
        )
    lines = [
        f"{json.dumps(e.cell.id)}: {json.dumps(_packed(baseline_cell(e)), sort_keys=True, ensure_ascii=False)}"
        for e in entries
    ]
    return write_atomic(Path(path), f'{{"schema": {SCHEMA}, "cells": {{\n' + ",\n".join(lines) + "\n}}\n")


def read_baseline(path: str | Path) -> dict[str, BaselineCell]:
    """id → row, from a baseline file or a run directory. Raises BaselineError for a missing file, another schema, or damaged lines."""
    source = Path(path)
    if source.is_dir():
        try:
            stored = open_run(source).read_cells()
        except RunDirError as error:
            raise BaselineError(str(error)) from error
        cells = {entry.cell.id: baseline_cell(entry) for entry in stored if entry.cell.status == "ok"}
        if not cells:
            raise BaselineError(
                f"{source} has no finished cell in cells/; give a finished run (results.json alone has no samples)"
            )
        return cells
    if not source.exists():
        raise BaselineError(f"no baseline at {source}; give a run directory or a file written by --update-baseline")
    try:
        data = json.loads(source.read_text(encoding="utf-8"))
        schema, rows = data["schema"], data["cells"]
    except (ValueError, KeyError, TypeError) as error:
        raise BaselineError(
            f"{source} is not a baseline file ({type(error).__name__}: {error}); give one written by --update-baseline"
        ) from error
    if schema != SCHEMA:
        raise BaselineError(
            f"{source} has schema {schema!r}, this version reads {SCHEMA}; rewrite it with --update-baseline"
        )
    return {name: _unpacked(source, name, row) for name, row in rows.items()}


def pack_runs(values: Sequence[int]) -> str:
    """`[16, 16, 15]` → `16x2 15`."""
    runs = ((value, len(list(group))) for value, group in groupby(values))
    return " ".join(f"{value}x{count}" if count > 1 else str(value) for value, count in runs)


def unpack_runs(text: str) -> tuple[int, ...]:
    """The inverse of `pack_runs`. Raises ValueError for other text."""
    values: list[int] = []
    for part in text.split():
        value, _, count = part.partition("x")
        values += [int(value)] * (int(count) if count else 1)
    return tuple(values)


def _packed(cell: BaselineCell) -> dict[str, Any]:
    row = {name: value for name, value in asdict(cell).items() if name != "id"}
    if not cell.official_text:
        del row["official_text"]
    consecutive = cell.indices == tuple(range(len(cell.indices)))
    row["indices"] = f"0-{len(cell.indices) - 1}" if consecutive and cell.indices else list(cell.indices)
    row["nfe"] = pack_runs(cell.nfe)
    row["scores"] = {name: _pack_scores(values) for name, values in cell.scores.items()}
    return row


def _unpacked(source: Path, name: str, row: Mapping[str, Any]) -> BaselineCell:
    try:
        values = dict(row)
        indices, scores = values["indices"], values["scores"]
        values["indices"] = (
            tuple(range(int(indices.partition("-")[2]) + 1)) if isinstance(indices, str) else tuple(indices)
        )
        values["nfe"], values["seeds"] = unpack_runs(values["nfe"]), tuple(values["seeds"])
        values["scores"] = {key: tuple(map(float, value)) for key, value in scores.items()}
        cell = BaselineCell(id=name, **values)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        allowed = [entry.name for entry in fields(BaselineCell)]
        raise BaselineError(
            f"{source}: the line of {name} is damaged ({type(error).__name__}: {error}); it needs {allowed}"
        ) from error
    counts = {key: len(column) for key, column in (*cell.scores.items(), ("nfe", cell.nfe))}
    differing = [key for key, count in counts.items() if count != len(cell.indices)]
    if differing:
        raise BaselineError(
            f"{source}: the line of {name} has {len(cell.indices)} indices but other counts for {differing}"
        )
    return cell


def _pack_scores(values: Sequence[float]) -> str | list[float]:
    if all(value in (0, 1) for value in values):
        return "".join(str(int(value)) for value in values)
    return list(values)
