"""The declared models behind servers: those of servers.yaml and of a user's `--models FILE`.

Doesn't import torch or an SDK.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import fields, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pbcore.errors import InputError
from pbcore.integrations.servers.check_spec import check_tasks, check_url, check_values
from pbcore.integrations.servers.declaration import Prices, ServerSpec
from pbcore.integrations.servers.kinds import KINDS
from pbcore.integrations.servers.sampler_fields import why_not
from pbcore.links import docs
from pbcore.names import SamplerName, parse
from pbcore.printable import printable, shown
from pbcore.tasks.files import read_text, read_yaml

if TYPE_CHECKING:
    from pydantic import TypeAdapter

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


KEYS = tuple(f.name for f in fields(ServerSpec) if f.name != "name")
_ADDED: dict[str, ServerSpec] = {}
_FILES: dict[str, Path] = {}


def server_specs() -> dict[str, ServerSpec]:
    """All declared models behind servers: those of the package, then those of `--models`."""
    return {**_built_in()[1], **_ADDED}


def add_models_file(path: str | Path, taken: Mapping[str, Any] | None = None) -> list[str]:
    """Adds the models of a user's YAML file and returns their names; docs/servers.md shows an example.

    An entry under a predeclared name (`mercury`, `claude-haiku`) changes the keys that it gives. Adding a file again
    reads it again. Raises InputError that names file, model, key and what is allowed; FileNotFoundError for a missing
    file. `taken` are names of other models.
    """
    file = Path(path)
    if not file.is_file():
        raise FileNotFoundError(
            f"no models file {file}; give a YAML file with one entry per model ({docs('servers.md')})"
        )
    read = read_specs(read_text(file), str(file))
    check_tasks(read, file)
    for name in read:
        if name in (taken or {}):
            raise InputError(f"{file}: a model named {name!r} exists already; choose another name")
        if _FILES.get(name, file.resolve()) != file.resolve():
            raise InputError(f"{file}: a model named {name!r} exists already in {_FILES[name]}; choose another name")
    _ADDED.update(read)
    _FILES.update(dict.fromkeys(read, file.resolve()))
    return list(read)


def read_specs(text: str, where: str) -> dict[str, ServerSpec]:
    """The models of a YAML text; `where` names it in errors. Raises InputError."""
    declared = _built_in()[0]
    return {
        name: _spec(name, {**declared.get(name, {}), **entry}, f"{where}, model {printable(name)}")
        for name, entry in _entries(text, where).items()
    }


@cache
def _built_in() -> tuple[dict[str, dict[str, Any]], dict[str, ServerSpec]]:
    """The package's own entries, as written and as read."""
    text = files("pbcore.integrations.servers").joinpath("servers.yaml").read_text(encoding="utf-8")
    entries = _entries(text, "servers.yaml")
    return entries, {name: _spec(name, entry, f"servers.yaml, model {name}") for name, entry in entries.items()}


def _entries(text: str, where: str) -> dict[str, dict[str, Any]]:
    loaded = read_yaml(text, where)
    if not isinstance(loaded, dict) or not loaded:
        raise InputError(f"{where}: give one entry per model, `name:` with its keys below it")
    for name, entry in loaded.items():
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise InputError(f"{where}: model name {shown(name)}: use letters, digits, '_', '-' and '.'")
        if not isinstance(entry, dict):
            raise InputError(f"{where}, model {name}: give the keys of the model, such as base_url and model")
    return loaded


def _spec(name: str, entry: Mapping[str, Any], where: str) -> ServerSpec:
    """One entry, checked."""
    unknown = sorted(printable(str(key)) for key in entry if key not in KEYS)
    if unknown:
        raise InputError(f"{where}: unknown key {', '.join(unknown)}; the keys are {', '.join(KEYS)}")
    kind = entry.get("kind", "openai")
    if not isinstance(kind, str) or kind not in KINDS:
        raise InputError(f"{where}: kind {shown(kind)}; give one of {', '.join(KINDS)}")
    default = {"base_url": KINDS[kind].base_url} if KINDS[kind].base_url else {}
    spec = _validated({"name": name, **default, **entry}, where)
    check_url(spec.base_url, where)
    check_values(spec, where)
    return ServerSpec(**{**vars(spec), "sampler": _sampler(spec, where), "base_url": spec.base_url.rstrip("/")})


@cache
def _adapter() -> TypeAdapter[ServerSpec]:
    from pydantic import TypeAdapter

    return TypeAdapter(ServerSpec)


def _validated(entry: Mapping[str, Any], where: str) -> ServerSpec:
    from pydantic import ValidationError

    try:
        text = json.dumps(entry, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InputError(f"{where}: {error}; give texts, numbers, true or false, lists and mappings") from None
    try:
        return _adapter().validate_json(text)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
    place = printable(".".join(map(str, problem["loc"])), 120)
    if problem["type"] in ("missing", "missing_argument"):
        raise InputError(f"{where}: missing {place}")
    if problem["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        raise InputError(f"{where}: unknown key {place}")
    allowed = problem["msg"].replace("Input should be", "it should be")
    given = "" if place == "key" else f" {shown(problem['input'])}"  # a key itself, pasted there, is not shown
    raise InputError(f"{where}: {place}{given}; {allowed}")


def _sampler(spec: ServerSpec, where: str) -> str:
    try:
        name = parse(spec.sampler)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    reason = why_not(spec.sampler_fields, name) if spec.sampler_fields else None
    if reason is not None:
        raise InputError(f"{where}: sampler {name} is what runs unless --sampler says another; {reason}")
    return str(name)


def refusal(spec: ServerSpec, sampler: SamplerName) -> str | None:
    """Why a server's model can't run a sampler; None if it can."""
    own, sampler = parse(spec.sampler), sampler.alone
    if spec.sampler_fields:
        reason = why_not(spec.sampler_fields, sampler)
        if reason is not None:
            return reason
    elif replace(sampler, temperature=own.temperature) != own:
        return f"{spec.name} decodes behind its server; its sampler is {own}"
    if sampler.temperature != own.temperature and not spec.temperature:
        return f"{spec.name} takes no temperature; its sampler is {own}"
    return None


__all__ = ["KEYS", "Prices", "ServerSpec", "add_models_file", "read_specs", "refusal", "server_specs"]
