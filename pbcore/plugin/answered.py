"""An answer of a cell, as the parts of the plugin pass it on."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pbcore.models.base import Generation
    from pbcore.tasks.base import Sample


class Answered(NamedTuple):
    """One sample's answer by one seed."""

    sample: Sample
    seed: int
    answer: Generation
