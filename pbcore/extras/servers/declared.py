"""The declared models behind servers: those of servers.yaml and of a user's `--models FILE`, read
and checked.

Doesn't import torch or an SDK.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, replace
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Any

from pbcore.base.check import validated
from pbcore.base.errors import InputError
from pbcore.base.links import docs
from pbcore.base.printable import printable, shown
from pbcore.base.registry import hint
from pbcore.decoding import resolve
from pbcore.extras.servers.field_states import row_text
from pbcore.extras.servers.spec import KINDS, ServerSpec, why_not
from pbcore.extras.servers.values import RESERVED
from pbcore.models.checkpoint_spec import NAME, is_checkpoint
from pbcore.models.entry import ModelEntry
from pbcore.names import SamplerName, SamplerNameError, parse
from pbcore.tasks import all_task_names
from pbcore.tasks.files import check_keys, read_text, read_yaml

OWN = "servers.yaml"
KEYS = tuple(f.name for f in fields(ServerSpec) if f.name != "name")
# What sampler_fields can't set, either: also what a streamed request has.
SENT = {**RESERVED, "stream_options": "stream"}


class ServerModels:
    """The models behind servers, for `pbcore.models.registry`."""

    def __init__(self) -> None:
        self.added: dict[str, ServerSpec] = {}
        self.files: dict[str, Path] = {}

    def specs(self) -> dict[str, ServerSpec]:
        """All by name: those of the package, then those of `--models`."""
        return {**_own_specs(), **self.added}

    def entries(self) -> Mapping[str, ModelEntry]:
        """Name → entry of each declared model."""
        return {
            name: ModelEntry(
                name,
                loaded_as="server",
                about=f"{spec.model} at {spec.base_url}",
                loader="pbcore.extras.servers.model:load_server",
                served=True,
                samplers=(spec.sampler,),
                refuses=spec.refusal,
                status=partial(row_status, spec),
            )
            for name, spec in self.specs().items()
        }

    def add_file(self, path: str | Path, taken: Mapping[str, Any]) -> list[str]:
        """Adds the models of a user's YAML file and returns their names; docs/servers.md shows an
        example.

        An entry under a predeclared name (`mercury`, `claude-haiku`) changes the keys that it
        gives. Adding a file again reads it again. Raises InputError that names file, model, key and
        what is allowed; FileNotFoundError for a missing file. `taken` are names of other models.
        """
        file = Path(path)
        if not file.is_file():
            raise FileNotFoundError(
                f"no models file {file}; give a YAML file with one entry per model"
                f" ({docs('servers.md')})"
            )
        read = read_specs(read_text(file), str(file))
        task_words: set[str] = set()  # names of tasks, their short names and categories
        for task in all_task_names():
            task_words.update((task, *task.split("/", 1)))
        for name, spec in read.items():
            for task in spec.task_max_tokens:
                if task not in task_words:
                    raise InputError(
                        f"{file}, model {name}: task_max_tokens {printable(task)};"
                        f" {hint(task, sorted(task_words))}"
                    )
            elsewhere = self.files.get(name, file.resolve()) != file.resolve()
            if name in taken or elsewhere:
                where = f" in {self.files[name]}" if elsewhere else ""
                raise InputError(
                    f"{file}: a model named {name!r} exists already{where}; choose another name"
                )
        self.added |= read
        self.files |= dict.fromkeys(read, file.resolve())
        return list(read)


MODELS = ServerModels()


def row_status(spec: ServerSpec) -> str:
    """What a list of models says of a server: its key, and whether its fields are verified."""
    fields = row_text(spec)
    return f"{key_status(spec.key)}; {fields}" if fields else key_status(spec.key)


def key_status(key: str | None) -> str:
    """Whether a server's key is there, for a list of models."""
    if key is None:
        return "server, no key needed"
    return f"server, {key} {'set' if os.environ.get(key) else 'not set'}"


def read_specs(text: str, where: str) -> dict[str, ServerSpec]:
    """The models of a YAML text; `where` names it in errors. Raises InputError."""
    specs = {}
    for name, entry in _entries(text, where).items():
        if is_checkpoint(entry):
            continue
        predeclared = _own_entries().get(name, {})
        specs[name] = _spec(name, predeclared | entry, f"{where}, model {printable(name)}")
    return specs


@cache
def _own_entries() -> dict[str, dict[str, Any]]:
    """The package's own entries, as written."""
    file = files("pbcore.extras.servers").joinpath(OWN)
    return _entries(file.read_text(encoding="utf-8"), OWN)


@cache
def _own_specs() -> dict[str, ServerSpec]:
    return {
        name: _spec(name, entry, f"{OWN}, model {name}") for name, entry in _own_entries().items()
    }


def _entries(text: str, where: str) -> dict[str, dict[str, Any]]:
    loaded = read_yaml(text, where)
    if not isinstance(loaded, dict) or not loaded:
        raise InputError(f"{where}: give one entry per model, `name:` with its keys below it")
    for name, entry in loaded.items():
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise InputError(
                f"{where}: model name {shown(name)}: use letters, digits, '_', '-' and '.'"
            )
        if not isinstance(entry, dict):
            raise InputError(
                f"{where}, model {name}: give the keys of the model, such as base_url and model"
            )
    return loaded


def _spec(name: str, entry: Mapping[str, Any], where: str) -> ServerSpec:
    """One entry, checked."""
    check_keys(entry, KEYS, where)
    kind = entry.get("kind", "openai")
    if not isinstance(kind, str) or kind not in KINDS:
        raise InputError(f"{where}: kind {shown(kind)}; give one of {', '.join(KINDS)}")
    default = {"base_url": KINDS[kind].base_url} if KINDS[kind].base_url else {}
    spec = _typed({"name": name, **default, **entry}, where)
    try:
        sampler = parse(spec.sampler)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    if KINDS[kind].own_schedule and sampler.policy != "ar":
        spec = replace(spec, temperature=entry.get("temperature", False))
    problem = next(_problems(spec, sampler), None)
    if problem is not None:
        raise InputError(f"{where}: {problem}")
    return replace(spec, sampler=_resolved(sampler), base_url=spec.base_url.rstrip("/"))


def _resolved(sampler: SamplerName) -> str:
    """A declared sampler in the spelling that --sampler gives it; a name that is the server's own
    as it is.
    """
    with suppress(SamplerNameError):
        return str(resolve(str(sampler)))
    return str(sampler)


def _typed(entry: Mapping[str, Any], where: str) -> ServerSpec:
    """An entry whose values are of the declared types."""
    try:
        plain = json.loads(json.dumps(entry, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{where}: {error}; give texts, numbers, true or false, lists and mappings"
        ) from None
    return validated(ServerSpec, plain, where)


def _problems(spec: ServerSpec, sampler: SamplerName) -> Iterator[str]:
    """Keys that clash, and what is allowed."""
    yield from _collisions(spec)
    if spec.step_map_field is not None and (spec.stream or spec.nfe_field is not None):
        yield (
            "step_map_field is read from whole answers and counts forwards itself; declare stream:"
            " false, and no nfe_field"
        )
    yield from _own_facts(spec)
    for key in ("tokens_field", "tokenizer"):
        given = getattr(spec, key) is not None and not KINDS[spec.kind].generates
        if given and spec.step_map_field is None:
            yield f"{key} is for the steps of the tokens; declare step_map_field, too"
    reason = why_not(spec.sampler_fields, sampler) if spec.sampler_fields else None
    if reason is not None:
        yield f"sampler {sampler} is what runs unless --sampler says another; {reason}"


def _own_facts(spec: ServerSpec) -> Iterator[str]:
    """Places that are declared although servers of this kind have their own."""
    if not KINDS[spec.kind].generates:
        return
    for key in ("nfe_field", "step_map_field", "tokens_field"):
        if getattr(spec, key) is not None:
            yield f"{key}: kind {spec.kind} tells forwards and tokens itself; leave it out"


def _collisions(spec: ServerSpec) -> Iterator[str]:
    """Places of `sampler_fields` that are set by something else, too."""
    for policy, parts in spec.sampler_fields.items():
        for part, place in parts.items():
            head = place.partition(".")[0]
            if not all(place.split(".")):
                yield (
                    f"sampler_fields sets {place!r}; give a field's name, or a place such as"
                    " vllm_xargs.diffusion_max_steps"
                )
            if head in SENT:
                yield f"sampler_fields sets {head!r}, which has a key of its own: {SENT[head]}"
            taken = _taken(spec.extra_body, place)
            if taken is not None:
                yield (
                    f"sampler_fields sets {place!r}, and extra_body has {shown(taken[1])} at"
                    f" {taken[0]!r}; give a field's name that extra_body doesn't set"
                )
            for other, elsewhere in parts.items():
                if other != part and f"{elsewhere}.".startswith(f"{place}."):
                    within = "" if place == elsewhere else f", which holds {elsewhere!r}"
                    yield (
                        f"sampler_fields of {policy} sets {place!r} from {part!r}{within} from"
                        f" {other!r}; give each a place of its own"
                    )


def _taken(body: Mapping[str, Any], place: str) -> tuple[str, Any] | None:
    """Where a body holds a value in the way of this place, and the value; None if it holds none."""
    value: Any = body
    passed: list[str] = []
    for part in place.split("."):
        if not isinstance(value, Mapping):
            break
        if part not in value:
            return None
        passed.append(part)
        value = value[part]
    return ".".join(passed), value
