"""Baselines for gates: the values to compare each cell with, in a file that is committed.

The file is sorted JSON with one line per cell, so that a diff shows which cells changed:

    {"schema": 2, "made_with": {"processor": "…", "threads": "2", "torch": "2.9.1"}, "cells": {
    "ideal/copy/random-k2": {"data_hash": "…", "nfe": "16x100", "scores": {"accuracy": "1111…"}, …},
    …
    }}

Values are in the order of the sample indices: binary scores as a string of 0 and 1, graded ones and
means over seeds as numbers with six decimals, forwards and tokens forwarded (summed over seeds)
and rows, where they aren't the forwards, run-length encoded (`16x100 15x8`: sixteen a hundred
times, then fifteen eight times), and a digest of each answer's text, eight hexadecimal digits.
`made_with` are the versions and the machine of all cells; a cell of other ones has what differs.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import groupby, pairwise
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Len

from pbcore.base.check import (
    LoadError,
    Packed,
    RecordedAmount,
    RecordedCount,
    checked,
    dump_json,
    read_json,
    refuse,
    validated,
)
from pbcore.base.errors import InputError
from pbcore.base.printable import printable, shown
from pbcore.results.environment import Machine
from pbcore.results.load import load_stored
from pbcore.results.record import (
    Conditions,
    SampleRecord,
    by_index,
    question_scores,
)
from pbcore.results.rundir import RunDir, StoredCell, write_atomic
from pbcore.theory.ceiling import Share

SCHEMA = 2  # of baseline files; records have their own
# Values per cell: more than any run has, so a damaged count never fills the memory.
MOST = 1_000_000
_COUNTS = ("nfe", "rows", "tokens_forwarded")  # columns of whole numbers
_RANGE = re.compile(r"0-([0-9]{1,18})")
_RUN = re.compile(r"([0-9]{1,15})(?:x([0-9]{1,18}))?")
_DIGEST = re.compile(r"(?:[0-9a-f]{8})*")
# Packages whose versions may move an answer by rounding.
VERSIONS = ("torch", "transformers", "tokenizers", "numpy")
# Options without whose equality answers and scores can't be compared.
DECIDING = ("max_new_tokens", "official_text", "cot_answer", "bertscore_model")


@dataclass(frozen=True, slots=True)
class BaselineCell:
    """The baseline of one cell.

    `scores`: name → score per index, a mean over `seeds`. `nfe`, `rows` and `tokens_forwarded`:
    forwards, canvases forwarded and positions computed per index, each summed over seeds.
    `texts`: a digest of each index's answers. `model_identity`: what `models.identity` said of the
    model, empty where unknown. `device`: `cpu`, or `cuda` with the GPU's name; empty for a model
    that answers elsewhere. `made_with`: versions of packages, processor and threads. `options`:
    those of `DECIDING` that were given.
    """

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
    nfe: tuple[int, ...]  # empty if the model doesn't report its forwards
    tokens_per_step: float | None
    device: str = ""
    texts: tuple[str, ...] = ()
    made_with: dict[str, str] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)
    rows: tuple[int, ...] = ()  # empty where all are the forwards
    tokens_forwarded: tuple[int, ...] = ()  # empty where not counted
    # the cell, if it comes from a run
    stored: StoredCell | None = field(default=None, compare=False, repr=False)

    @property
    def forwarded(self) -> tuple[int, ...]:
        """The canvases forwarded per index."""
        return self.rows or self.nfe

    @property
    def level(self) -> str:
        """The level of the run's factors, empty without one. A file's row has it in its id alone,
        as does a record from before levels were kept.
        """
        if self.stored is not None and self.stored.cell.conditions.level is not None:
            return self.stored.cell.conditions.level_text
        end = self.id.rpartition("/")[2]
        return end if ":" in end else ""

    @property
    def available(self) -> int | None:
        """How many questions the task's data has; None: no known end, or a cell of a file."""
        return None if self.stored is None else self.stored.cell.n_available

    @property
    def failed(self) -> str | None:
        """Why the cell could not be run; None if it was."""
        if self.stored is None or self.stored.cell.status == "ok":
            return None
        return self.stored.cell.error or "no cause recorded"

    def by_sample(self, name: str) -> dict[int, float]:
        """A score by the sample's index."""
        return dict(zip(self.indices, self.scores[name], strict=True))


def baseline_cell(stored: StoredCell, machine: Machine | None = None) -> BaselineCell:
    """A finished cell as a baseline row. Scores missing in any sample are left out. `machine` is
    that of the run's facts.
    """
    cell = stored.cell
    answers = by_index(stored.samples)
    conditions = cell.conditions
    counted = _counted_answers(answers)
    nfe = tuple(sum(answer.nfe or 0 for answer in group) for group in counted)
    rows = tuple(sum(answer.rows or answer.nfe or 0 for answer in group) for group in counted)
    tokens: tuple[int, ...] = ()
    if all(answer.tokens_forwarded is not None for answer in stored.samples):
        tokens = tuple(sum(answer.tokens_forwarded or 0 for answer in group) for group in counted)
    return BaselineCell(
        id=cell.id,
        model=cell.model,
        task=cell.task,
        sampler=cell.sampler,
        length=cell.length,
        headline=cell.headline,
        seeds=tuple(conditions.seeds),
        dtype=conditions.dtype or "",
        data_hash=conditions.data_hash or "",
        model_identity=conditions.model_identity or {},
        indices=tuple(answers),
        scores=_score_means(stored),
        nfe=nfe,
        rows=() if rows == nfe else rows,
        tokens_forwarded=tokens,
        tokens_per_step=None if cell.tokens_per_step is None else round(cell.tokens_per_step, 6),
        device=_device_kind(conditions.device, machine or {}),
        texts=tuple(_text_digest(group) for group in answers.values()),
        made_with=_made_with(conditions, machine or {}),
        options={
            name: str(conditions.options[name])
            for name in DECIDING
            if conditions.options.get(name) not in (None, False, "marked")
        },
        stored=stored,
    )


def _device_kind(device: str | None, machine: Machine) -> str:
    """`cpu`, `cuda (NVIDIA H100)`; empty where unknown."""
    gpus = machine.get("gpus") or []
    if device == "cuda" and gpus:
        return f"cuda ({gpus[0]})"
    return device or ""


def _text_digest(answers: Sequence[SampleRecord]) -> str:
    """A digest of the texts of one index, in the order of their seeds."""
    text = "\0".join(answer.text for answer in answers)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:8]


def _made_with(conditions: Conditions, machine: Machine) -> dict[str, str]:
    """Versions and machine of a cell, as far as they are known."""
    facts: dict[str, Any] = {name: conditions.versions.get(name) for name in VERSIONS}
    facts["processor"] = machine.get("processor")
    facts["threads"] = conditions.threads
    return {name: str(value) for name, value in sorted(facts.items()) if value}


def _counted_answers(answers: Mapping[int, list[SampleRecord]]) -> list[list[SampleRecord]]:
    """Per index the answers whose forwards are known; empty if an index has none, as of a model
    that doesn't report them.
    """
    counted: list[list[SampleRecord]] = []
    for group in answers.values():
        with_forwards = [answer for answer in group if answer.nfe is not None]
        if not with_forwards:
            return []
        counted.append(with_forwards)
    return counted


def _score_means(stored: StoredCell) -> dict[str, tuple[float, ...]]:
    """Name → mean over seeds per index, of the cell's scores that every answer has."""
    means: dict[str, tuple[float, ...]] = {}
    for name in sorted(stored.cell.scores):
        if all(name in sample.scores for sample in stored.samples):
            exact = question_scores(stored.samples, name)
            means[name] = tuple(round(mean, 6) for mean in exact.values())
    return means


def rows_by_id(
    cells: Sequence[StoredCell] | Mapping[str, BaselineCell],
    machine: Machine | None = None,
) -> Mapping[str, BaselineCell]:
    """id → row of cells, failed ones too, of a run on this `machine` (of its facts); rows as they
    are.
    """
    if isinstance(cells, Mapping):
        return cells
    return {entry.cell.id: baseline_cell(entry, machine) for entry in cells}


def write_baseline(
    path: str | Path, cells: Iterable[StoredCell], machine: Machine | None = None
) -> Path:
    """Writes a baseline file atomically: a writer that is killed leaves the earlier file.

    Args:
        path: the file.
        cells: a run's.
        machine: that of the run's facts.

    Raises:
        InputError: if a cell failed or none is given: cells that the baseline lacks would pass in
            later runs without being judged.
    """
    entries = sorted(cells, key=lambda entry: entry.cell.id)
    failed = [entry.cell.id for entry in entries if entry.cell.status != "ok"]
    if failed:
        raise InputError(f"no baseline written: cells failed: {failed[:5]}")
    if not entries:
        raise InputError("no baseline written: the run has no cells")
    rows = [baseline_cell(entry, machine) for entry in entries]
    common = set(rows[0].made_with.items())
    for cell in rows:
        common &= cell.made_with.items()
    shared = dict(sorted(common))
    lines = []
    for cell in rows:
        row = _packed(cell, shared)
        lines.append(f"{json.dumps(cell.id)}: {dump_json(dict(sorted(row.items())))}")
    head = f'{{"schema": {SCHEMA}, "made_with": {dump_json(shared)}, "cells": {{\n'
    return write_atomic(Path(path), head + ",\n".join(lines) + "\n}}\n")


def read_baseline(path: str | Path) -> dict[str, BaselineCell]:
    """id → row, from a baseline file or a run directory. Raises LoadError, which names the file, if
    it is missing, empty, damaged or of another schema, and for a run without a finished cell; the
    errors of `load_stored`.
    """
    source = Path(path)
    if source.is_dir():
        machine = RunDir(source).read_run().get("machine")
        return run_rows(load_stored(source, refuse), source, machine)
    if not source.exists():
        raise LoadError(
            f"no baseline at {source}; give a run directory or a file written by --update-baseline"
        )
    try:
        data = read_json(source)
    except LoadError as error:
        raise LoadError(f"{error}; give a baseline written by --update-baseline") from error
    if not isinstance(data, dict) or not {"schema", "cells"} <= data.keys():
        wrong = "is not a baseline file (it has no fields schema and cells)"
    elif type(data["schema"]) is not int or data["schema"] != SCHEMA:
        wrong = f"has schema {shown(data['schema'])}, this version reads {SCHEMA}"
    elif not _is_texts(data.get("made_with", {})):
        wrong = f"has {shown(data['made_with'])} as made_with, which should be a mapping of texts"
    elif not isinstance(data["cells"], dict) or not data["cells"]:
        wrong = (
            f"has {shown(data['cells'])} as cells, which should be a mapping from ids to rows, at"
            " least one"
        )
    else:
        rows = data["cells"].items()
        common = data.get("made_with", {})
        return {
            name: _read_row(f"{source}: cell {printable(name)}", name, row, common)
            for name, row in rows
        }
    raise LoadError(f"{source} {wrong}; make it again with --update-baseline")


def _is_texts(value: Any) -> bool:
    """Whether a JSON value is a mapping from texts to texts."""
    return isinstance(value, dict) and all(isinstance(text, str) for text in value.values())


def _read_row(where: str, cell_id: str, packed: Any, common: Mapping[str, str]) -> BaselineCell:
    row = validated(_PackedRow, packed, where)
    cell = BaselineCell(
        id=cell_id,
        model=row.model,
        task=row.task,
        sampler=row.sampler,
        seeds=row.seeds,
        dtype=row.dtype,
        data_hash=row.data_hash,
        length=row.length,
        headline=row.headline,
        model_identity=row.model_identity,
        indices=row.indices,
        scores=row.scores,
        nfe=row.nfe,
        tokens_per_step=row.tokens_per_step,
        device=row.device,
        texts=row.texts,
        made_with=dict(sorted({**common, **row.made_with}.items())),
        options=row.options,
        rows=row.rows,
        tokens_forwarded=row.tokens_forwarded,
    )
    lengths = {name: len(values) for name, values in cell.scores.items()}
    counts = {
        "nfe": cell.nfe,
        "rows": cell.rows,
        "tokens_forwarded": cell.tokens_forwarded,
        "texts": cell.texts,
    }
    lengths |= {name: len(values) for name, values in counts.items() if values}
    differing = [
        printable(name, 40) for name, length in lengths.items() if length != len(cell.indices)
    ]
    if differing:
        raise LoadError(
            f"{where} has {len(cell.indices)} indices but other counts for {differing[:5]}"
        )
    return cell


def run_rows(
    stored: Iterable[StoredCell], source: Path, machine: Machine | None = None
) -> dict[str, BaselineCell]:
    """id → row of the finished cells of a run.

    Args:
        stored: its cells.
        source: where they were read from.
        machine: that of the run's facts.

    Raises:
        LoadError: if it has none.
    """
    cells = {
        entry.cell.id: baseline_cell(entry, machine)
        for entry in stored
        if entry.cell.status == "ok" and entry.samples
    }
    if not cells:
        raise LoadError(
            f"{source} has no finished cell with samples; give a finished run (results.json alone"
            " has no samples)"
        )
    return cells


def pack_runs(values: Sequence[int]) -> str:
    """`[16, 16, 15]` → `16x2 15`."""
    runs = ((value, len(list(group))) for value, group in groupby(values))
    return " ".join(f"{value}x{count}" if count > 1 else str(value) for value, count in runs)


def unpack_runs(text: str) -> tuple[int, ...]:
    """The inverse of `pack_runs`. Raises ValueError for other text, and for more than `MOST`
    values.
    """
    values: list[int] = []
    if not text:
        return ()
    for word in text.split(" "):
        run = _RUN.fullmatch(word)
        if run is None:
            raise ValueError(f"{shown(word)} is not a number or a run such as 16x100")
        count = int(run[2] or 1)
        if len(values) + count > MOST:
            raise ValueError(f"{shown(word)} makes it longer than {MOST:,} values")
        values += [int(run[1])] * count
    return tuple(values)


def _packed(cell: BaselineCell, common: Mapping[str, str]) -> dict[str, Any]:
    """A row as the file has it; what is empty in most is left out, and what is `common` to all."""
    row = {f.name: getattr(cell, f.name) for f in fields(cell) if f.name not in ("id", "stored")}
    if cell.indices and cell.indices == tuple(range(len(cell.indices))):
        row["indices"] = f"0-{len(cell.indices) - 1}"
    for name in _COUNTS:
        row[name] = pack_runs(getattr(cell, name))
    row["scores"] = {name: _pack_scores(values) for name, values in cell.scores.items()}
    row["texts"] = "".join(cell.texts)
    row["made_with"] = {
        name: value for name, value in cell.made_with.items() if common.get(name) != value
    }
    for name in ("rows", "tokens_forwarded", "made_with", "options"):
        if not row[name]:
            del row[name]
    return row


def _pack_scores(values: tuple[float, ...]) -> str | tuple[float, ...]:
    """Binary scores as a string of 0 and 1, others as they are."""
    if set(values) <= {0, 1}:
        return "".join(str(int(value)) for value in values)
    return values


def _unpack_indices(packed: str | list[int]) -> tuple[int, ...]:
    if isinstance(packed, str):
        match = _RANGE.fullmatch(packed)
        if match is None or int(match[1]) >= MOST:
            raise ValueError(f"it should be a range such as 0-99, below {MOST:,}")
        return tuple(range(int(match[1]) + 1))
    if (
        not packed
        or len(packed) > MOST
        or any(first >= second for first, second in pairwise(packed))
    ):
        raise ValueError(f"it should be 1 to {MOST:,} ascending numbers")
    return tuple(packed)


def _unpack_scores(packed: str | list[float]) -> tuple[float, ...]:
    if isinstance(packed, str) and packed.strip("01"):
        raise ValueError("it should be zeros and ones, or numbers from 0 to 1")
    return tuple(map(float, packed))


def _unpack_texts(packed: str) -> tuple[str, ...]:
    if _DIGEST.fullmatch(packed) is None:
        raise ValueError("it should be eight hexadecimal digits an answer")
    return tuple(packed[place : place + 8] for place in range(0, len(packed), 8))


_Runs = Annotated[tuple[int, ...], Packed(str, unpack_runs)]


@checked
@dataclass(frozen=True, slots=True)
class _PackedRow:
    """A row as `_packed` writes it, without the cell's id, which is its key; its columns are
    unpacked as they are read.
    """

    model: str
    task: str
    sampler: str
    seeds: Annotated[tuple[int, ...], Packed(Annotated[list[int], Len(1)], tuple)]
    dtype: str
    data_hash: str
    length: str
    headline: str
    model_identity: dict[str, str]
    indices: Annotated[tuple[int, ...], Packed(str | list[RecordedCount], _unpack_indices)]
    scores: dict[str, Annotated[tuple[float, ...], Packed(str | list[Share], _unpack_scores)]]
    nfe: _Runs
    tokens_per_step: RecordedAmount | None
    device: str
    texts: Annotated[tuple[str, ...], Packed(str, _unpack_texts)]
    made_with: dict[str, str] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)
    rows: _Runs = ()
    tokens_forwarded: _Runs = ()
