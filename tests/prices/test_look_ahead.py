"""How many canvases `+ahead` takes, by prices that are easy to reckon with."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest

from pbcore.models.call_shape import CallShape
from pbcore.names import parse
from pbcore.prices.look_ahead import canvases_that_pay, savings, usual_call, with_canvases
from pbcore.prices.price_list import OwnPrice, PriceList

CALL = usual_call(4)


@dataclass
class Calls:
    """A call's price, and that of each row."""

    call: float
    row: float

    def seconds(self, call: CallShape, batch: float, refresh: bool = False) -> float:
        return self.call + self.row * call.rows * batch


@dataclass
class Own:
    """Looking ahead's own work; nothing for samplers alone."""

    ahead: float = 0.0

    def of(self, sampler: str) -> OwnPrice:
        return OwnPrice(self.ahead if parse(sampler).ahead else 0.0)


def prices(call: float, row: float, ahead: float = 0.0) -> PriceList:
    calls: Any = Calls(call, row)
    return PriceList("test", "measured", "tiny", "float32", None, calls, Own(ahead))


def test_rows_for_nothing() -> None:
    """The most canvases, as these need the fewest calls."""
    assert (
        canvases_that_pay(prices(1.0, 0.0), "eb-0.1", CALL) == savings(in_blocks=True)[-1].canvases
    )


@pytest.mark.parametrize("listed", [prices(0.0, 1.0), prices(1.0, 0.0, ahead=1.0)])
def test_where_it_doesn_t_pay(listed: PriceList) -> None:
    """Where rows cost what a call does, or the work beside them, the sampler stays alone."""
    assert canvases_that_pay(listed, "eb-0.1", CALL) == 0
    assert with_canvases("eb-0.1+ahead+t0.5", listed, CALL) == "eb-0.1+t0.5"


def test_a_number_between() -> None:
    """The fewest seconds of all that were measured, here worked out by hand."""
    listed = prices(1.0, 0.04)
    seconds = {one.canvases: one.calls * (1 + 0.04 * one.rows) for one in savings(in_blocks=True)}
    number = canvases_that_pay(listed, "eb-0.1", CALL)
    assert number == min(seconds, key=seconds.__getitem__)
    assert seconds[number] < 1.04
    assert with_canvases("eb-0.1+ahead", listed, CALL) == f"eb-0.1+ahead{number}"


def test_a_batch_pays_for_each_of_its_rows() -> None:
    """What pays for one answer needn't for 32 together."""
    assert canvases_that_pay(prices(1.0, 0.01), "eb-0.1", CALL, batch=1) > 0
    assert canvases_that_pay(prices(1.0, 1.0), "eb-0.1", CALL, batch=32) == 0


def test_a_number_is_never_changed() -> None:
    """Neither is a name without looking ahead, nor any without prices."""
    for name in ("eb-0.1+ahead4", "eb-0.1"):
        assert with_canvases(name, prices(1.0, 0.0), CALL) == name
    assert with_canvases("eb-0.1+ahead", None, CALL) == "eb-0.1+ahead"
    assert parse("eb-0.1+ahead").ahead == 16


@pytest.mark.parametrize("in_blocks", [False, True])
def test_what_was_measured(in_blocks: bool) -> None:
    """More canvases, no more calls, and more rows of each."""
    rows = savings(in_blocks)
    assert [one.canvases for one in rows] == sorted({one.canvases for one in rows})
    assert all(few.calls >= more.calls and few.rows < more.rows for few, more in pairwise(rows))
    assert all(0 < one.calls < 1 <= one.rows <= one.canvases for one in rows)
