"""What a cell's outcome depends on: its key, a digest of all that determines it, by which resumed
runs find cells that they can reuse.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from pbcore.base.check import plain
from pbcore.base.extensions import points
from pbcore.base.source import source_digest, source_of
from pbcore.names import SamplerName
from pbcore.results.rundir import StoredCell, open_run

CODE = (
    "pbcore.ceilings",
    "pbcore.costs",
    "pbcore.decoding",
    "pbcore.metrics",
    "pbcore.models",
    "pbcore.tasks",
    "pbcore.theory",
    *(point.value for point in points("pbcore.code")),
)


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
    task_identity: str = "",
    own_code: Mapping[str, str] | None = None,
) -> str:
    """A digest over everything that determines a cell's outcome, the same in every process and on
    every machine.

    Args:
        model: the model's name.
        model_identity: `models.identity` of it, and how it was loaded.
        task: the task's full name.
        data_hash: the digest of its samples.
        sampler: the sampler's canonical name.
        settings: those of generation and scoring; not the batch size, which doesn't change results.
        dtype: what the model computes in.
        seeds: the decodings' seeds.
        code: the digest of the package's code (default: `code_version()`).
        own_code: the digests of the user's code, as of `user_code`.

    Returns:
        32 hexadecimal digits.

    Raises:
        TypeError: for a value that is not plain.
        ValueError: for a number that is not finite.
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
        "task_identity": task_identity,
        "own_code": dict(own_code or {}),
    }
    text = json.dumps(plain(parts, "cell key"), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def user_code(model_name: str, model: object, sampler: SamplerName) -> dict[str, str]:
    """The digests of a cell's user-registered code (`pbcore.base.source.source_of`).

    Args:
        model_name: the name that the model is registered under.
        model: the loaded model.
        sampler: its name.

    Returns:
        Digests of the policy, the rule of its blocks if it is registered, the model's factory and
        its class; each is empty for pbcore's own, which `code_version` covers.
    """
    from pbcore.decoding.samplers import sampler_code
    from pbcore.models.registry import FACTORIES

    return {
        **sampler_code(sampler),
        "factory": source_of(FACTORIES.all().get(model_name)),
        "model": source_of(type(model)),
    }


@cache
def code_version(packages: tuple[str, ...] = CODE) -> str:
    """A digest of the source files (.py and .yaml) of what decides answers, the same wherever
    pbcore is installed. Raises ModuleNotFoundError for a package that isn't there: its source would
    be left out unseen.
    """
    home = Path(__file__).parents[2]
    roots = {package: home.joinpath(*package.split(".")) for package in packages}
    for package, root in roots.items():
        if not root.is_dir():
            raise ModuleNotFoundError(
                f"no package {package!r}, whose source is part of a cell's key"
            )
    return source_digest(roots)


def finished(
    run_dir: str | Path, say: Callable[[str], None] | None = None, *, set_aside: bool = False
) -> dict[str, tuple[str, StoredCell]]:
    """id → (key, stored cell) of every cell of a run with status `ok`; a resumed run repeats the
    others. `say` and `set_aside` as of `RunDir.read_cells`.
    """
    run = open_run(run_dir, begun=True)
    cells = run.read_cells(say, set_aside=set_aside)
    stored = [entry for entry in cells if entry.cell.status == "ok"]
    return {entry.cell.id: (entry.cell.conditions.key or "", entry) for entry in stored}


def changed_settings(earlier: Mapping[str, Any], settings: Mapping[str, Any]) -> list[str]:
    """`limit was 8, is 20` for each setting of an earlier run (its run.json) that differs from
    these, plain values by name; none for a run that was killed before it wrote them.
    """
    recorded = earlier.get("settings")
    if recorded is None:
        return []
    changes: list[str] = []
    for name in sorted(recorded.keys() | settings.keys()):
        before = _shown(recorded.get(name))
        now = _shown(settings.get(name))
        if before != now:
            changes.append(f"{name.replace('_', '-')} was {before}, is {now}")
    return changes


def _shown(value: Any) -> str:
    """A setting as text; 0 is a value, unlike False."""
    if value is None or value is False or value in ([], (), ""):
        return "not given"
    return str(value)
