"""What a server's model is declared to be, in data/servers.yaml or a user's `--models FILE`.

Doesn't import torch or an SDK, and never holds a key: only the name of the variable that does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

from pbcore.errors import InputError
from pbcore.integrations.servers.kinds import KINDS
from pbcore.links import docs
from pbcore.names import SamplerName, canonical, parse
from pbcore.printable import printable, shown
from pbcore.tasks.files import read_text, read_yaml

if TYPE_CHECKING:
    from pydantic import ConfigDict, TypeAdapter

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")
# What extra_body can't set, and the key that does.
_RESERVED = {
    "model": "model",
    "messages": "none, the task's prompts are sent",
    "stream": "stream",
    "max_tokens": "max_tokens",
    "max_completion_tokens": "max_tokens",
    "temperature": "temperature",
    "seed": "seed",
    "n": "none, one answer is taken",
}


@dataclass(frozen=True)
class Prices:
    """USD per million tokens of prompts (`input`) and of answers (`output`)."""

    input: float
    output: float
    __pydantic_config__: ClassVar[ConfigDict] = {"extra": "forbid", "strict": True, "allow_inf_nan": False}


@dataclass(frozen=True)
class ServerSpec:
    """A model behind a server.

    `kind` is one of KINDS; `model` the id that the server knows it by; `key` the name of the environment variable with
    the key, if it needs one. `extra_body` is added to every request. `max_tokens` limits an answer and is sent as
    `max_tokens_field`. `concurrency` is the number of requests at once, `timeout` the seconds of one, `retries` how
    often the SDK repeats a request that failed. `temperature` and `seed` say whether they may be sent. `sampler` is
    `ar` for autoregressive models, and for others what the server's own setting is declared to be. `nfe_field` is the
    place in an answer of its number of forwards, e.g. `usage.num_forwards`, for servers that report it.
    """

    name: str
    model: str
    base_url: str
    kind: str = "openai"
    key: str | None = None
    extra_body: dict[str, Any] = field(default_factory=dict)
    max_tokens: int = 1024
    max_tokens_field: str = "max_tokens"
    prices: Prices | None = None
    concurrency: int = 8
    timeout: float = 120.0
    retries: int = 4
    temperature: bool = True
    seed: bool = False
    stream: bool = True
    sampler: str = "ar"
    nfe_field: str | None = None
    __pydantic_config__: ClassVar[ConfigDict] = {"extra": "forbid", "strict": True, "allow_inf_nan": False}

    @property
    def provider(self) -> str:
        """The server's host, as records name it."""
        return urlsplit(self.base_url).netloc


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
    _check_url(spec.base_url, where)
    _check_values(spec, where)
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


def _check_url(url: str, where: str) -> None:
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        valid = False
    if not valid:
        raise InputError(f"{where}: base_url is no address; give e.g. http://localhost:8000/v1")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise InputError(
            f"{where}: base_url holds a user, a password or a query, and addresses are recorded; give scheme, host, "
            "port and path, and under key the variable that holds the key"
        )


def _check_values(spec: ServerSpec, where: str) -> None:
    if spec.key is not None and not _VARIABLE.fullmatch(spec.key):
        raise InputError(
            f"{where}: key is the name of an environment variable, in capitals, digits and _, such as OPENAI_API_KEY; "
            "never the key itself"
        )
    ranges: dict[str, tuple[float, float]] = {
        "max_tokens": (1, 1_000_000),
        "concurrency": (1, 1024),
        "timeout": (0.1, 86_400),
        "retries": (0, 100),
    }
    for name, (least, most) in ranges.items():
        if not least <= getattr(spec, name) <= most:
            raise InputError(f"{where}: {name} {shown(getattr(spec, name))}; give a number from {least} to {most}")
    if spec.prices is not None and min(spec.prices.input, spec.prices.output) < 0:
        raise InputError(f"{where}: prices are USD per million tokens, not below 0")
    if spec.max_tokens_field not in ("max_tokens", "max_completion_tokens"):
        given = shown(spec.max_tokens_field)
        raise InputError(f"{where}: max_tokens_field {given}; give max_tokens or max_completion_tokens")
    for name in spec.extra_body:
        if name in _RESERVED:
            raise InputError(f"{where}: extra_body sets {name!r}, which has a key of its own: {_RESERVED[name]}")
    if not spec.model:
        raise InputError(f"{where}: model is empty; give the id that the server knows it by")


def _sampler(spec: ServerSpec, where: str) -> str:
    try:
        return canonical(spec.sampler)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def refusal(spec: ServerSpec, sampler: SamplerName) -> str | None:
    """Why a server's model can't run a sampler; None if it can."""
    own = parse(spec.sampler)
    if replace(sampler, temperature=own.temperature) != own:
        return f"{spec.name} decodes behind its server; its sampler is {own}"
    if sampler.temperature != own.temperature and not spec.temperature:
        return f"{spec.name} takes no temperature; its sampler is {own}"
    return None
