"""What speed can be, by the names that `--axis` takes."""

from typing import Literal

SpeedAxis = Literal[
    "tokens-per-step", "tokens-per-forward", "tokens-per-row", "calls", "rows", "tokens", "seconds"
]

MAX_LOSS = 5.0  # points that a fast sampler may lose to the reference, by default
