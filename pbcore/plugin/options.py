"""The options of the group "pbcore", each with an ini/TOML equivalent `pbcore_<name>`, read into one Settings value."""

from __future__ import annotations

import argparse
from typing import Any, Literal

import pytest

from pbcore.errors import InputError
from pbcore.grid.settings import OPTIONS, Option, Settings, check
from pbcore.grid.values import natural, positive


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("pbcore", "pbcore: parallel decoding in diffusion LLMs")
    for option in OPTIONS:
        text = f"{option.help} [ini: {option.dest}]"
        if option.kind is None:
            group.addoption(f"--{option.name}", dest=option.dest, action="store_true", default=None, help=text)
            parser.addini(option.dest, option.help, type="bool", default=None)
            continue
        extra: dict[str, Any] = {"nargs": "?", "const": option.const} if option.const is not None else {}
        action, metavar = "append" if option.many else "store", option.metavar or option.name.upper()
        group.addoption(
            f"--{option.name}",
            dest=option.dest,
            action=action,
            type=option.kind,
            default=None,
            metavar=metavar,
            help=text,
            **extra,
        )
        parser.addini(option.dest, option.help, type=_ini_type(option), default=None)


def _ini_type(option: Option) -> Literal["linelist", "int", "string"]:
    if option.many:
        return "linelist"
    return "int" if option.kind in (positive, natural) else "string"


def given(config: pytest.Config) -> bool:
    """Whether any option of the group is set, on the command line or in an ini file."""
    return any(_value(config, option) is not None for option in OPTIONS)


def on_command_line(config: pytest.Config, *names: str) -> list[str]:
    """Those of the options that stand on the command line, as written there."""
    return [f"--{o.name}" for o in OPTIONS if o.name in names and config.getoption(o.dest, None) is not None]


def read(config: pytest.Config) -> Settings:
    """The settings of this run. Raises pytest.UsageError for values that can't be meant."""
    values: dict[str, Any] = {}
    for option in OPTIONS:
        value = _value(config, option)
        if value is not None:
            values[option.field] = tuple(value) if option.many else value
    try:
        return check(Settings(**values))
    except InputError as error:
        raise pytest.UsageError(str(error)) from error


def _value(config: pytest.Config, option: Option) -> Any:
    """The option's value from the command line, else from the ini file, else None."""
    value = config.getoption(option.dest, None)
    if value is not None:
        return value
    raw = config.getini(option.dest)
    if raw is None or option.kind is None:
        return raw
    try:
        return [option.kind(text) for text in raw] if option.many else option.kind(str(raw))
    except argparse.ArgumentTypeError as error:
        raise pytest.UsageError(f"ini option {option.dest}: {error}") from error
