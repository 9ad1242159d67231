"""Counts of what a reader does with many damaged inputs: it reads or refuses each; anything else is
a fault.
"""

from __future__ import annotations

import re
import traceback
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import TypeVar

import pytest

from pbcore.base.errors import InputError

T = TypeVar("T")
COUNTS = (
    pytest.param(300, id="quick"),
    pytest.param(20_000, id="nightly", marks=pytest.mark.nightly),
)
MOST_LETTERS = 2_000
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


class Silent(Exception):
    """Something in the input was lost without a word."""


def fuzz(
    seed: str,
    count: int,
    make: Callable[[Random], T],
    check: Callable[[T], None],
    refusals: type[Exception] | tuple[type[Exception], ...] = InputError,
    share: float = 0.02,
) -> Counter[str]:
    """Checks `count` inputs and asserts that none is wrong, silent or a traceback.

    `check` returns for an input that was read rightly. It raises one of `refusals` for one that was
    refused; the message must be one line. AssertionError means wrong, Silent that something was
    lost, anything else a traceback. At least `share` of the inputs must be read, and as many
    refused: otherwise the inputs are too tame, or too wild, to show anything.
    """
    random = Random(f"{seed} {count}")
    outcomes = Counter[str]()
    faults = []
    for _ in range(count):
        given = make(random)
        outcome, trace = outcome_of(check, given, refusals)
        outcomes[outcome] += 1
        if trace and len(faults) < 5:
            faults.append(f"{outcome}: {ascii(given)[:3000]}\n{trace[-3000:]}")
    kinds = ("read", "refused", "wrong", "silent", "traceback")
    print(f"{seed}: {', '.join(f'{outcomes[kind]} {kind}' for kind in kinds)}")
    assert not faults, "\n".join([str(dict(outcomes)), *faults])
    assert outcomes["read"] >= share * count, outcomes
    assert not refusals or outcomes["refused"] >= share * count, outcomes
    return outcomes


def outcome_of(
    check: Callable[[T], None], given: T, refusals: type[Exception] | tuple[type[Exception], ...]
) -> tuple[str, str]:
    """The name of the outcome of one input, and the traceback of a fault."""
    try:
        check(given)
    except refusals as error:
        return (
            ("refused", "")
            if one_line(str(error))
            else ("wrong", f"its message is not one readable line: {str(error)!a:.1500}")
        )
    except AssertionError:
        return "wrong", traceback.format_exc()
    except Silent:
        return "silent", traceback.format_exc()
    except Exception:  # noqa: BLE001 - these are counted
        return "traceback", traceback.format_exc()
    return "read", ""


def one_line(message: str) -> bool:
    """Whether a message can be printed as a line: not empty, of a readable length, without control
    characters and lone surrogates.
    """
    return 0 < len(message) <= MOST_LETTERS and not CONTROL.search(message)
