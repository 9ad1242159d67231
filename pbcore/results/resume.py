"""A digest of everything that determines a cell's outcome: a resumed run reuses a finished cell only if its key is the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pbcore.results.plain import plain
from pbcore.results.rundir import StoredCell, open_run

CODE = ("pbcore.decoding", "pbcore.metrics", "pbcore.models", "pbcore.tasks", "pbcore.theory")


def cell_key(
    *,
    model: str,
    model_identity: Mapping[str, Any],
    task: str,
    data_hash: str,
    sampler: str,
    settings: Mapping[str, Any],
    dtype: str,
    seeds: Sequence[int],
    code: str | None = None,
) -> str:
    """A digest over everything that determines a cell's outcome.

    `model_identity` identifies the weights (revision, fingerprint, source); `settings` are the settings of generation and scoring (not the
    batch size, which doesn't change results). `code` defaults to `code_version()`. The key is the same in every process and on every
    machine. Raises TypeError or ValueError for values that are not plain JSON values.

        key = cell_key(model="tiny", model_identity=dict(model.info), task=task.name, data_hash=task.data_hash, sampler="random-k2",
                       settings={"max_new_tokens": 32}, dtype="float32", seeds=[0])
    """
    parts = {
        "model": model,
        "model_identity": model_identity,
        "task": task,
        "data_hash": data_hash,
        "sampler": sampler,
        "settings": settings,
        "dtype": dtype,
        "seeds": list(seeds),
        "code": code_version() if code is None else code,
    }
    return hashlib.sha256(json.dumps(plain(parts, "cell key"), sort_keys=True).encode()).hexdigest()[:32]


@cache
def code_version(packages: tuple[str, ...] = CODE) -> str:
    """A digest of the source files (.py and .yaml) of decoding, metrics, models, tasks and theory, by their path in the package, so that
    it is the same wherever the package is installed. Raises ModuleNotFoundError for an unknown package."""
    roots = {}
    for package in packages:
        spec = find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            raise ModuleNotFoundError(f"no package {package!r}, whose source is part of a cell's key")
        roots[package] = Path(next(iter(spec.submodule_search_locations)))
    return source_digest(roots)


def source_digest(roots: Mapping[str, Path]) -> str:
    """A digest of all .py and .yaml files under each root, by the root's name and their relative path; line endings are normalised."""
    digest = hashlib.sha256()
    for name, root in roots.items():
        for file in sorted(file for pattern in ("*.py", "*.yaml") for file in root.rglob(pattern)):
            digest.update(f"{name}:{file.relative_to(root).as_posix()}\0".encode())
            digest.update(file.read_bytes().replace(b"\r\n", b"\n") + b"\0")
    return digest.hexdigest()[:16]


def finished(
    run_dir: str | Path | Iterable[str | Path], say: Callable[[str], None] | None = None
) -> dict[str, tuple[str, StoredCell]]:
    """id → (key, stored cell) of every cell with status `ok` in a run, or in several runs (later ones win). Failed cells are not
    finished: a resumed run repeats them. Damaged files are left as they are and reported through `say` (default: a warning).

        done = finished("reports/20260102-030405-ab12")
        if cell_id in done and done[cell_id][0] == key: run.write_cell(done[cell_id][1].cell, done[cell_id][1].samples)
    """
    paths = [run_dir] if isinstance(run_dir, (str, Path)) else list(run_dir)
    stored = [entry for path in paths for entry in open_run(path).read_cells(say)]
    return {entry.cell.id: (entry.cell.conditions.key or "", entry) for entry in stored if entry.cell.status == "ok"}
