"""The values of options, read from text. Each raises argparse.ArgumentTypeError that says what to write instead."""

import argparse
import re
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def form(pattern: str, read: Callable[..., T | None], refused: str) -> Callable[[str], T]:
    """The kind of value with this form. `read` gets the pattern's groups; None for what can't be meant."""

    def value(text: str) -> T:
        match = re.fullmatch(pattern, text)
        found = read(*match.groups()) if match else None
        if found is None:
            raise argparse.ArgumentTypeError(f"{text!r} {refused}")
        return found

    return value


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


_LIST = r"\d+(?:,\d+)*"
_SHARE = r"(\d+(?:\.\d+)?)(%?)"
positive = form(r"(\d+)", lambda text: int(text) or None, "is not a whole number above 0")
natural = form(r"(\d+)", int, "is not a whole number; write 0, 1, 2 …")
# Each several: seeds of the draws, levels that are each measured by itself, values of n (each task says which it has).
seeds = form(
    rf"(\d+-\d+|{_LIST})", lambda text: _several(text, 0, True), "are not seeds; write 0, 0-4 or 3,5,8, each once"
)
levels = form(
    f"({_LIST})",
    lambda text: _several(text, distinct=True),
    "is no number above 0, nor several; write 8, or 1,4,16,64, each once",
)
lengths = form(rf"(\d+-\d+|{_LIST})", _several, "is not an n; write 15, 3-6 or 5,10,20")
device = form("(cpu|cuda|mps)", str, "is not a device; write cpu, cuda or mps")
shots = form("([0-8])", int, "is not a number of solved examples; write 0 to 8")
cot_answer = form("(marked|whole)", str, "is no part of an answer; write marked or whole")
shard = form(r"(\d+)/(\d+)", _shard, "is not a shard; write 3/8 for the third of eight")  # (3, 8)
amount = form(
    r"([0-9]+(?:\.[0-9]+)?)", lambda text: float(text) or None, "is not a number above 0; write e.g. 1 or 0.5"
)
share = form(_SHARE, _share, "is not a share; write 10% or 0.1")  # a fraction


def level(text: str) -> float:
    """A level of significance, `0.05` or `5%`."""
    value = share(text)
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a level of significance; write e.g. 0.05")
    return value
