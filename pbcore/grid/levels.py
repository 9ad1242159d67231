"""Levels of factors: `--factor threads=1,2 --factor dtype=float32,bfloat16` runs each cell under
the four combinations. A level is written `threads:2+dtype:bfloat16`, the last part of a cell's id,
which pytest's -k accepts.

A factor is an option declared with `varies`. Rows at a time are part of the sampler's name instead
(`+x8`), and seeds of one record.
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from pbcore.base.errors import InputError
from pbcore.grid.settings import OPTIONS, Settings

FACTORS = {option.name: option for option in OPTIONS if option.varies}


def factor_levels(factors: Sequence[str]) -> list[str]:
    """The combinations of the values that `--factor` was given (`name=a,b`), the first factor's
    outermost; one empty level without any.

    Raises InputError for an unknown factor, one given twice, and a value that its option doesn't
    have.
    """
    varied: dict[str, list[str]] = {}
    for text in factors:
        name, _, values = text.partition("=")
        if name in varied or not values:
            raise InputError(
                f"--factor {text}: give each factor once, with its levels: {name or 'threads'}=1,2"
            )
        read = [str(_value(name, value)) for value in values.split(",")]
        varied[name] = [f"{name}:{value}" for value in dict.fromkeys(read)]
    return ["+".join(level) for level in product(*varied.values())]


def factors_of(level: str) -> dict[str, Any]:
    """Factor → value of a level as it stands in a cell's id. Raises InputError for one that can't
    be meant.
    """
    values = {}
    for part in filter(None, level.split("+")):
        name, _, value = part.partition(":")
        values[name] = _value(name, value)
    return values


def at(settings: Settings, level: str) -> Settings:
    """The settings of a cell at this level."""
    chosen = {FACTORS[name].field: value for name, value in factors_of(level).items()}
    return replace(settings, **chosen) if chosen else settings


def _value(name: str, text: str) -> Any:
    if name not in FACTORS:
        others = "rows at a time are given by --batch-size 1,8, seeds by --seed 0-4"
        raise InputError(f"--factor {name}: there are {', '.join(FACTORS)}; {others}")
    try:
        return FACTORS[name].read(text)
    except argparse.ArgumentTypeError as error:
        raise InputError(f"--factor {name}: {error}") from error
