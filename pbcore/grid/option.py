"""Settings as options of the command line and of ini files, and their kinds of values, read from
text.
"""

import re
from argparse import SUPPRESS, ArgumentTypeError
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar, get_args

from pbcore.base.errors import InputError
from pbcore.base.printable import shown
from pbcore.base.registry import Registry
from pbcore.base.rules import Rule
from pbcore.costs.kinds import SpeedAxis

T = TypeVar("T")
# By an option's field its value: as `Option.read` gives it, or, of a record or of run.json, plain.
OptionValues = dict[str, Any]


class Role(StrEnum):
    """What a setting decides."""

    SELECTS = "which cells and samples are run"
    ANSWERS = "what is asked, answered or scored"
    LOADS = "how a model's weights are loaded, which can change its answers"
    COMPUTES = "speed and memory, but no answer"
    JUDGES = "how the run is judged"
    WRITES = "what is kept of the run"


class Need(StrEnum):
    """What a cell must be for an option to act on it (grid/needs.py decides), as the end of "no
    cell of this run …".
    """

    NOTHING = "is left"  # it acts on every cell, or on the run as a whole
    LENGTH = (
        "has such an n (lists 2-60, word sets 1-7, squares 2-9, several questions 2-6, walks"
        " 2-1024)"
    )
    SHOTS = "has solved examples to choose (lists, latin squares, sudokus and several questions do)"
    CANVAS = "lets a run choose the length of its answers (these are given in part)"
    STEPS = "asks for steps (add --cot)"
    OFFICIAL = "has official samples (the 17 tasks of the paper do)"
    GENERATED = "draws its samples by seed (rows of a file and official samples are fixed)"
    OWN_TASK = "has a task of the user's files (name one by --task, or leave --task out)"
    ENDS = "has text after its end (autoregressive models and servers stop there)"
    GRAMMAR = "is scored for grammar (the text_writing tasks are)"
    BERTSCORE = "is scored by BERTScore (summarization and paraphrasing are)"
    HERE = "computes on this machine (servers choose for themselves)"
    DEVICE = "computes on that device (servers choose for themselves, ideal stays off mps)"
    DTYPE = "has weights of a dtype to choose (ideal has none, servers choose for themselves)"
    WEIGHTS = "loads weights from a file (ideal, random shapes and servers don't)"
    NETWORK = "has a network of its own on this machine (ideal and servers don't)"
    HUB = "has a model from the hub (a folder has no revisions)"
    CODE = "has a checkpoint that may bring code of its own (the package's own models bring none)"
    DRAFT = "verifies drafts (add --sampler ar-draft5)"
    ROWS = (
        "takes that number of rows (samples one by one and +x samplers don't; servers and"
        " models with their own loop choose for themselves)"
    )
    SHARES = (
        "shares forwards (masked models do, under samplers without temperature, cache or remasking"
        " of their own)"
    )
    STORE = "shares forwards (add --share-forwards; masked models do)"
    TIMED = "is timed several times (samples one by one and servers answer once)"
    BLAMED = (
        "has answers that are right or wrong (lists, puzzles, walks and sentences from given words"
        " do; samples one by one always say which step broke them)"
    )
    WRITTEN = "is written (samples are looked at one by one: -x, --sample, --per-sample)"
    GATED = "is judged against a baseline (add --gate BASELINE)"


@dataclass(frozen=True, slots=True)
class AddedNeed:
    """A need of a neighbour's option: its words, as those of `Need`, and which cells (`needs.Use`)
    meet it.
    """

    value: str
    meets: Callable[[Any], bool]


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
    # Of an option that decides or loads answers: why `--factor` can't vary it (grid/levels.py).
    held: str = ""
    varies: bool = False  # `--factor` varies it, although it decides no answer
    of_task: bool = False  # where it isn't given, the task's own value holds
    unset: str = "default"  # its level where it isn't given and no task says it
    # The cells on which it acts; refused in a run that has none of them.
    need: Need | AddedNeed = Need.NOTHING

    @property
    def name(self) -> str:
        return self.field.replace("_", "-")

    @property
    def dest(self) -> str:
        return f"pbcore_{self.field}"

    @property
    def is_factor(self) -> bool:
        """Whether cells can be run under several of its values."""
        decides = self.role in (Role.ANSWERS, Role.LOADS)
        return self.varies or (decides and not self.held and not self.many)

    def read(self, stated: Any) -> Any:
        """The value that a file states. Raises argparse.ArgumentTypeError for one that the option
        doesn't have.
        """
        if self.kind is None:
            return bool(stated)
        return tuple(map(self.kind, stated)) if self.many else self.kind(str(stated))

    def add(self, addoption: Callable[..., Any], flag: str, text: str) -> None:
        """Adds one flag of the option, for a negated switch two.

        Args:
            addoption: a method of argparse or of pytest's option groups.
            flag: `--name` or a shorter one.
            text: the help.

        Raises:
            ValueError: if the flag is taken; by some versions of pytest argparse.ArgumentError.
        """
        if self.kind is None:
            addoption(flag, dest=self.dest, action="store_true", default=None, help=text)
            if self.negated:
                off = flag.replace(self.name, f"no-{self.name}")
                opposite = text if text == SUPPRESS else f"the opposite of {flag}"
                addoption(off, dest=self.dest, action="store_false", default=None, help=opposite)
            return
        more: dict[str, Any] = {}
        if self.const is not None:
            more = {"nargs": "?", "const": self.const}
        of_kind = "DIR" if self.kind is Path else getattr(self.kind, "metavar", None)
        more["metavar"] = self.metavar or of_kind or self.name.upper()
        action = "append" if self.many else "store"
        addoption(
            flag, dest=self.dest, action=action, type=self.kind, default=None, help=text, **more
        )


def option(
    role: Role, help: str, kind: Callable[[str], Any] | None = str, default: Any = None, **more: Any
) -> Any:
    """A field of Settings with what its option needs. A switch is off and a repeatable option empty
    unless given, and a negated switch None.

    Args:
        role: what it decides.
        help: its text.
        kind: reads a value from text; None: a switch.
        default: of the field.
        more: further fields of `Option`.
    """
    if more.get("many"):
        default = ()
    elif kind is None and not more.get("negated"):
        default = False
    declared = {"help": help, "role": role, "kind": kind, **more}
    return field(default=default, metadata={"option": declared})


class OptionGroup:
    """Options of a neighbour (group `pbcore.options`): a frozen dataclass whose fields are made by
    `option`, derived from this class. `title` heads them in the help. Its `rules` are of options
    that exclude each other or lack one another, those of `Settings` included.
    """

    __slots__ = ()
    title: ClassVar[str] = ""
    rules: ClassVar[tuple[Rule[Any], ...]] = ()

    @property
    def elsewhere(self) -> bool:
        """Whether the cells run on other machines, so that this one needs no GPU."""
        return False

    @property
    def at_once(self) -> Sequence[int]:
        """Of models that answer elsewhere: how many requests at a time, if several numbers are to
        be measured.
        """
        return ()

    def prepare(self) -> None:
        """Makes available what these options name, before the plan is made. Raises InputError."""

    def tasks(self, patterns: Sequence[str], arguments: Sequence[str]) -> Sequence[str]:
        """The tasks that `--task` asks for, those of the neighbour by their names, once they are
        available; likewise those that only a node id among pytest's arguments names. Raises
        InputError.
        """
        return patterns


OPTION_GROUPS: Registry[type[OptionGroup]] = Registry("group of options", "pbcore.options")


def options_of(group: type[Any]) -> list[Option]:
    """The options that a dataclass declares."""
    return [Option(f.name, **f.metadata["option"]) for f in fields(group) if "option" in f.metadata]


@dataclass(frozen=True, slots=True)
class ValueKind(Generic[T]):
    """A kind of value: its form, what reads the pattern's groups (None for what can't be meant),
    what is said of any other text, and how the help shows it. Raises argparse.ArgumentTypeError
    that says what to write instead.
    """

    pattern: str
    read: Callable[..., T | None]
    refused: str
    metavar: str = "N"

    def __call__(self, text: str) -> T:
        match = re.fullmatch(self.pattern, text)
        value = self.read(*match.groups()) if match else None
        if value is None:
            raise ArgumentTypeError(f"{shown(text)} {self.refused}")
        return value


def _several(text: str, least: int = 1, distinct: bool = False) -> tuple[int, ...] | None:
    """`15`, `3-6` or `5,10,20` in rising order; None for no number, one below `least` or, if
    `distinct`, one twice.
    """
    first, dash, last = text.partition("-")
    if dash and int(last) - int(first) >= MOST_LEVELS:
        return None
    numbers = list(range(int(first), int(last) + 1)) if dash else list(map(int, text.split(",")))
    if not numbers or min(numbers) < least or (distinct and len(set(numbers)) < len(numbers)):
        return None
    return tuple(sorted(set(numbers)))


def numbers_of(text: str) -> tuple[int, ...]:
    """`0-2,7` as 0, 1, 2, 7; none where they don't rise or are too many."""
    numbers: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        begin = int(first)
        end = int(last or first)
        falls = end < begin or (bool(numbers) and begin <= numbers[-1])
        if falls or end - begin + len(numbers) >= MOST_SAMPLES:
            return ()
        numbers += range(begin, end + 1)
    return tuple(numbers)


def numbers_text(numbers: Iterable[int]) -> str:
    """0, 1, 2, 7 as `0-2,7`; the numbers rise."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def _shard(part: str, parts: str) -> tuple[int, int] | None:
    return (int(part), int(parts)) if 1 <= int(part) <= int(parts) else None


def _share(number: str, percent: str) -> float:
    return float(number) / (100 if percent else 1)


def _level(number: str, percent: str) -> float | None:
    value = _share(number, percent)
    return value if 0 < value < 1 else None


MOST_LEVELS = 10_000  # of seeds and the like that one option gives
MOST_SAMPLES = 1_000_000  # as in a tasks file
_LIST = r"[0-9]{1,18}(?:,[0-9]{1,18})*"
_RANGE = "[0-9]{1,18}-[0-9]{1,18}"
_SHARE = r"([0-9]{1,9}(?:\.[0-9]{1,18})?)(%?)"
positive = ValueKind(
    "([0-9]{1,9})",
    lambda text: int(text) or None,
    "is not a whole number above 0 (at most 9 digits)",
)
natural = ValueKind(
    "([0-9]{1,18})", int, "is not a whole number; write 0, 1, 2 … (at most 18 digits)"
)
samples = ValueKind(
    "([0-9]{1,7})",
    lambda text: int(text) if 0 < int(text) <= MOST_SAMPLES else None,
    "is not a whole number above 0, at most 1,000,000",
)
questions = ValueKind(
    r"((?:[^=]+=)?[0-9]{1,7}(?:-[0-9]{1,7})?(?:,[0-9]{1,7}(?:-[0-9]{1,7})?)*)",
    lambda text: text if numbers_of(text.rpartition("=")[2]) else None,
    "are not questions; write 0-99 or 3,5,8-20, in rising order, or copy=0-99 for one task",
    "[TASK=]LIST",
)
threads = ValueKind(
    "([0-9]{1,4})", lambda text: int(text) or None, "is not a number of threads, 1 to 9999"
)
# Each several: seeds of the draws, levels that are each measured by itself, values of n (each task
# says which it has).
seeds = ValueKind(
    f"({_RANGE}|{_LIST})",
    lambda text: _several(text, 0, True),
    "are not seeds; write 0, 0-4 or 3,5,8, each once, at most 10,000",
)
levels = ValueKind(
    f"({_LIST})",
    lambda text: _several(text, distinct=True),
    "is no number above 0, nor several; write 8, or 1,4,16,64, each once",
)
lengths = ValueKind(f"({_RANGE}|{_LIST})", _several, "is not an n; write 15, 3-6 or 5,10,20")
device = ValueKind("(cpu|cuda|mps)", str, "is not a device; write cpu, cuda or mps", "cpu|cuda|mps")
shots = ValueKind("([0-8])", int, "is not a number of solved examples; write 0 to 8", "0-8")
cot_answer = ValueKind(
    "(marked|whole)", str, "is no part of an answer; write marked or whole", "marked|whole"
)
# 3/8 is (3, 8).
shard = ValueKind(
    "([0-9]{1,5})/([0-9]{1,5})", _shard, "is not a shard; write 3/8 for the third of eight", "I/N"
)
amount = ValueKind(
    r"([0-9]{1,9}(?:\.[0-9]{1,9})?)",
    lambda text: float(text) or None,
    "is not a number above 0; write e.g. 1 or 0.5",
    "GIB",
)
points = ValueKind(
    r"([0-9]+(?:\.[0-9]+)?)",
    lambda text: float(text) if 0 < float(text) < 100 else None,
    "is not a loss in points, above 0 and below 100; write e.g. 5 or 2.5",
    "POINTS",
)
axis = ValueKind(
    f"({'|'.join(get_args(SpeedAxis))})",
    str,
    f"is no axis of speed; write {', '.join(get_args(SpeedAxis))}",
    "NAME",
)


def price(text: str) -> str:
    """A price list of `--price`. Raises argparse.ArgumentTypeError for what can't be one."""
    from pbcore.results.seconds import check_price  # few runs name one

    try:
        check_price(text)
    except InputError as error:
        raise ArgumentTypeError(str(error)) from error
    return text


share = ValueKind(_SHARE, _share, "is not a share; write 10% or 0.1", "SHARE")  # a fraction
level = ValueKind(_SHARE, _level, "is not a level of significance; write e.g. 0.05 or 5%", "P")
