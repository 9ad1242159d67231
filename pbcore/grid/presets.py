"""Settings of papers and their code by name (`--preset`): data/presets.yaml, each with its source."""

from argparse import Namespace
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from pbcore.errors import InputError
from pbcore.grid.option import Option
from pbcore.package_data import package_yaml
from pbcore.registry import hint


@dataclass(frozen=True, slots=True)
class Preset:
    """Options of a run, by field, as the source states them."""

    name: str
    source: str
    options: Mapping[str, Any]

    def words(self) -> str:
        """The options as on the command line."""
        return " ".join(_words(name, value) for name, value in self.options.items())


@cache
def presets() -> dict[str, Preset]:
    """All presets by name."""
    data = package_yaml("pbcore.grid", "presets.yaml")
    return {name: Preset(name, entry["source"], entry["options"]) for name, entry in data.items()}


def with_preset(given: dict[str, Any], options: Iterable[Option]) -> dict[str, Any]:
    """The options given, by field, with those of the preset among them. Raises InputError for an unknown name, with
    near ones, and for an option that contradicts the preset."""
    name = given.get("preset")
    if name is None:
        return given
    if name not in presets():
        raise InputError(f"--preset: there is no {name!r}; {hint(name, list(presets()))} (`pbcore presets` lists all)")
    known, values = {option.field: option for option in options}, dict(given)
    for field, text in presets()[name].options.items():
        value = known[field].read(text)
        if values.setdefault(field, value) != value:
            other = f"another --{known[field].name} is given; leave one of the two out"
            raise InputError(f"--preset {name} means {_words(field, text)}, and {other}")
    return values


def _words(field: str, value: Any) -> str:
    flag = f"--{field.replace('_', '-')}"
    if isinstance(value, list):
        return " ".join(f"{flag} {one}" for one in value)
    return flag if value is True else f"{flag} {value}"


def run(args: Namespace) -> int:
    """Prints all presets: `pbcore presets`."""
    for preset in presets().values():
        print(f"{preset.name}\n  {preset.words()}\n  {preset.source}")
    print("\npytest benches --preset NAME runs with these options. Others may be added; contradicting ones are errors.")
    return 0
