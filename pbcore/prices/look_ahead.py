"""How many canvases `+ahead` takes, by a price list.

With N canvases a call is dearer, for it has more rows, and fewer calls are needed. How many fewer
was measured once (data/look_ahead.yaml, with the command): on `tiny`, and for block models, whose
guesses end with the block, on `tiny-block`. What a call of so many rows costs, and the work beside
it, says the price list. The number with the fewest seconds is taken; where none saves seconds, the
sampler stays alone. Other models and samplers save more calls or fewer, so this is a choice by
prices and no promise. The number stands in the sampler's name, and so in every record.
"""

import re
from dataclasses import dataclass, replace
from functools import cache
from math import floor

from pbcore.base.package_data import package_yaml
from pbcore.models.call_shape import CallShape
from pbcore.prices.price_list import PriceList

_OPEN = re.compile(r"\+ahead(?=\+|$)")  # without a number

PROMPT = 154  # tokens of a waiting-line question by `tiny`'s tokenizer
ANSWER = 32


def is_open(sampler: str) -> bool:
    """Whether a sampler's name has an `+ahead` without a number."""
    return _OPEN.search(sampler) is not None


@dataclass(frozen=True, slots=True)
class Saving:
    """What was measured with so many canvases: calls as a share of those of the sampler alone, and
    the rows of a call in the mean.
    """

    canvases: int
    calls: float
    rows: float


@cache
def savings(in_blocks: bool = False) -> tuple[Saving, ...]:
    """What was measured, by the number of canvases: of whole canvases, or of a block model."""
    measured = package_yaml("pbcore.prices", "look_ahead.yaml")
    return tuple(Saving(**row) for row in measured["blocks" if in_blocks else "whole"])


def usual_call(block: int | None) -> CallShape:
    """A call for a waiting-line question: of the whole canvas, or of a `block` of a block model."""
    if block is None:
        return CallShape(1, PROMPT + ANSWER, 0, ANSWER)
    return CallShape(1, block, PROMPT, block)


def seconds_of(
    prices: PriceList, sampler: str, call: CallShape, batch: int = 1
) -> dict[int, float]:
    """Seconds for each call that the sampler alone takes, by the number of canvases; 0: alone.

    Args:
        prices: of the model.
        sampler: the sampler alone.
        call: one call of it, of a single row; one with a context is a block model's.
        batch: answers decoded together.
    """
    own = prices.own_seconds(sampler, 1, batch)
    found = {0: prices.call_seconds(call, batch) + own}
    for saving in savings(in_blocks=call.context > 0):
        own = prices.own_seconds(f"{sampler}+ahead{saving.canvases}", 1, batch)
        seconds = _with_rows(prices, call, saving.rows, batch)
        found[saving.canvases] = saving.calls * (seconds + own)
    return found


def _with_rows(prices: PriceList, call: CallShape, rows: float, batch: int) -> float:
    """Seconds of a call with so many rows, between two whole numbers in proportion."""
    fewer = floor(rows)
    few, more = (
        prices.call_seconds(replace(call, rows=number), batch) for number in (fewer, fewer + 1)
    )
    return few + (rows - fewer) * (more - few)


def canvases_that_pay(prices: PriceList, sampler: str, call: CallShape, batch: int = 1) -> int:
    """The number of canvases with the fewest seconds, by `seconds_of`; 0 where looking ahead saves
    none.

    Args:
        prices: of the model.
        sampler: the sampler alone.
        call: one call of it, of a single row.
        batch: answers decoded together.
    """
    seconds = seconds_of(prices, sampler, call, batch)
    return min(seconds, key=lambda number: (seconds[number], number))


def with_canvases(sampler: str, prices: PriceList | None, call: CallShape, batch: int = 1) -> str:
    """A sampler's name with the number of canvases in place of an `+ahead` that has none, or
    without it where looking ahead doesn't pay.

    Args:
        sampler: its name.
        prices: of the model; None: the name stays, and `+ahead` means 16.
        call: one call of the sampler alone, of a single row.
        batch: answers decoded together.
    """
    if prices is None or not is_open(sampler):
        return sampler
    alone = _OPEN.sub("", sampler)
    number = canvases_that_pay(prices, alone, call, batch)
    return _OPEN.sub(f"+ahead{number}" if number else "", sampler)
