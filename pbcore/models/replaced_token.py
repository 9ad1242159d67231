"""Tokens that were masked again or replaced during decoding."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Former:
    """A token that stood at a position of the canvas and was taken away: masked again, or replaced by another one.

    It was revealed at `step` with `confidence`; step `until` took it away (both 0-based).
    """

    position: int
    token: int
    step: int
    until: int
    confidence: float
