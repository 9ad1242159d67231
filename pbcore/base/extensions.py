"""What is added to the core by name: a group, a name in it, and `module:object`.

An installed package says it by entry points; a package of `pbcore/extras/` by a table of the same
form, `ENTRY_POINTS`, which one scan finds. A `Registry` of the group holds both. The core names
none of them and runs without that folder.
"""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import Any

HOME = "pbcore.extras"


@cache
def neighbours() -> Mapping[str, Mapping[str, Mapping[str, str]]]:
    """The tables of the packages in `pbcore/extras/` by their names; none where the folder was left
    out. Reading them imports nothing that they name.
    """
    if find_spec(HOME) is None:
        return {}
    names = sorted(module.name for module in iter_modules(import_module(HOME).__path__))
    tables = {name: import_module(f"{HOME}.{name}") for name in names}
    return {name: getattr(module, "ENTRY_POINTS", {}) for name, module in tables.items()}


@cache
def installed() -> Any:
    """The entry points of all installed packages, by group with `select`; read once, since they
    don't change while a process runs.
    """
    return entry_points()


def points(group: str) -> tuple[EntryPoint, ...]:
    """What is added to a group, by name."""
    found: dict[str, EntryPoint] = {point.name: point for point in installed().select(group=group)}
    for table in neighbours().values():
        for name, value in table.get(group, {}).items():
            found[name] = EntryPoint(name, value, group)
    return tuple(found[name] for name in sorted(found))


def named(name: str) -> Any:
    """The object `module:object`."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)
