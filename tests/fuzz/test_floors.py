"""Floors: valid, or an InputError in one line; a valid one prints as it reads, to the last
digit.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from fractions import Fraction
from random import Random

import pytest

from pbcore.analysis.floors import Floor, broken_floors, parse_floor
from pbcore.base.errors import InputError
from pbcore.results.table_row import cell_row
from tests.fuzz.damage import damaged_text, noise
from tests.fuzz.outcomes import COUNTS, Silent, fuzz
from tests.results.factory import cell

CELLS = [
    cell(model, task, "confidence-k2")[0]
    for model in ("ideal", "tiny")
    for task in ("waiting_line/copy", "waiting_line/sort")
]
PATTERNS = [
    "tiny/copy/*",
    "*",
    "*/*/*-k1",
    "ideal/*/*",
    "tiny/[cs]o*/*",
    "tiny/copy/confidence-k2",
    "?iny/*",
    "[",
    "[!a]*",
    "[z-a]*",
    "**********",
]
METRICS = ["accuracy", "accuracy_strict", "nfe", "tokens_per_step", "rouge_l", "headline"]
FORM = re.compile(r"\s*\S+\s+[a-z][a-z0-9_]*\s*(>=|<=|>|<)\s*([0-9]+(?:\.[0-9]+)?)\s*(%?)\s*")


def floor(random: Random) -> str:
    """A floor that is valid or nearly so."""
    number = random.choice(
        [
            "0.98",
            "1",
            "98%",
            "57.1%",
            "0",
            "0.1234567",
            "100000000",
            "0.00001",
            "33.3 %",
            f"{random.random():.3%}",
            str(random.random()),
        ]
    )
    blank = random.choice(["", "", " ", "  "])
    sign = random.choice([">=", "<=", ">", "<"])
    text = f"{random.choice(PATTERNS)} {random.choice(METRICS)}{blank}{sign}{blank}{number}"
    return (
        noise(random)
        if random.random() < 0.05
        else damaged_text(random, text, random.choice([0, 0, 1, 3]))
    )


def check(text: str) -> None:
    floor = parse_floor(text)
    form = FORM.fullmatch(text)
    if form is None:
        raise Silent(text)
    assert floor.value == float(Fraction(form[2]) / (100 if form[3] else 1))
    assert parse_floor(str(floor)) == floor
    judged = broken_floors([floor], CELLS)
    values = {
        cell.id: cell_row(cell).get(floor.metric)
        for cell in CELLS
        if fnmatchcase(cell.id, floor.cells)
    }
    absurd = {
        cell.id for cell in CELLS if floor.metric in cell.scores and floor.value > 1
    }  # a score is at most 1
    broken = {
        name
        for name, value in values.items()
        if name in absurd or not isinstance(value, int | float) or not meets(value, floor)
    }
    assert {name for name, _ in judged} == (broken if values else {floor.cells})


def meets(value: float, floor: Floor) -> bool:
    """The comparison spelt out."""
    return (
        "=" in floor.sign if value == floor.value else (value > floor.value) == (">" in floor.sign)
    )


@pytest.mark.parametrize("count", COUNTS)
def test_floors(count: int) -> None:
    """Damaged floors against a few cells, with a second reading of number and sign."""
    fuzz("floors", count, floor, check, InputError)


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("* nfe>=0.1234567", "* nfe>=0.1234567"),
        ("* nfe<100000000", "* nfe<100000000"),
        ("* accuracy>=57.1%", "* accuracy>=0.571"),
        ("* nfe>0.00001", "* nfe>0.00001"),
    ],
)
def test_every_digit_is_printed(text: str, printed: str) -> None:
    """Seven digits, large and small numbers, and percentages: 57.1 % is 0.571 and nothing
    above it.
    """
    assert str(parse_floor(text)) == printed


@pytest.mark.parametrize("number", ["٣", "9" * 400, "0." + "0" * 400 + "1"])
def test_odd_numbers(number: str) -> None:
    """Digits of other scripts, and more of them than a number holds."""
    with pytest.raises(InputError, match="can't be parsed"):
        parse_floor(f"* nfe<={number}")
