"""The record of a ceiling: what the ideal model reaches on a cell's samples under its sampler."""

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Interval

Share = Annotated[float, Interval(ge=0, le=1)]
AccuracyKind = Literal["closed", "exact", "sampled"]
KINDS: tuple[AccuracyKind, ...] = ("closed", "exact", "sampled")


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The ideal model's expected accuracy on a cell's samples under its sampler, in [0, 1]. `kind`:
    `closed`, by a formula; `exact`, by enumeration of all that can happen; `sampled`, by decoding,
    with a 95 % interval (`low` to `high`, which are the mean itself for the other kinds).
    """

    mean: Share
    kind: AccuracyKind
    low: Share
    high: Share
