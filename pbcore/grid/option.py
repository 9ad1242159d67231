"""What a setting is as an option of the command line and of ini files."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, Protocol


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
    """A setting as an option: `--name` on the command line, `pbcore_name` in ini files. `many`: repeatable. `kind`
    None: a switch.

    `const` is the value of an option that is given without an argument. A `negated` switch has a counterpart,
    `--no-name`. Not `recorded`: a cell's record has it in a field of its own, not among its options. `varies`: cells
    can be run under several of its values (`--factor`, grid/levels.py).
    """

    field: str
    help: str
    role: Role
    kind: Callable[[str], Any] | None = str
    many: bool = False
    metavar: str | None = None
    const: Any = None
    negated: bool = False
    recorded: bool = True
    varies: bool = False

    @property
    def name(self) -> str:
        return self.field.replace("_", "-")

    @property
    def dest(self) -> str:
        return f"pbcore_{self.field}"


def option(
    role: Role,
    help: str,
    kind: Callable[[str], Any] | None = str,
    default: Any = None,
    *,
    many: bool = False,
    metavar: str | None = None,
    const: Any = None,
    negated: bool = False,
    recorded: bool = True,
    varies: bool = False,
) -> Any:
    """A field of Settings with what its option needs; a switch is off and a repeatable option empty unless given, and a
    negated switch None.
    """
    if many or (kind is None and not negated):
        default = () if many else False
    arguments = {"help": help, "role": role, "kind": kind, "many": many, "metavar": metavar, "const": const}
    arguments |= {"negated": negated, "recorded": recorded, "varies": varies}
    return field(default=default, metadata={"option": arguments})


class CommonOptions(Protocol):
    """What an integration's options are checked against: some of `grid.settings.Settings`."""

    @property
    def estimate(self) -> bool: ...


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
        those that only a node id among pytest's arguments names. Raises InputError.
        """
        return patterns

    def check(self, settings: CommonOptions) -> None:
        """Raises InputError for options that exclude each other or lack one another."""


def options_of(group: type[Any]) -> list[Option]:
    """The options that a dataclass declares."""
    return [Option(f.name, **f.metadata["option"]) for f in fields(group) if "option" in f.metadata]
