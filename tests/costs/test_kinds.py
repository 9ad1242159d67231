"""Kinds of cost and axes of speed."""

from typing import get_args

from pbcore.costs.kinds import COST_NAMES, COUNTED, Cost, SpeedAxis


def test_every_cost_is_an_axis_with_a_name() -> None:
    """And counts itself."""
    assert set(COST_NAMES) == set(get_args(Cost)) < set(get_args(SpeedAxis))
    assert {cost: COUNTED[cost] for cost in COST_NAMES} == {cost: cost for cost in COST_NAMES}


def test_rates_count_what_they_are_rates_of() -> None:
    """A step is no one cost."""
    rates = {axis: COUNTED.get(axis) for axis in get_args(SpeedAxis) if axis not in COST_NAMES}
    assert rates == {
        "tokens-per-step": None,
        "tokens-per-forward": "calls",
        "tokens-per-row": "rows",
    }
