"""What a setting is as an option of the command line and of ini files."""

from argparse import SUPPRESS
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Any


class Role(StrEnum):
    """What a setting decides."""

    SELECTS = "which cells and samples are run"
    ANSWERS = "what is asked, answered or scored"
    LOADS = "how a model's weights are loaded, which can change its answers"
    COMPUTES = "speed and memory, but no answer"
    JUDGES = "how the run is judged"
    WRITES = "what is kept of the run"


@dataclass(frozen=True, slots=True)
class Option:
    """A setting as an option: `--name` on the command line, `pbcore_name` in ini files."""

    field: str
    help: str
    role: Role
    kind: Callable[[str], Any] | None = str  # None: a switch
    many: bool = False  # repeatable
    metavar: str | None = None  # what the help shows for a value, if not its kind's or the name
    const: Any = None  # the value if it is given without an argument
    negated: bool = False  # a switch with a counterpart, `--no-name`
    recorded: bool = True  # among the options of a record; others have a field of their own there
    varies: bool = False  # cells can be run under several of its values (`--factor`, grid/levels.py)

    @property
    def name(self) -> str:
        return self.field.replace("_", "-")

    @property
    def dest(self) -> str:
        return f"pbcore_{self.field}"

    def read(self, stated: Any) -> Any:
        """The value that a file states. Raises argparse.ArgumentTypeError for one that the option doesn't have."""
        if self.kind is None:
            return bool(stated)
        return tuple(map(self.kind, stated)) if self.many else self.kind(str(stated))

    def add(self, addoption: Callable[..., Any], flag: str, text: str) -> None:
        """Adds one flag of the option, by a method of argparse or of pytest's option groups. Raises ValueError or
        argparse.ArgumentError (by pytest's version) if the flag is taken."""
        if self.kind is None:
            addoption(flag, dest=self.dest, action="store_true", default=None, help=text)
            if self.negated:
                off = flag.replace(self.name, f"no-{self.name}")
                opposite = text if text == SUPPRESS else f"the opposite of {flag}"
                addoption(off, dest=self.dest, action="store_false", default=None, help=opposite)
            return
        more: dict[str, Any] = {"nargs": "?", "const": self.const} if self.const is not None else {}
        kinds = "DIR" if self.kind is Path else getattr(self.kind, "metavar", None)
        more["metavar"] = self.metavar or kinds or self.name.upper()
        action = "append" if self.many else "store"
        addoption(flag, dest=self.dest, action=action, type=self.kind, default=None, help=text, **more)


def option(role: Role, help: str, kind: Callable[[str], Any] | None = str, default: Any = None, **more: Any) -> Any:
    """A field of Settings with what its option needs, `more` of which are further fields of `Option`; a switch is off
    and a repeatable option empty unless given, and a negated switch None."""
    if more.get("many") or (kind is None and not more.get("negated")):
        default = () if more.get("many") else False
    return field(default=default, metadata={"option": {"help": help, "role": role, "kind": kind, **more}})


class OptionGroup:
    """Options of an integration: a frozen dataclass whose fields are made by `option`, derived from this class."""

    __slots__ = ()

    @property
    def elsewhere(self) -> bool:
        """Whether the cells run on other machines, so that this one needs no GPU."""
        return False

    @property
    def at_once(self) -> Sequence[int]:
        """Of models that answer elsewhere: how many requests at a time, if several numbers are to be measured."""
        return ()

    def prepare(self) -> None:
        """Makes available what these options name, before the plan is made. Raises InputError."""

    def tasks(self, patterns: Sequence[str], arguments: Sequence[str]) -> Sequence[str]:
        """The tasks that `--task` asks for, those of the integration by their names, once they are available; likewise
        those that only a node id among pytest's arguments names. Raises InputError."""
        return patterns

    def check(self, settings: Any) -> None:
        """Raises InputError for options that exclude each other or lack one another, those of `Settings` included."""


def options_of(group: type[Any]) -> list[Option]:
    """The options that a dataclass declares."""
    return [Option(f.name, **f.metadata["option"]) for f in fields(group) if "option" in f.metadata]
