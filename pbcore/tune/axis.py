"""What a sampler costs on the axis of a tuning: calls, tokens forwarded, or seconds at a price."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pbcore.errors import InputError
from pbcore.results.record import CellRecord

AXES = ("calls", "tokens", "seconds")


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis: its name, the words for a cost on it, and what a cell's answer costs on it in the
    mean (None where its record doesn't say).
    """

    name: str
    words: str
    of: Callable[[CellRecord], float | None]


def axis_of(name: str) -> Axis:
    """The axis of this name. Raises InputError for another one."""
    if name == "calls":
        return Axis("calls", "calls", _calls)
    raise InputError(f"--axis {name}: there are {', '.join(AXES)}")


def _calls(cell: CellRecord) -> float | None:
    """Forwards in sequence per answer, those that ran the prompt included."""
    if cell.nfe_mean is None:
        return None
    return cell.nfe_mean + (cell.prefill_mean or 0.0)
