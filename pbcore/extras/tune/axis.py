"""What an answer costs on the axis of a tuning: calls, tokens forwarded, or seconds.

Seconds are those of a price list, since cells that share forwards have no times of their own; of a
model behind a server those of its requests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean

from pbcore.base.errors import InputError
from pbcore.costs.kinds import COST_NAMES, Cost
from pbcore.costs.lists import HERE
from pbcore.costs.price_list import PriceList
from pbcore.grid.capabilities import is_served
from pbcore.results.rundir import StoredCell
from pbcore.results.seconds import price_list, priced_seconds

AXES = ("calls", "tokens", "seconds")


@dataclass(frozen=True, slots=True)
class CostAxis:
    """An axis: its name, the words for a cost on it, and the mean seconds of a cell's answer (None
    where its record doesn't say, and on other axes). `prices` are those of the seconds, if they are
    a price list's.
    """

    name: Cost
    words: str
    seconds: Callable[[StoredCell], float | None] = lambda stored: None
    prices: PriceList | None = None


def axis_of(
    name: str, price: str | None, model: str, dtype: str | None, batch: int = 1
) -> CostAxis:
    """An axis.

    Args:
        name: one of AXES.
        price: the price list of the seconds; None for other axes, and for a server.
        model: the model's name.
        dtype: what it computes in; None: its own.
        batch: answers decoded together, for the price list.

    Raises:
        InputError: no such axis, or a price list that can't be had.
    """
    if name == "calls":
        return CostAxis("calls", "calls")
    if name == "tokens":
        return CostAxis("tokens", COST_NAMES["tokens"])
    if name != "seconds":
        raise InputError(f"--axis {name}: there are {', '.join(AXES)}")
    if is_served(model):
        return CostAxis("seconds", "seconds", _request_seconds)
    prices = price_list(price or HERE, model, dtype)

    def priced(stored: StoredCell) -> float | None:
        return priced_seconds(stored.cell, prices, batch)

    return CostAxis("seconds", f"seconds ({prices.name}, {prices.basis_text})", priced, prices)


def _request_seconds(stored: StoredCell) -> float | None:
    """Mean seconds of a request; those of answers kept from an earlier attempt have none."""
    seconds = [(sample.served or {}).get("seconds") for sample in stored.samples]
    known = [value for value in seconds if value is not None]
    return fmean(known) if known else None
