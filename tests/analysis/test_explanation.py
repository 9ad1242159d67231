"""pbcore.analysis.explanation: what run.json keeps, read back; what is said of a damaged one."""

from __future__ import annotations

from math import isnan, nan
from typing import Any

import pytest

from pbcore.analysis.explanation import Explanation, OptionShare, explanation_of
from pbcore.analysis.shares import Part
from pbcore.base.check import LoadError

SHARES = [
    OptionShare("shots", "1", "0", "shots 1 → 0", -2.5, -4.0, -1.0),
    OptionShare("seed", "0", "1", "seed 0 → 1", nan, nan, nan, why="open: it can't run"),
    OptionShare(
        "policy", "a", "b", "a → b", 1.0, nan, nan, Part(1.0, nan, nan), Part(0.5, 0.0, 1.0)
    ),
]
KEPT = Explanation(
    *("one", "two", "tiny", ["waiting_line/copy"], 20, 0.9, 0.8, -10.0, -12.0, -8.0),
    shares=SHARES,
    unexplained=Part(-0.5, nan, nan),
    unmeasured=["device cpu → cuda"],
)


def without(*path: str | int) -> dict[str, Any]:
    """The JSON without one of its fields."""
    data: Any = KEPT.to_json()
    part = data
    for name in path[:-1]:
        part = part[name]
    del part[path[-1]]
    found: dict[str, Any] = data
    return found


def test_reads_what_it_wrote() -> None:
    """Unknown numbers are null in JSON and NaN here."""
    data = KEPT.to_json()
    assert data["shares"][1]["points"] is None
    assert data["from"], data["gap"] == ("one", -10.0)
    found = explanation_of({"explanation": data})
    assert found is not None
    assert found.to_json() == data
    assert found.gap == KEPT.gap
    assert isnan(found.shares[1].part.points)


def test_runs_without_one() -> None:
    assert explanation_of({}) is None


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (without("from"), "field from is missing"),
        (without("shares", 0, "to"), "field shares.0.to is missing"),
        (KEPT.to_json() | {"n": "many"}, "field n is 'many'; it should be a valid integer"),
        ([], r"it is \[\]; it should be a valid dictionary"),
    ],
)
def test_damaged(data: Any, said: str) -> None:
    """The field, what is allowed, and what to do."""
    with pytest.raises(LoadError, match=f"its explanation: {said}; run pbcore explain again"):
        explanation_of({"explanation": data})
