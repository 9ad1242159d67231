"""Levels of factors: `--factor shots=0,1 --factor dtype=float32,bfloat16` runs each cell under the
four combinations. A level is written `shots:0+dtype:bfloat16`, the last part of a cell's id, which
pytest's -k accepts.

A factor is an option that decides or loads answers (`Option.is_factor`), or the threads. All levels
ask the same questions. Rows at a time are part of the sampler's name instead (`+x8`), and seeds of
one record: `--factor batch-size=1,8` and `seed=0-4` mean `--batch-size` and `--seed`.
"""

import argparse
import re
from collections.abc import Sequence
from dataclasses import fields, replace
from itertools import product
from pathlib import PurePath
from typing import Any

from pbcore.base.errors import InputError
from pbcore.grid.option import Option, OptionValues
from pbcore.grid.settings import OPTIONS, Settings

FACTORS = {option.name: option for option in OPTIONS if option.is_factor}
SHORT_FORMS = ("batch-size", "seed")
DEFAULT = "default"  # the level at which the option isn't given
SWITCH = {"on": True, "off": False}
_BY_NAME = {option.name: option for option in OPTIONS}
_OWN = {field.name: field.default for field in fields(Settings)}
_WORD = re.compile(r"[\w.-]+")  # what -k accepts of a value


def with_short_forms(settings: Settings) -> Settings:
    """The settings with `--factor batch-size=1,8` and `--factor seed=0-4` as the options that they
    mean. Raises InputError for values that these don't have.
    """
    rest = []
    given: OptionValues = {}
    for text in settings.factor:
        name, _, values = text.partition("=")
        if name not in SHORT_FORMS:
            rest.append(text)
            continue
        option = _BY_NAME[name]
        if getattr(settings, option.field) != _OWN[option.field] or option.field in given:
            raise InputError(f"--factor {text}: --{name} is given already; leave one of them out")
        try:
            given[option.field] = option.read(values)
        except argparse.ArgumentTypeError as error:
            raise InputError(f"--factor {name}: {error}") from error
    return replace(settings, factor=tuple(rest), **given) if given else settings


def factor_levels(factors: Sequence[str]) -> list[str]:
    """The combinations of the values that `--factor` was given (`name=a,b`), the first factor's
    outermost; one empty level without any.

    Raises InputError for an unknown factor, one that can't vary, one given twice, and a value that
    its option doesn't have.
    """
    words = words_of(factors)
    varied = [[f"{name}:{word}" for word in values] for name, values in words.items()]
    return ["+".join(level) for level in product(*varied)]


def factors_of(level: str) -> dict[str, Any]:
    """Factor → value of a level as records keep it: a number, or the word that stands in the cell's
    id. Raises InputError for one that can't be meant.
    """
    values = {}
    for name, word in _parts(level):
        value = _value(_factor(name), word)
        values[name] = value if type(value) in (int, float) else word
    return values


def given_at(level: str, factors: Sequence[str] = ()) -> OptionValues:
    """The options that a level sets, by field. Raises InputError for one that can't be meant.

    Args:
        level: as it stands in a cell's id.
        factors: those of the run (`--factor`), where words stand for paths.
    """
    known = words_of(factors)
    values = {}
    for name, word in _parts(level):
        option = _factor(name)
        values[option.field] = known.get(name, {}).get(word, _value(option, word))
    return values


def at(settings: Settings, level: str) -> Settings:
    """The settings of a cell at this level."""
    given = given_at(level, settings.factor)
    own = {name: value for name, value in given.items() if name in _OWN}
    more = {name: value for name, value in given.items() if name not in _OWN}
    return replace(settings, **own, more={**settings.more, **more}) if given else settings


def _parts(level: str) -> list[tuple[str, str]]:
    """The names and words of a level."""
    pairs = []
    for part in filter(None, level.split("+")):
        name, _, word = part.partition(":")
        pairs.append((name, word))
    return pairs


def words_of(factors: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Factor → its levels, each a word and the value that it stands for: of a path the last part,
    with a number behind it where others end alike.
    """
    varied: dict[str, dict[str, Any]] = {}
    for text in factors:
        name, _, values = text.partition("=")
        if name in varied or not values:
            raise InputError(
                f"--factor {text}: give each factor once, with its levels: {name or 'threads'}=1,2"
            )
        option = _factor(name)
        words: dict[str, Any] = {}
        for one in dict.fromkeys(values.split(",")):
            value = _value(option, one)
            if value in words.values():
                continue
            word = one if one in (DEFAULT, *SWITCH) else str(value)
            if not _WORD.fullmatch(word):
                word = re.sub(r"[^\w.-]+", "-", PurePath(word).name) or name
            if word in words:
                word = f"{word}-{len(words) + 1}"
            words[word] = value
        varied[name] = words
    return varied


def _factor(name: str) -> Option:
    """The option of a factor. Raises InputError that says why it isn't one, or names those there
    are.
    """
    if name in FACTORS:
        return FACTORS[name]
    option = _BY_NAME.get(name)
    why = "there is no such option"
    if option is not None:
        why = "it takes several values" if option.many else option.held or "it changes no answer"
    raise InputError(f"--factor {name}: {why}; factors are {', '.join([*FACTORS, *SHORT_FORMS])}")


def _value(option: Option, word: str) -> Any:
    """The value that a level's word, or a text of `--factor`, means. Raises InputError."""
    if word == DEFAULT and not option.varies:
        return _OWN.get(option.field, False if option.kind is None else None)
    if option.kind is None:
        if word not in SWITCH:
            raise InputError(f"--factor {option.name}: {word!r} is no level; write on or off")
        return SWITCH[word]
    try:
        return option.read(word)
    except argparse.ArgumentTypeError as error:
        instead = "" if option.varies else f", or {DEFAULT}"
        raise InputError(f"--factor {option.name}: {error}{instead}") from error
