"""The values of options, read from text. Each raises argparse.ArgumentTypeError that says what to write instead."""

import argparse
import re


def positive(text: str) -> int:
    """A whole number above 0."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def natural(text: str) -> int:
    """A whole number, 0 included."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number; write 0, 1, 2 …")
    return int(text)


def _numbers(text: str) -> tuple[int, ...]:
    """`15`, `3-6` or `5,10,20` as whole numbers; none for any other text."""
    match = re.fullmatch(r"(\d+)-(\d+)", text)
    if match:
        return tuple(range(int(match[1]), int(match[2]) + 1))
    return tuple(map(int, text.split(","))) if re.fullmatch(r"\d+(,\d+)*", text) else ()


def seeds(text: str) -> tuple[int, ...]:
    """`0`, `0-4` or `3,5,8`, in rising order."""
    numbers = _numbers(text)
    if not numbers or len(set(numbers)) < len(numbers):
        raise argparse.ArgumentTypeError(f"{text!r} are not seeds; write 0, 0-4 or 3,5,8, each once")
    return tuple(sorted(numbers))


def levels(text: str) -> tuple[int, ...]:
    """`8`, or several such as `1,4,16,64`, each measured by itself, in rising order."""
    numbers = _numbers(text) if "-" not in text else ()
    if not numbers or min(numbers) < 1 or len(set(numbers)) < len(numbers):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no number above 0, nor several; write 8, or 1,4,16,64, each once"
        )
    return tuple(sorted(numbers))


def lengths(text: str) -> tuple[int, ...]:
    """Values of n; each task says which of them it can have."""
    numbers = _numbers(text)
    if not numbers or min(numbers) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not an n; write 15, 3-6 or 5,10,20")
    return tuple(sorted(set(numbers)))


def device(text: str) -> str:
    """`cpu`, `cuda` or `mps`."""
    if text not in ("cpu", "cuda", "mps"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a device; write cpu, cuda or mps")
    return text


def shots(text: str) -> int:
    """A number of solved examples, 0 to 8."""
    if not re.fullmatch(r"[0-8]", text, re.ASCII):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of solved examples; write 0 to 8")
    return int(text)


def cot_answer(text: str) -> str:
    """`marked` or `whole`."""
    from pbcore.tasks.cot import ANSWERS

    if text not in ANSWERS:
        raise argparse.ArgumentTypeError(f"{text!r} is no part of an answer; write {' or '.join(ANSWERS)}")
    return text


def shard(text: str) -> tuple[int, int]:
    """`3/8` as (3, 8)."""
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise argparse.ArgumentTypeError(f"{text!r} is not a shard; write 3/8 for the third of eight")
    return int(match[1]), int(match[2])


def amount(text: str) -> float:
    """A number above 0, such as `1` or `0.5`."""
    if not re.fullmatch(r"\d+(\.\d+)?", text, re.ASCII) or float(text) <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0; write e.g. 1 or 0.5")
    return float(text)


def share(text: str) -> float:
    """`10%` or `0.1` as a fraction."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(%?)", text)
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share; write 10% or 0.1")
    return float(match[1]) / (100 if match[2] else 1)


def level(text: str) -> float:
    """A level of significance, `0.05` or `5%`."""
    value = share(text)
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a level of significance; write e.g. 0.05")
    return value
