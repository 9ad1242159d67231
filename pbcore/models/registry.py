"""Models by name, without torch: data/models.yaml, registered names, checkpoint folders, hub ids,
`:dummy` shapes.
"""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import EntryPoint
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pbcore.base.errors import InputError
from pbcore.base.extensions import named
from pbcore.base.package_data import package_yaml
from pbcore.base.printable import shown
from pbcore.base.registry import Registry, hint
from pbcore.base.torch_states import loading_states
from pbcore.models.entry import LoadOptions, ModelEntry, is_adapter
from pbcore.models.errors import ModelError
from pbcore.models.families import (
    FAMILIES,
    KINDS,
    NO_CONFIG,
    architectures,
    config_at_hand,
    loaded_as,
    readable_config,
    recognised,
)

if TYPE_CHECKING:
    from pbcore.models.base import Model

UNKNOWN = "unknown"  # a hub model whose config.json is not on this machine yet
_LOADERS = {
    "ideal": "pbcore.models.ideal:load_ideal",
    "masked": "pbcore.models.loading:load_masked",
    "causal": "pbcore.models.causal:load_causal",
    "diffusion_gemma": "pbcore.models.native:load_diffusion_gemma",
}


@dataclass(frozen=True)
class _Installed:
    """The factory of an entry point, which imports its package only when it is called."""

    point: EntryPoint

    def __call__(self, **options: Any) -> Any:
        return self.point.load()(**options)


class ModelSource(Protocol):
    """Models by name from elsewhere (group `pbcore.model_sources`): those that come with it, and
    those of a file of `--models`, whose names it gives back. Raises InputError for a name that is
    `taken`.
    """

    def entries(self) -> Mapping[str, ModelEntry]: ...
    def add_file(self, file: Path, taken: Mapping[str, Any]) -> list[str]: ...


SOURCES: Registry[ModelSource] = Registry("source of models", "pbcore.model_sources")
# Name → file and entry of the checkpoints of `--models`.
_CHECKPOINTS: dict[str, tuple[Path, ModelEntry]] = {}
FACTORIES: Registry[Callable[..., Any]] = Registry("model", "pbcore.models", load=_Installed)


def register_model(name: str, factory: Callable[..., Any]) -> None:
    """Makes a model available as `name`: `factory(device=…, dtype=…, **options)` returns a Denoiser
    or OwnDecoder. Packages register models by entry points of the group `pbcore.models`, named like
    the model. Raises ValueError for a name that is taken or has characters other than letters,
    digits, `_`, `-`, `.` (it becomes part of pytest's node ids). A factory that needs several GPUs
    says so by its attribute `gpus`, for runs on a cluster.
    """
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name):
        raise InputError(f"model name {name!r}: use letters, digits, '_', '-' and '.'")
    if not callable(factory):
        raise InputError(
            f"model {name!r}: the factory {factory!r} is not callable; give a function of device,"
            " dtype and options"
        )
    if name in _built_in():
        raise InputError(
            f"model name {name!r} is already taken by a built-in model; choose another name"
        )
    FACTORIES.register(name, factory)


def add_models_file(path: str | Path) -> list[str]:
    """Makes the models of a YAML file available (`--models FILE`), those behind servers
    (docs/servers.md) and checkpoints (docs/models.md), and returns their names. Raises InputError
    that names file, model, key and what is allowed; FileNotFoundError for a missing file.
    """
    from pbcore.models.checkpoint_spec import read_checkpoints

    file = Path(path)
    taken = {**_table(), **FACTORIES.all(), **_CHECKPOINTS}
    names = [name for source in SOURCES.all().values() for name in source.add_file(file, taken)]
    for name, spec in read_checkpoints(file).items():
        before = _CHECKPOINTS.pop(name, None)
        if name in _entries() or (before is not None and before[0] != file.resolve()):
            raise InputError(f"{file}: a model named {name!r} exists already; choose another name")
        try:
            found = resolve_model(spec.checkpoint)
            entry = replace(found, name=name, about=spec.checkpoint, listed=True)
            entry = replace(entry, **spec.overrides())
            if spec.architecture is not None:
                options = LoadOptions(architecture=spec.architecture)
                entry = replace(entry, loaded_as=_kind(entry, options))
        except ModelError as error:
            raise InputError(f"{file}, model {name}: {error}") from error
        _CHECKPOINTS[name] = (file.resolve(), entry)
        names.append(name)
    return names


def sources() -> dict[str, str]:
    """Name → hub id of the models of the table that come from the hub."""
    return {name: entry.source for name, entry in _table().items() if entry.source is not None}


def table_stops(architecture: str, size: int, mask_id: int) -> dict[str, frozenset[int]]:
    """Name → stop tokens of the masked models of the table that fit.

    Args:
        architecture: a family of `families`.
        size: how many tokens the vocabulary has; it is known for entries with a shape.
        mask_id: the mask token's id.
    """
    fitting = {}
    for name, entry in _table().items():
        shape = entry.shape or {}
        known = shape.get("embedding_size", shape.get("vocab_size"))
        if (entry.architecture, known, entry.mask_id) == (architecture, size, mask_id):
            fitting[name] = frozenset(entry.stop_ids)
    return fitting


def model_names() -> list[str]:
    """The names that `load_model` accepts: the table's, without embedded models missing here, and
    registered ones.
    """
    return [name for name, entry in _entries().items() if not missing_here(entry)]


def all_entries() -> list[ModelEntry]:
    """Every entry, also of embedded models missing from this installation."""
    return list(_entries().values())


def missing_here(entry: ModelEntry) -> bool:
    """Whether an embedded checkpoint is missing from this installation."""
    return (
        entry.embedded and entry.folder is not None and not (entry.folder / "config.json").is_file()
    )


def resolve_model(name: str) -> ModelEntry:
    """Resolves a model name, without loading the model or importing torch. `name` is a name of the
    table (with `:dummy` or `:dummy-l2` if its published shape is known), a registered name, a hub
    id (`owner/name`), or the path of a checkpoint folder; with `+DIR` at its end the LoRA adapter
    in folder DIR is merged into its weights. Raises ModelError with close matches for anything
    else.
    """
    if not isinstance(name, str) or not name:
        known = ", ".join(model_names())
        raise ModelError(
            f"model {name!r}: give a name, a checkpoint folder or a hub id; known: {known}"
        )
    path = Path(name).expanduser()
    if "+" in name and not path.is_dir():
        return _adapted(name)
    base, colon, suffix = name.partition(":")
    if colon and base in _table():
        return _dummy(_table()[base], name, suffix)
    if (entry := _entries().get(name)) is not None:
        if missing_here(entry):
            raise ModelError(
                f"model {name!r} is not part of this installation: {entry.folder} has no"
                " checkpoint. Install pbcore again, which has one"
            )
        return entry
    if path.is_dir():
        if (path / "config.json").is_file():
            config = readable_config(path)
            return ModelEntry(
                path.name or name, loaded_as=loaded_as(config), folder=path.resolve(), config=config
            )
        if is_adapter(path):
            raise ModelError(
                f"model {name!r} is a LoRA adapter, not a checkpoint; name the model that it"
                f" adapts, too: MODEL+{name}"
            )
        raise ModelError(f"model {name!r}: {path.absolute()} {NO_CONFIG}")
    if path.is_absolute() or name.startswith(("./", "../", "~")):
        what = "is a file" if path.is_file() else "does not exist"
        give = "give the checkpoint's folder, with config.json and *.safetensors"
        raise ModelError(f"model {name!r}: {path.absolute()} {what}; {give}")
    if re.fullmatch(r"[\w.-]+/[\w.-]+", name) and not name.startswith("."):
        return _of_hub(name)
    raise ModelError(
        f"unknown model {name!r}; {hint(base, model_names())} A checkpoint folder or a hub id"
        " (owner/name) is also a valid name"
    )


def _of_hub(source: str) -> ModelEntry:
    """The entry of a hub id: its config.json says how it is loaded; before that is here, the
    table's model with these weights says it, and its shape.
    """
    entry = ModelEntry(source, loaded_as=UNKNOWN, source=source, revision="main")
    config = config_at_hand(entry)
    if config is not None:
        return replace(entry, loaded_as=loaded_as(config))
    for known in _table().values():
        if known.source == source:
            return replace(entry, loaded_as=known.loaded_as, shape=known.shape)
    return entry


def presets_of(entry: ModelEntry) -> tuple[str, ...]:
    """The presets of its authors' settings: the table's for a model of the table, however it is
    named, else those of its family, of which the user chooses.
    """
    for known in _table().values():
        if entry.name == known.name or (entry.source and entry.source == known.source):
            return known.presets
    if entry.presets or entry.architecture is not None:
        return entry.presets
    family = recognised(entry.config) or str(entry.config.get("model_type", "")).casefold()
    return FAMILIES[family].presets if family in FAMILIES else ()


def model_label(name: str) -> str:
    """How cell ids spell a model: the path of a folder below the working folder from there, however
    it was given (`./m`, `m/`, an absolute path), with `./` in front where that is a model's name;
    other names as they are.
    """
    path = Path(name).expanduser()
    if "+" in name and not path.is_dir():
        for base, folder in _splits(name):
            if base and is_adapter(Path(folder).expanduser()):
                return f"{model_label(base)}+{_path_label(folder)}"
    if name in _entries() or not path.is_dir():
        return name
    label = _path_label(name)
    return f"./{label}" if label in _entries() else label


def _path_label(name: str) -> str:
    path = Path(os.path.normpath(Path(name).expanduser()))
    absolute = path.absolute()
    absolute = absolute.parent.resolve() / absolute.name  # the folder itself may be a link
    working = Path.cwd()
    below = absolute.relative_to(working) if absolute.is_relative_to(working) else path
    return below.as_posix()


def load_model(name: str, device: str = "cpu", dtype: str | None = None, **options: Any) -> "Model":
    """Loads a model by name onto a device.

    Args:
        name: a registered name, a folder, a hub id, or `MODEL+ADAPTER`.
        device: such as `cpu` or `cuda:0`.
        dtype: None: bfloat16 on a GPU, float32 on the CPU.
        options: those of LoadOptions; a registered factory gets them unchanged.

    Raises:
        ModelError: for unknown names (with close matches), checkpoints that don't match their
            config, and an unreachable hub.
    """
    entry = resolve_model(name)
    if entry.factory is not None:
        if entry.adapter is not None:
            raise ModelError(
                f"model {name!r}: a registered model loads its own adapters; register one that does"
            )
        return _made(entry, entry.factory(device=device, dtype=dtype, **options))
    given = LoadOptions.of(options)
    if given.architecture is None:
        given = replace(given, architecture=entry.declared)
    if entry.adapter is not None:
        if given.adapter is not None:
            raise ModelError(
                f"model {entry.name!r}: adapter {entry.adapter} in its name and {given.adapter};"
                " give one"
            )
        given = replace(given, adapter=str(entry.adapter))
    if entry.loaded_as == UNKNOWN:
        from pbcore.models.hub import locate

        folder = locate(entry, given)
        config = readable_config(folder)
        entry = replace(entry, loaded_as=loaded_as(config), folder=folder, config=config)
    kind = _kind(entry, given)
    if given.adapter is not None and kind != "masked":
        raise ModelError(
            f"model {name!r}: adapters are merged into masked diffusion models, and this one is"
            f" {kind}"
        )
    with loading_states():
        loader = entry.loader or _LOADERS.get(kind) or KINDS[kind].loader
        loaded: Model = named(loader)(entry, device, dtype, given)
    return loaded


def _kind(entry: ModelEntry, options: LoadOptions) -> str:
    """The loader of a model. With a mask token of the user's choice any checkpoint is a masked
    model. Raises ModelError for an unknown architecture, and for one of a model without a
    checkpoint.
    """
    given = options.architecture
    if given is None:
        masked = entry.loaded_as == "causal" and options.mask_id is not None
        return "masked" if masked else entry.loaded_as
    if given not in architectures():
        known = ", ".join(architectures())
        raise ModelError(f"architecture {given!r} is not known; choose from {known}")
    if not entry.has_network or entry.served:
        raise ModelError(
            f"model {entry.name!r} is no checkpoint, so architecture {given!r} says nothing of it;"
            " leave it out"
        )
    return given if given in _LOADERS or given in KINDS else "masked"


def _adapted(name: str) -> ModelEntry:
    """The entry of `MODEL+DIR`. Raises ModelError for an unknown model, or if DIR holds no
    adapter.
    """
    splits = _splits(name)
    for base, folder in splits:
        path = Path(folder).expanduser()
        if base and is_adapter(path):
            return replace(resolve_model(base), adapter=path.resolve())
    base, folder = splits[0]
    resolve_model(base)  # reports an unknown model first
    raise ModelError(
        f"model {name!r}: there is no adapter in the folder {folder!r} (no adapter_config.json);"
        " write MODEL+DIR with a folder that peft wrote"
    )


def _splits(name: str) -> list[tuple[str, str]]:
    """A name divided at each of its `+`."""
    return [(name[: match.start()], name[match.end() :]) for match in re.finditer(r"\+", name)]


def _made(entry: ModelEntry, model: Any) -> "Model":
    """What a user's factory returned. Raises ModelError if it is no model."""
    from pbcore.models.base import BatchDecoder, OwnDecoder, missing_members

    missing = [] if isinstance(model, OwnDecoder | BatchDecoder) else missing_members(model)
    if missing:
        raise ModelError(
            f"model {entry.name!r}: its factory returned {shown(model)}, not a Denoiser or"
            f" OwnDecoder: it has no {', '.join(missing[:3])}{' …' if len(missing) > 3 else ''}"
        )
    return model  # type: ignore[no-any-return]


def _built_in() -> dict[str, ModelEntry]:
    """The models of the table and of other sources."""
    entries = dict(_table())
    for source in SOURCES.all().values():
        entries |= source.entries()
    return entries


def _entries() -> dict[str, ModelEntry]:
    entries = _built_in()
    entries |= {name: entry for name, (_, entry) in _CHECKPOINTS.items()}
    for name, factory in FACTORIES.all().items():
        entries.setdefault(
            name, ModelEntry(name, "user", factory=factory, gpus=getattr(factory, "gpus", 1))
        )
    return entries


def _dummy(entry: ModelEntry, name: str, suffix: str) -> ModelEntry:
    match = re.fullmatch(r"dummy(?:-l([1-9]\d*))?", suffix)
    if match is None:
        forms = f"{entry.name}:dummy (random weights) or {entry.name}:dummy-l2 (two layers)"
        raise ModelError(f"model {name!r}: ':{suffix}' is not known; write {forms}")
    if entry.dummy_name is None:
        names = [known.dummy_name for known in _table().values()]
        shaped = ", ".join(name for name in names if name is not None)
        raise ModelError(f"model {name!r}: there is no dummy of {entry.name}; choose from {shaped}")
    layers = int(match[1]) if match[1] else None
    return replace(entry, name=name, source=None, revision=None, dummy=True, layers=layers)


@cache
def _table() -> Mapping[str, ModelEntry]:
    """The package's models and those of neighbours' kinds, first those without a source."""
    entries = _entries_of("pbcore.models", Path(__file__).parent)
    for kind in KINDS.all().values():
        entries |= _entries_of(kind.package, Path(str(files(kind.package))))
    return dict(sorted(entries.items(), key=lambda entry: entry[1].source is not None))


def _entries_of(package: str, place: Path) -> dict[str, ModelEntry]:
    """The models of a package's models.yaml; embedded ones have folders at `place`."""
    data = package_yaml(package, "models.yaml")
    entries = {}
    for name, values in data["models"].items():
        fields = {
            **{key: value for key, value in values.items() if key != "family"},
            "loaded_as": values["family"],
            "stop_ids": tuple(values.get("stop_ids", ())),
            "presets": tuple(values.get("presets", ())),
            "embedded": "folder" in values,
        }
        if "folder" in values:
            fields["folder"] = place / values["folder"]
        if "shape" in values:
            fields["shape"] = data["shapes"][values["shape"]]
        known = FAMILIES.get(values.get("architecture", ""))
        if known is not None and values["family"] == "masked":
            fields = {"mask_id": known.mask_id, "shift": known.shift, "block": known.block} | fields
        entries[name] = ModelEntry(name, **fields)
    return entries
