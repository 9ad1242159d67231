"""The values of options: what is read from a text, and what is refused."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbcore.grid import option as kinds

READ: list[tuple[Callable[[str], Any], dict[str, Any]]] = [
    (kinds.positive, {"1": 1, "12": 12}),
    (kinds.natural, {"0": 0, "7": 7}),
    (kinds.seeds, {"0": (0,), "0-4": (0, 1, 2, 3, 4), "5,3,8": (3, 5, 8), "4-4": (4,)}),
    (kinds.lengths, {"15": (15,), "3-6": (3, 4, 5, 6), "10,5,10": (5, 10), "1": (1,)}),
    (kinds.shots, {"0": 0, "8": 8}),
    (kinds.shard, {"1/1": (1, 1), "3/8": (3, 8), "8/8": (8, 8)}),
    (kinds.share, {"10%": 0.1, "0.1": 0.1, "2.5%": 0.025, "3": 3.0, "0": 0.0}),
    (kinds.level, {"0.05": 0.05, "5%": 0.05}),
    (kinds.amount, {"1": 1.0, "0.5": 0.5}),
    (kinds.questions, {"0-99": "0-99", "3,5,8-20": "3,5,8-20", "copy=7": "copy=7"}),
]
REFUSED: list[tuple[Callable[[str], Any], list[str]]] = [
    (kinds.positive, ["0", "-1", "1.5", "", "x"]),
    (kinds.natural, ["-1", "1.5", "", "x"]),
    (kinds.seeds, ["3-1", "1,1", "1,", "", "-1", "1-2-3"]),
    (kinds.lengths, ["0", "0,3", "0-3", "6-3", "", "six"]),
    (kinds.shots, ["9", "-1", "", "10", "two"]),
    (kinds.shard, ["0/3", "4/3", "3", "3/", "1/0", "1/2/3"]),
    (kinds.share, ["-1", "10 %", "10%%", ".5", "", "1e3"]),
    (kinds.level, ["0", "1", "100%", "5"]),
    (kinds.amount, ["0", "0.0", "-1", "x", "1e3", ""]),
    (kinds.questions, ["", "x", "5-3", "3,2", "3,3", "1-5,4", "-1", "copy=", "=3", "0-1000000"]),
]


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [(kind, text, value) for kind, table in READ for text, value in table.items()],
)
def test_a_text_that_has_the_form_is_read(
    kind: Callable[[str], Any], text: str, value: Any
) -> None:
    """Numbers come sorted where they stand for a set; percent are shares of one."""
    assert kind(text) == value


@pytest.mark.parametrize(
    ("kind", "text"), [(kind, text) for kind, texts in REFUSED for text in texts]
)
def test_any_other_text_is_refused(kind: Callable[[str], Any], text: str) -> None:
    """The message quotes the text and says what it is not."""
    with pytest.raises(ArgumentTypeError, match=r"not (a|an|seeds|questions)") as raised:
        kind(text)
    assert repr(text) in str(raised.value)


@given(st.sets(st.integers(0, 300)).map(sorted))
def test_numbers_as_text_and_back(numbers: list[int]) -> None:
    """Numbers that rise are written as runs, and read again as they were."""
    text = kinds.numbers_text(numbers)
    assert not numbers or kinds.numbers_of(text) == tuple(numbers)
    assert text.count(",") <= len(numbers)
