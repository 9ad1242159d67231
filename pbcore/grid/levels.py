"""Levels of factors: `--factor batch-size=1,8 --factor dtype=float32,bfloat16` runs each cell under the four
combinations. A level is written `batch-size:8+dtype:bfloat16`, the last part of a cell's id, which pytest's -k accepts.

A factor is an option declared with `varies`, the core's or an integration's.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from pbcore.errors import InputError
from pbcore.grid.option import Option, options_of
from pbcore.grid.settings import OPTIONS, Settings


def factors() -> dict[str, Option]:
    """The options that can be varied, by name."""
    return {option.name: option for option in OPTIONS if option.varies}


def of_servers(factor: str) -> bool:
    """Whether a factor is an integration's option: one of models that answer elsewhere."""
    return all(option.name != factor for option in options_of(Settings))


def levels(given: Sequence[str]) -> list[str]:
    """The combinations of the values that `--factor` was given (`name=a,b`), the first factor's outermost; one empty
    level without any.

    Raises InputError for an unknown factor, one given twice, and a value that its option doesn't have.
    """
    varied: dict[str, list[str]] = {}
    for text in given:
        name, _, values = text.partition("=")
        if name in varied or not values:
            raise InputError(f"--factor {text}: give each factor once, with its levels: {name or 'batch-size'}=1,8")
        varied[name] = list(dict.fromkeys(str(_value(name, value)) for value in values.split(",")))
    pairs = ([f"{name}:{value}" for value in of] for name, of in varied.items())
    return ["+".join(level) for level in product(*pairs)]


def factors_of(level: str) -> dict[str, Any]:
    """Factor → value of a level as it stands in a cell's id. Raises InputError for one that can't be meant."""
    return {
        name: _value(name, value)
        for name, _, value in (part.partition(":") for part in filter(None, level.split("+")))
    }  # fmt: skip


def at(settings: Settings, level: str) -> Settings:
    """The settings of a cell at this level."""
    chosen = {factors()[name].field: value for name, value in factors_of(level).items()}
    own = {name: value for name, value in chosen.items() if hasattr(settings, name)}
    more = {name: value for name, value in chosen.items() if name not in own}
    return replace(settings, **own, more={**settings.more, **more}) if chosen else settings


def _value(name: str, text: str) -> Any:
    known = factors()
    if name not in known:
        raise InputError(f"--factor {name}: there are {', '.join(known)}; seeds are given by --seed 0-4")
    kind = known[name].kind
    assert kind is not None  # no switch varies
    try:
        return kind(text)
    except argparse.ArgumentTypeError as error:
        raise InputError(f"--factor {name}: {error}") from error
