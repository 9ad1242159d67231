"""What the host knows of a batch's next step. One copy from the device ends a step and brings all
of it: which rows are done, how many masks each has, and whether anything went wrong. Nothing else
in a step need wait for the device.

R rows, L canvas positions, C slots of the active block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import NamedTuple

from pbcore.base.lazy_torch import Tensor, torch


class Slots(NamedTuple):
    """The slots (R, C) that the policy gets of each row."""

    place: Tensor  # index among the target positions
    column: Tensor  # index in the canvas
    inside: Tensor  # whether the row has it
    masked: Tensor  # whether it is a candidate

    def of(self, rows: Tensor) -> Slots:
        """Those of some rows (R',), by index."""
        return Slots(*(part[rows] for part in self))


@dataclass(frozen=True, slots=True)
class Outlook:
    """The rows' next step: its slots on the device, and on the host a number for each row."""

    slots: Slots
    done: Sequence[int]  # whether the row's answer is complete
    full: Sequence[int]  # whether its active block has no mask left, and the row leaves it
    opened: Sequence[int]  # whether it is about to enter a block whose end a forward decides
    block: Sequence[int]  # its active block
    start: Sequence[int]  # the first place of that
    stop: Sequence[int]  # the place behind its last
    count: Sequence[int]  # slots in that
    masked: Sequence[int]  # candidates, or with `gaps` all masks from the block on
    within: Sequence[int]  # candidates of the block
    shown: Sequence[int]  # slots with a token, if the policy reviews them
    reused: Sequence[int]  # whether a what-if row predicted all candidates

    @property
    def ends(self) -> bool:
        """Whether a row leaves its active block."""
        return any(self.full)

    def narrowed(self, width: int) -> Outlook:
        """The same with the first `width` slots of each row, if that are fewer."""
        if width >= self.slots.masked.shape[1]:
            return self
        return replace(self, slots=Slots(*(part[:, :width] for part in self.slots)))

    def of(self, numbers: Sequence[int], rows: Tensor) -> Outlook:
        """That of some rows: their `numbers`, and the same on the device (R',)."""
        values = ([getattr(self, name)[number] for number in numbers] for name in NUMBERS)
        return Outlook(self.slots.of(rows), *values)


NUMBERS = tuple(part.name for part in fields(Outlook) if part.name != "slots")


@dataclass(slots=True)
class Alarms:
    """What may have gone wrong in a step and waits to be read: flags on the device, each with the
    error that it stands for.
    """

    _flags: list[Tensor] = field(default_factory=list)
    _errors: list[Callable[[], Exception]] = field(default_factory=list)

    def ring(self, wrong: Tensor, error: Callable[[], Exception]) -> None:
        """Notes that `error()` is to be raised if any of `wrong` is set. The error is made later,
        so it must keep the tensors that it names.
        """
        self._flags.append(wrong.any())
        self._errors.append(error)

    def read(self, columns: Sequence[Tensor]) -> list[list[int]]:
        """The columns (R,) as lists, by one copy. Raises the first error whose flag is set."""
        rows = len(columns[0])
        packed = torch.cat([*columns, *(flag[None] for flag in self._flags)]).tolist()
        errors = self._errors
        self._flags = []
        self._errors = []
        for flag, error in zip(packed[rows * len(columns) :], errors, strict=True):
            if flag:
                raise error()
        return [packed[start : start + rows] for start in range(0, rows * len(columns), rows)]

    def check(self) -> None:
        """Raises the first error whose flag is set."""
        if self._flags:
            self.read([self._flags[0].new_zeros(1)])


def marked(canvas: Tensor, where: Tensor, slots: Tensor) -> Tensor:
    """The canvas positions (R, L) of some slots.

    Args:
        canvas: (R, L), for its shape.
        where: (R, C) canvas index of each slot.
        slots: (R, C) bool, which of them.
    """
    mark = torch.zeros(len(canvas), canvas.shape[1] + 1, dtype=torch.bool, device=canvas.device)
    return mark.scatter_(1, _target(canvas, where, slots), True)[:, :-1]


def written(canvas: Tensor, where: Tensor, slots: Tensor, values: Tensor) -> Tensor:
    """The canvas (R, L) with other values in some slots; the canvas itself stays.

    Args:
        canvas: (R, L).
        where: (R, C) canvas index of each slot.
        slots: (R, C) bool, which of them to write.
        values: (R, C); those of other slots are not read.
    """
    wider = torch.cat([canvas, canvas[:, :1]], dim=-1)
    return wider.scatter_(1, _target(canvas, where, slots), values)[:, :-1]


def _target(canvas: Tensor, where: Tensor, slots: Tensor) -> Tensor:
    """Where each slot (R, C) goes; those left out to a column behind the canvas."""
    return where.masked_fill(~slots, canvas.shape[1])
