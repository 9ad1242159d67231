"""Damaged files of every kind: each reader refuses them in one line that names the file."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from pbcore.base.check import refuse
from pbcore.base.errors import InputError
from pbcore.costs.measured import Measurement, read_measurement
from pbcore.decoding import resolve
from pbcore.extras.tune.state import TuningRequest, TuningState, read_state
from pbcore.report.junit import write_junit
from pbcore.results import RunDir, create, load, properties
from pbcore.results.baseline import read_baseline, write_baseline
from pbcore.results.load import load_stored
from tests.results import factory

TUNING = TuningState(
    request=TuningRequest("ideal", ["eb-0.1"], 3.0, "calls", None, None, ["--task", "copy"]),
    reference="confidence-k1",
    candidates=["eb-0.1"],
    tasks=["waiting_line/copy"],
    left_out={},
    tokens=32.0,
    sizes=[],
    need=[958, 1742],
    known={"waiting_line/copy": None},
    row_seconds=0.01,
    axis="calls",
    axis_words="calls",
)


def run_of(folder: Path) -> RunDir:
    return factory.write(create(folder, "run"), [factory.cell(n=2)])


def cell_file(folder: Path) -> Path:
    (file,) = run_of(folder).cells_dir.iterdir()
    return file


def samples_file(folder: Path) -> Path:
    """Beside a results.json, as a run that was copied without cells/."""
    run = run_of(folder)
    _, file = run.assemble()
    for cell in run.cells_dir.iterdir():
        cell.unlink()
    return file


def benchmark_file(folder: Path) -> Path:
    facts = {"benchmarks": [{"extra_info": dict(properties(factory.cell()[0]))}]}
    return written(folder / "b.json", json.dumps(facts))


def published_file(folder: Path) -> Path:
    lines = "model,method,param,task,score\na__b,topk_margin,k2,waiting_line_copy,90\n"
    return written(folder / "t.csv", lines)


def written(file: Path, text: str) -> Path:
    file.write_text(text)
    return file


MADE: dict[str, Callable[[Path], Path]] = {
    "cell": cell_file,
    "results": lambda folder: run_of(folder).assemble()[0],
    "samples": samples_file,
    "run.json": lambda folder: run_of(folder).path / "run.json",
    "baseline": lambda folder: write_baseline(folder / "b.json", run_of(folder).read_cells()),
    "tuning": lambda folder: written(
        folder / "tune.json", json.dumps({"schema": 1, **asdict(TUNING)})
    ),
    "prices": lambda folder: written(
        folder / "p.json", Measurement("tiny", "float32", None, {}).text()
    ),
    "benchmark": benchmark_file,
    "junit": lambda folder: write_junit([factory.cell()[0]], folder / "j.xml"),
    "published": published_file,
}
READ: dict[str, Callable[[Path], Any]] = {
    "cell": lambda file: RunDir(file.parent.parent).read_cells(refuse),
    "results": load,
    "samples": lambda file: load_stored(file.parent),
    "run.json": lambda file: RunDir(file.parent).read_run(),
    "baseline": read_baseline,
    "tuning": lambda file: read_state(file.parent),
    "prices": lambda path: read_measurement(path, resolve),
    "benchmark": load,
    "junit": load,
    "published": load,
}
# A field of each JSON file.
FIELD = {
    "cell": "n_samples",
    "results": "task",
    "samples": "nfe",
    "run.json": "seeds",
    "baseline": "seeds",
    "tuning": "tokens",
    "prices": "timings",
}
BYTES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "cut": lambda data: data[: len(data) * 2 // 3],
    "not UTF-8": lambda data: data[:40] + b"\xff" + data[40:],
    "noise": lambda data: b"\x00\x01" + data,
    "another value": lambda data: b"[3]",
    "other fields": lambda data: b'{"a": 1}',
    "nested": lambda data: b"[" * 10**5,
}
FIELDS: dict[str, Callable[[dict[str, Any], str], Any]] = {
    "NaN": lambda holder, name: holder.update({name: math.nan}),
    "type": lambda holder, name: holder.update({name: {"a": 1}}),
    "missing": lambda holder, name: holder.pop(name),
    "unknown": lambda holder, name: holder.update(x=1),
    "twice": lambda holder, name: holder.update({TWICE: 1}),
}
TWICE = "?"  # a key that becomes the field's


def holder_of(value: Any, name: str) -> dict[str, Any] | None:
    """The first mapping within a JSON value that has this field."""
    if isinstance(value, dict) and name in value:
        return value
    parts = list(value.values()) if isinstance(value, dict) else value
    if not isinstance(parts, list):
        return None
    return next(filter(None, (holder_of(part, name) for part in parts)), None)


def refused(kind: str, file: Path) -> None:
    with pytest.raises(InputError) as caught:
        READ[kind](file)
    line = str(caught.value)
    assert file.name in line
    assert "\n" not in line
    assert len(line) < 1000


# run.json holds whatever facts there are; a table without its last rows, and a price list of a
# version that knew more, are read as they stand.
ALLOWED = {
    ("run.json", "other fields"),
    ("run.json", "missing"),
    ("run.json", "unknown"),
    ("published", "cut"),
    ("prices", "unknown"),
}


def damaged(kinds: Iterable[str], damages: Iterable[str]) -> Any:
    """Every kind of file with every damage that its reader must notice."""
    pairs = [pair for pair in product(kinds, damages) if pair not in ALLOWED]
    return pytest.mark.parametrize(("kind", "damage"), pairs)


@pytest.mark.parametrize("kind", MADE)
def test_whole(tmp_path: Path, kind: str) -> None:
    READ[kind](MADE[kind](tmp_path))


@pytest.mark.filterwarnings("ignore")
@damaged(MADE, BYTES)
def test_bytes(tmp_path: Path, kind: str, damage: str) -> None:
    file = MADE[kind](tmp_path)
    file.write_bytes(BYTES[damage](file.read_bytes()))
    refused(kind, file)


@pytest.mark.filterwarnings("ignore")
@damaged(FIELD, FIELDS)
def test_a_field(tmp_path: Path, kind: str, damage: str) -> None:
    file = MADE[kind](tmp_path)
    text = file.read_text()
    rows = text.splitlines() if kind == "samples" else [text]
    value = json.loads(rows[0])
    holder = holder_of(value, FIELD[kind])
    assert holder is not None
    FIELDS[damage](holder, FIELD[kind])
    rows[0] = json.dumps(value).replace(f'"{TWICE}"', f'"{FIELD[kind]}"')
    file.write_text("\n".join(rows))
    refused(kind, file)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("results", '{"schema": 1, "cells": 3}'),
        ("results", '{"schema": 1, "cells": [{"id": "a"}]}'),
        ("results", '{"schema": 3, "cells": []}'),
        ("benchmark", '{"benchmarks": []}'),
        ("benchmark", '{"benchmarks": [3]}'),
        ("benchmark", '{"benchmarks": [{"extra_info": {"pbcore_record": ""}}]}'),
        ("benchmark", '{"benchmarks": [{"extra_info": {"pbcore_record": "?eJx"}}]}'),
        ("junit", "<a/>"),
        ("run.json", "[]"),
        ("run.json", "\ufeff{}"),
        ("run.json", '{"schema": "2"}'),
        ("run.json", '{"command": 3}'),
        ("run.json", '{"machine": []}'),
        ("baseline", '{"schema": 9, "cells": {}}'),
        ("baseline", '{"schema": 2, "cells": {}}'),
        ("baseline", '{"schema": 2, "cells": []}'),
        ("baseline", '{"schema": 2, "cells": {"a": {"nfe": "1"}}}'),
        ("baseline", '{"schema": 2, "made_with": {"torch": 2}, "cells": {"a": {}}}'),
        ("baseline", '{"schema": 1, "cells": {"a": 1}}'),
        ("baseline", '{"schema": true, "cells": {"a": 1}}'),
    ],
)
def test_another_text(tmp_path: Path, kind: str, text: str) -> None:
    """Valid JSON or XML that is none of ours."""
    file = MADE[kind](tmp_path)
    file.write_text(text, encoding="utf-8")
    refused(kind, file)
