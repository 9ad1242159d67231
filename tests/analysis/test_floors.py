"""pbcore.analysis.floors: any text is a floor that means what it says, or refused in one line."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from pbcore.analysis.floors import FloorError, broken_floors, parse_floor
from tests.results import factory
from tests.results.damage import ODD_TEXTS

PARTS = [
    "tiny/copy/*",
    "*",
    "[",
    "[!a]*",
    "accuracy",
    "nfe",
    "tokens_per_step",
    "seeds",
    "id",
    "dummy",
    "_",
    " ",
    "  ",
    "\t",
    ">=",
    "<=",
    ">",
    "<",
    "=",
    "==",
    "0.98",
    "98%",
    "%",
    "1",
    "0",
    "1.",
    ".5",
    "-1",
    "1e5",
    "nan",
    "inf",
    "٣",
    "9" * 20,
    "9" * 400,
    *ODD_TEXTS,
]


@pytest.mark.parametrize(
    "count", [pytest.param(500, id="quick"), pytest.param(20_000, id="nightly", marks=pytest.mark.nightly)]
)
def test_any_text(count: int) -> None:
    """Wrong and traceback are 0; what is read back from a floor's own text is that floor."""
    random, outcomes = Random(5), Counter[str]()
    cells = [factory.cell()[0]]
    for _ in range(count):
        if random.random() < 0.4:
            parts = [
                random.choice(PARTS[:4]),
                " ",
                random.choice(PARTS[4:10]),
                *random.choices(PARTS[14:19] + PARTS[20:26], k=2),
            ]
        else:
            parts = random.choices(PARTS, k=random.randrange(1, 8))
        text = "".join(parts)
        try:
            floor = parse_floor(text)
            broken = broken_floors([floor], cells)
        except FloorError as error:
            outcomes["told" if "\n" not in str(error) and len(str(error)) < 400 else "unclear"] += 1
        except Exception as error:  # noqa: BLE001 - the count of these is what the test asserts
            outcomes[f"traceback {type(error).__name__}: {error}"] += 1
        else:
            outcomes["read" if parse_floor(str(floor)) == floor and len(broken) <= 1 else "wrong"] += 1
    assert set(outcomes) == {"told", "read"}, outcomes
