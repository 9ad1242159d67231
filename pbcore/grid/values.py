"""The values of options, read from text. Each raises argparse.ArgumentTypeError that says what to write instead."""

import argparse
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """A kind of value: its form, what reads the pattern's groups (None for what can't be meant), what is said of any
    other text, and how the help shows it."""

    pattern: str
    read: Callable[..., T | None]
    refused: str
    metavar: str = "N"

    def __call__(self, text: str) -> T:
        match = re.fullmatch(self.pattern, text)
        found = self.read(*match.groups()) if match else None
        if found is None:
            raise argparse.ArgumentTypeError(f"{text!r} {self.refused}")
        return found


def _several(text: str, least: int = 1, distinct: bool = False) -> tuple[int, ...] | None:
    """`15`, `3-6` or `5,10,20` in rising order; None for no number, one below `least` or, if `distinct`, one twice."""
    first, dash, last = text.partition("-")
    numbers = list(range(int(first), int(last) + 1)) if dash else list(map(int, text.split(",")))
    if not numbers or min(numbers) < least or (distinct and len(set(numbers)) < len(numbers)):
        return None
    return tuple(sorted(set(numbers)))


def _shard(part: str, parts: str) -> tuple[int, int] | None:
    return (int(part), int(parts)) if 1 <= int(part) <= int(parts) else None


def _share(number: str, percent: str) -> float:
    return float(number) / (100 if percent else 1)


def _level(number: str, percent: str) -> float | None:
    value = _share(number, percent)
    return value if 0 < value < 1 else None


_LIST = r"\d+(?:,\d+)*"
_SHARE = r"(\d+(?:\.\d+)?)(%?)"
positive = Kind(r"(\d+)", lambda text: int(text) or None, "is not a whole number above 0")
natural = Kind(r"(\d+)", int, "is not a whole number; write 0, 1, 2 …")
# Each several: seeds of the draws, levels that are each measured by itself, values of n (each task says which it has).
seeds = Kind(
    rf"(\d+-\d+|{_LIST})", lambda text: _several(text, 0, True), "are not seeds; write 0, 0-4 or 3,5,8, each once"
)
levels = Kind(
    f"({_LIST})",
    lambda text: _several(text, distinct=True),
    "is no number above 0, nor several; write 8, or 1,4,16,64, each once",
)
lengths = Kind(rf"(\d+-\d+|{_LIST})", _several, "is not an n; write 15, 3-6 or 5,10,20")
device = Kind("(cpu|cuda|mps)", str, "is not a device; write cpu, cuda or mps", "cpu|cuda|mps")
shots = Kind("([0-8])", int, "is not a number of solved examples; write 0 to 8", "0-8")
cot_answer = Kind("(marked|whole)", str, "is no part of an answer; write marked or whole", "marked|whole")
shard = Kind(r"(\d+)/(\d+)", _shard, "is not a shard; write 3/8 for the third of eight", "I/N")  # (3, 8)
amount = Kind(
    r"([0-9]+(?:\.[0-9]+)?)", lambda text: float(text) or None, "is not a number above 0; write e.g. 1 or 0.5", "GIB"
)
share = Kind(_SHARE, _share, "is not a share; write 10% or 0.1", "SHARE")  # a fraction
level = Kind(_SHARE, _level, "is not a level of significance; write e.g. 0.05 or 5%", "P")
