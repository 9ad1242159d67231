"""Checkpoints that a user's file declares (`--models FILE`), beside the models behind servers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

from pbcore.base.check import Must, checked, validated
from pbcore.base.errors import InputError
from pbcore.base.printable import printable
from pbcore.models.families import architectures
from pbcore.tasks.files import read_yaml

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
ArchitectureName = Annotated[
    str, Must(lambda name: name in architectures(), f"one of {', '.join(architectures())}")
]


@checked
@dataclass(frozen=True)
class CheckpointSpec:
    """A checkpoint under a name of the user's, and what overrides its files, as `load_model` takes
    it. `checkpoint` is a folder, a hub id, or another model's name.
    """

    checkpoint: str
    architecture: ArchitectureName | None = None
    revision: str | None = None
    mask_id: int | None = None
    eos_id: int | None = None
    shift: bool | None = None
    block: int | None = None
    chat: str | None = None
    delimiter_ids: list[int] | None = None

    def overrides(self) -> dict[str, Any]:
        """What is given, by the names of ModelEntry's fields."""
        named = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "checkpoint"}
        named["declared"] = named.pop("architecture")
        if self.delimiter_ids is not None:
            named["delimiter_ids"] = tuple(self.delimiter_ids)
        return {name: value for name, value in named.items() if value is not None}


def is_checkpoint(entry: Any) -> bool:
    """Whether an entry of such a file is a checkpoint, not a model behind a server."""
    return isinstance(entry, Mapping) and "checkpoint" in entry


def read_checkpoints(file: Path) -> dict[str, CheckpointSpec]:
    """The checkpoints of a YAML file, by name. Raises InputError that names file, model and key."""
    entries = read_yaml(file.read_text(encoding="utf-8"), str(file))
    specs = {}
    for name, entry in (entries if isinstance(entries, Mapping) else {}).items():
        if not is_checkpoint(entry):
            continue
        where = f"{file}, model {printable(str(name))}"
        if not NAME.fullmatch(str(name)):
            raise InputError(f"{where}: use letters, digits, '_', '-' and '.' in its name")
        specs[name] = validated(CheckpointSpec, dict(entry), where)
    return specs
