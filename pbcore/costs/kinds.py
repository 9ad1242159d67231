"""What answers cost and what speed can be, by the names that `--axis` takes."""

from collections.abc import Mapping
from typing import Literal

# Forwards in sequence (NFE), canvases forwarded, positions computed, seconds.
Cost = Literal["calls", "rows", "tokens", "seconds"]
COST_NAMES: Mapping[Cost, str] = {
    "calls": "forwards",
    "rows": "rows",
    "tokens": "tokens forwarded",
    "seconds": "seconds",
}
SpeedAxis = Literal["tokens-per-step", "tokens-per-forward", "tokens-per-row", Cost]
# What an axis counts: a cost, or what a rate is a rate of; of others speed is `speed_up`.
COUNTED: Mapping[SpeedAxis | None, Cost] = {
    "tokens-per-row": "rows",
    "tokens-per-forward": "calls",
    "calls": "calls",
    "rows": "rows",
    "tokens": "tokens",
    "seconds": "seconds",
}
