"""A ceiling as a number: the ideal model's expected accuracy and how it is known."""

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Interval

Share = Annotated[float, Interval(ge=0, le=1)]
Kind = Literal["closed", "exact", "sampled"]
KINDS: tuple[Kind, ...] = ("closed", "exact", "sampled")


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The ideal model's expected accuracy on a cell's samples under its sampler, in [0, 1]. `kind`: `closed`, by a
    formula; `exact`, by enumeration of all that can happen; `sampled`, by decoding, with a 95 % interval (`low` to
    `high`, which are the mean itself for the other kinds)."""

    mean: Share
    kind: Kind
    low: Share
    high: Share
