"""Runs by name: the grids of `--profile` (data/profiles.yaml), worked out for a canvas length, and
the settings of papers of `--preset` (data/presets.yaml), each with its source.
"""

from argparse import ArgumentTypeError
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from pbcore.base.errors import InputError
from pbcore.base.package_data import package_yaml
from pbcore.base.registry import hint
from pbcore.grid.option import Option, OptionValues


@dataclass(frozen=True, slots=True)
class Sweep:
    """Policies in blocks of 1, 2, 4 … tokens, each with the parameters `values`, or with `k` tokens
    a step: 1, 2, 4 … up to the block.
    """

    policies: Sequence[str]
    values: Sequence[str] = ()
    k: bool = False

    def samplers(self, canvas: int) -> Iterator[str]:
        """Those for answers of `canvas` tokens."""
        for policy in self.policies:
            for block in powers_of_two(canvas):
                ending = "" if block == canvas else f"+b{block}"
                parameters = [f"k{k}" for k in powers_of_two(block)] if self.k else self.values
                for parameter in parameters:
                    yield f"{policy}-{parameter}{ending}"


@dataclass(frozen=True, slots=True)
class OfModel:
    """What a profile has for one model: task patterns, samplers and the most samples a task (None:
    the profile's), and `limits`, task pattern → another limit, of which the first that fits holds.
    """

    tasks: Sequence[str] = ("*",)
    samplers: Sequence[str] | None = None
    limit: int | None = None
    limits: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Profile:
    """A grid as declared: models, task patterns, fixed samplers, sweeps over blocks, and the most
    samples a task (None: all). `only` has what differs for single models.
    """

    name: str
    models: Sequence[str]
    limit: int | None
    tasks: Sequence[str]
    samplers: Sequence[str] = ()
    sweeps: Sequence[Sweep] = ()
    only: Mapping[str, OfModel] = field(default_factory=dict)

    def of(self, model: str) -> OfModel:
        return self.only.get(model, OfModel())

    def sampler_names(self, canvas: int) -> list[str]:
        """The samplers for answers of `canvas` tokens, in the order declared, each once."""
        names = list(self.samplers)
        for sweep in self.sweeps:
            names.extend(sweep.samplers(canvas))
        return list(dict.fromkeys(names))


@cache
def profiles() -> dict[str, Profile]:
    """All profiles by name."""
    entries = package_yaml("pbcore.grid", "profiles.yaml")
    read = {}
    for name, entry in entries.items():
        sweeps = [Sweep(**sweep) for sweep in entry.get("sweeps", ())]
        only = {model: OfModel(**own) for model, own in entry.get("only", {}).items()}
        read[name] = Profile(name, **{**entry, "sweeps": sweeps, "only": only})
    return read


def powers_of_two(last: int) -> list[int]:
    """1, 2, 4 … up to `last`."""
    return [1 << i for i in range(last.bit_length())]


PRESET_KEYS = ("options", "source", "tuned")  # of a preset's file


class Preset(NamedTuple):
    """Options of a run, by field, as the source states them."""

    source: str
    options: OptionValues

    def words(self) -> str:
        """The options as on the command line."""
        return " ".join(_words(name, value) for name, value in self.options.items())


@cache
def presets() -> dict[str, Preset]:
    """All presets by name."""
    entries = package_yaml("pbcore.grid", "presets.yaml")
    return {name: Preset(**entry) for name, entry in entries.items()}


def read_preset(file: Path) -> Preset:
    """The preset in a YAML file: `options` by field, `source` in words, and `tuned`, which is for
    readers. Raises InputError for a file that can't be one.
    """
    import yaml  # at first use, as for the package's own

    try:
        entry = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"--preset {file}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        where = " ".join(str(error).split())[:200]
        raise InputError(f"--preset {file}: not a YAML file ({where})") from error
    options = entry.get("options") if isinstance(entry, dict) else None
    if not isinstance(options, dict) or not options or not entry.keys() <= {*PRESET_KEYS}:
        raise InputError(
            f"--preset {file}: it needs options, e.g. options: {{sampler: [threshold-0.9]}}, and"
            f" may have {', '.join(PRESET_KEYS[1:])}"
        )
    return Preset(str(entry.get("source", file)), options)


def _preset(name: str) -> Preset:
    """A preset by its name, or by its file. Raises InputError for an unknown one."""
    if name in presets():
        return presets()[name]
    if name.endswith((".yaml", ".yml")):
        return read_preset(Path(name))
    raise InputError(
        f"--preset: there is no {name!r}; {hint(name, list(presets()))} (`pbcore list presets`"
        " lists all), or give a FILE.yaml"
    )


def with_preset(given: OptionValues, options: Iterable[Option]) -> OptionValues:
    """The options given, by field, with those of the preset among them. Raises InputError for an
    unknown name, with near ones, for a file that can't be read, and for an option that contradicts
    the preset.
    """
    name = given.get("preset")
    if name is None:
        return given
    by_field = {option.field: option for option in options}
    values = dict(given)
    for field_name, text in _preset(name).options.items():
        option = by_field.get(field_name)
        if option is None or option.many != isinstance(text, list):
            kind = "unknown"
            if option is not None:
                kind = "a list" if option.many else "a single value"
            raise InputError(f"--preset {name}: option {field_name!r} is {kind}; see --help-pbcore")
        try:
            value = option.read(text)
        except ArgumentTypeError as error:
            raise InputError(f"--preset {name}: {field_name}: {error}") from error
        if values.setdefault(field_name, value) != value:
            raise InputError(
                f"--preset {name} means {_words(field_name, text)}, and another --{option.name} is"
                " given; leave one of the two out"
            )
    return values


def _words(option: str, value: Any) -> str:
    flag = f"--{option.replace('_', '-')}"
    if isinstance(value, list):
        return " ".join(f"{flag} {item}" for item in value)
    return flag if value is True else f"{flag} {value}"
