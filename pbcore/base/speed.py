"""What speed can be, by the names that `--axis` takes."""

from typing import Literal

SpeedAxis = Literal[
    "tokens-per-step", "tokens-per-row", "tokens-per-forward", "calls", "rows", "tokens", "seconds"
]
