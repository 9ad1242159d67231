"""The parts of a Step that the loop hands on as they are: what stays the same, where the slots are, the rows' counts.

R rows, C slots of the active block, V tokens.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from pbcore.lazy_torch import Tensor
from pbcore.models.counter_rng import Draw, uniform

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Setting:
    """What stays the same in all steps of a decoding."""

    asked: int  # A: largest number of target positions in the batch
    seed: int = 0
    mask_id: int = -1
    temperature: float = 0.0
    frequencies: Tensor | None = None  # (V,) float
    reach: str = "block"
    reads: str = "distributions"
    draw: Draw = uniform


@dataclass(frozen=True, slots=True)
class PerSlot:
    """Where the slots are."""

    inside: Tensor  # (R, C) bool
    position: Tensor  # (R, C) long
    column: Tensor  # (R, C) long


@dataclass(frozen=True, slots=True)
class PerRow:
    """Numbers of each row. `left` counts the masks of the whole canvas when it is asked for."""

    key: Tensor  # (R,) long
    index: Tensor  # (R,) long
    nfe: Tensor  # (R,) long
    slots: Tensor  # (R,) long
    size: Tensor  # (R,) long
    requested: Tensor  # (R,) long
    targets: Tensor  # (R,) long
    stale: Tensor  # (R,) bool
    left: Callable[[], Tensor]  # (R,) long


class Of(Generic[T]):
    """An attribute of a Step that one of its parts has: `seed = Of[int]("_setting")` reads `step._setting.seed`."""

    def __init__(self, part: str) -> None:
        self._part = part

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, step: Any, owner: type | None = None) -> T:
        return cast(T, getattr(getattr(step, self._part), self._name))
