"""pbcore.report.style: names at the ends of curves, and axes that fit."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from pbcore.report.looks import COLOURS, own_colours
from pbcore.report.style import CurveEnd, fitting_percent, name_ends, spread

HEIGHTS = st.lists(st.floats(0, 100), max_size=12).map(lambda given: sorted(given, reverse=True))


@given(HEIGHTS)
def test_names_keep_apart(heights: list[float]) -> None:
    """In their order, within the axis; names with room stay where they are."""
    placed = spread(heights, 5, -10, 110)
    assert len(placed) == len(heights)
    assert all(high - low >= 5 - 1e-9 for high, low in pairwise(placed))
    assert all(-10 - 1e-9 <= height <= 110 + 1e-9 for height in placed)
    if all(high - low >= 5 for high, low in pairwise(heights)):
        assert placed == pytest.approx(heights)


def test_a_pile_stands_around_its_ends() -> None:
    """Or above an axis' end."""
    assert spread([50, 50, 50], 4, 0, 100) == [54, 50, 46]
    assert spread([1, 1], 4, 0, 100) == [4, 0]


@pytest.mark.parametrize(
    ("scores", "low", "high", "ticks"),
    [
        ([91.2, 69.6, 62.0], 60, 100, [60, 70, 80, 90, 100]),
        ([86, 13], 10, 90, [20, 40, 60, 80]),
        ([0, 100], 0, 100, [0, 20, 40, 60, 80, 100]),
        ([float("nan"), 50], 40, 60, [40, 50, 60]),
        ([], 0, 100, [0, 20, 40, 60, 80, 100]),
    ],
)
def test_an_axis_fits_its_scores(
    scores: list[float], low: int, high: int, ticks: list[int]
) -> None:
    """From a multiple of ten to another."""
    axis = Figure().subplots()
    fitting_percent(axis, scores)
    assert list(axis.get_yticks()) == ticks
    bottom, top = axis.get_ylim()
    assert bottom < low <= bottom + (high - low) / 20
    assert top - (high - low) / 20 <= high < top


def test_a_name_that_has_room_stands_at_its_end() -> None:
    """Far ends don't move each other's names."""
    axis = Figure(figsize=(10, 4)).subplots()
    axis.set_xscale("log")
    axis.set_xlim(1, 64)
    axis.set_ylim(0, 100)
    name_ends(axis, [CurveEnd(2, 50, "a", "red"), CurveEnd(40, 50, "b", "red")])
    assert [text.get_position()[1] for text in axis.texts] == [50, 50]
    assert all(text.arrow_patch is None for text in axis.texts)  # type: ignore[attr-defined]


def test_eight_policies_have_eight_colours() -> None:
    """`wino`, whose usual colour is margin's, takes a free one."""
    names = ["random", "left_to_right", "confidence", "entropy", "margin", "threshold", "factor"]
    drawn = own_colours([*names, "wino"])
    assert {look["color"] for look in drawn.values()} == set(COLOURS)
    assert own_colours(["confidence"])["confidence"] == drawn["confidence"]
